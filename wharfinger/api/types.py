"""The message classes of every API group, under the short names used throughout the project.

``core.Pod`` is ``k8s.io.api.core.v1.Pod``. Field names are Kubernetes' JSON names, so ``pod.spec.nodeName``
reads as in a manifest. Names that Python reserves (``continue``, ``from``, ``except``) need ``getattr``.

A group is loaded when it is first named (PEP 562): all of them together take a daemon 12 MB and a command a twentieth
of a second, and most need two or three.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wharfinger.proto.apimachinery import intstr_pb2 as intstr
    from wharfinger.proto.apimachinery import meta_v1_pb2 as meta
    from wharfinger.proto.apimachinery import quantity_pb2 as quantity
    from wharfinger.proto.apimachinery import runtime_pb2 as runtime
    from wharfinger.proto.k8s import admissionregistration_v1_pb2 as admissionregistration
    from wharfinger.proto.k8s import apiextensions_v1_pb2 as apiextensions
    from wharfinger.proto.k8s import apiregistration_v1_pb2 as apiregistration
    from wharfinger.proto.k8s import apps_v1_pb2 as apps
    from wharfinger.proto.k8s import authentication_v1_pb2 as authentication
    from wharfinger.proto.k8s import authorization_v1_pb2 as authorization
    from wharfinger.proto.k8s import autoscaling_v1_pb2 as autoscaling_v1
    from wharfinger.proto.k8s import autoscaling_v2_pb2 as autoscaling
    from wharfinger.proto.k8s import batch_v1_pb2 as batch
    from wharfinger.proto.k8s import certificates_v1_pb2 as certificates
    from wharfinger.proto.k8s import coordination_v1_pb2 as coordination
    from wharfinger.proto.k8s import core_v1_pb2 as core
    from wharfinger.proto.k8s import discovery_v1_pb2 as discovery
    from wharfinger.proto.k8s import events_v1_pb2 as events
    from wharfinger.proto.k8s import flowcontrol_v1_pb2 as flowcontrol
    from wharfinger.proto.k8s import metrics_v1beta1_pb2 as metrics
    from wharfinger.proto.k8s import networking_v1_pb2 as networking
    from wharfinger.proto.k8s import node_v1_pb2 as node
    from wharfinger.proto.k8s import policy_v1_pb2 as policy
    from wharfinger.proto.k8s import rbac_v1_pb2 as rbac
    from wharfinger.proto.k8s import resource_v1_pb2 as resource
    from wharfinger.proto.k8s import scheduling_v1_pb2 as scheduling
    from wharfinger.proto.k8s import storage_v1_pb2 as storage
    from wharfinger.proto.own import scheduling_v1alpha1_pb2 as gangs

MODULES: dict[str, str] = {
    "meta": "wharfinger.proto.apimachinery.meta_v1_pb2",
    "admissionregistration": "wharfinger.proto.k8s.admissionregistration_v1_pb2",
    "apiextensions": "wharfinger.proto.k8s.apiextensions_v1_pb2",
    "apiregistration": "wharfinger.proto.k8s.apiregistration_v1_pb2",
    "apps": "wharfinger.proto.k8s.apps_v1_pb2",
    "authentication": "wharfinger.proto.k8s.authentication_v1_pb2",
    "authorization": "wharfinger.proto.k8s.authorization_v1_pb2",
    "autoscaling_v1": "wharfinger.proto.k8s.autoscaling_v1_pb2",
    "autoscaling": "wharfinger.proto.k8s.autoscaling_v2_pb2",
    "batch": "wharfinger.proto.k8s.batch_v1_pb2",
    "certificates": "wharfinger.proto.k8s.certificates_v1_pb2",
    "coordination": "wharfinger.proto.k8s.coordination_v1_pb2",
    "core": "wharfinger.proto.k8s.core_v1_pb2",
    "discovery": "wharfinger.proto.k8s.discovery_v1_pb2",
    "events": "wharfinger.proto.k8s.events_v1_pb2",
    "flowcontrol": "wharfinger.proto.k8s.flowcontrol_v1_pb2",
    "metrics": "wharfinger.proto.k8s.metrics_v1beta1_pb2",
    "networking": "wharfinger.proto.k8s.networking_v1_pb2",
    "node": "wharfinger.proto.k8s.node_v1_pb2",
    "policy": "wharfinger.proto.k8s.policy_v1_pb2",
    "rbac": "wharfinger.proto.k8s.rbac_v1_pb2",
    "resource": "wharfinger.proto.k8s.resource_v1_pb2",
    "scheduling": "wharfinger.proto.k8s.scheduling_v1_pb2",
    "storage": "wharfinger.proto.k8s.storage_v1_pb2",
    "gangs": "wharfinger.proto.own.scheduling_v1alpha1_pb2",
    "intstr": "wharfinger.proto.apimachinery.intstr_pb2",
    "quantity": "wharfinger.proto.apimachinery.quantity_pb2",
    "runtime": "wharfinger.proto.apimachinery.runtime_pb2",
}
"""Where each name comes from."""

API_GROUPS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "v1"): (
        "meta",
        "core",
    ),
    ("admissionregistration.k8s.io", "v1"): ("admissionregistration",),
    ("apiextensions.k8s.io", "v1"): ("apiextensions",),
    ("apiregistration.k8s.io", "v1"): ("apiregistration",),
    ("apps", "v1"): ("apps",),
    ("authentication.k8s.io", "v1"): ("authentication",),
    ("authorization.k8s.io", "v1"): ("authorization",),
    ("autoscaling", "v1"): ("autoscaling_v1",),
    ("autoscaling", "v2"): ("autoscaling",),
    ("batch", "v1"): ("batch",),
    ("certificates.k8s.io", "v1"): ("certificates",),
    ("coordination.k8s.io", "v1"): ("coordination",),
    ("discovery.k8s.io", "v1"): ("discovery",),
    ("events.k8s.io", "v1"): ("events",),
    ("flowcontrol.apiserver.k8s.io", "v1"): ("flowcontrol",),
    ("metrics.k8s.io", "v1beta1"): ("metrics",),
    ("networking.k8s.io", "v1"): ("networking",),
    ("node.k8s.io", "v1"): ("node",),
    ("policy", "v1"): ("policy",),
    ("rbac.authorization.k8s.io", "v1"): ("rbac",),
    ("resource.k8s.io", "v1"): ("resource",),
    ("scheduling.k8s.io", "v1"): ("scheduling",),
    ("storage.k8s.io", "v1"): ("storage",),
    ("scheduling.wharfinger.dev", "v1alpha1"): ("gangs",),
}
"""The modules that define the kinds of a group and version, for the registry in :mod:`wharfinger.api.kinds`."""


def __getattr__(name: str) -> ModuleType:
    """Load a group's messages."""
    path = MODULES.get(name)
    if path is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(path)
    globals()[name] = module
    return module


__all__ = [
    "API_GROUPS", "MODULES", "admissionregistration", "apiextensions", "apiregistration", "apps",
    "authentication", "authorization", "autoscaling", "autoscaling_v1", "batch", "certificates", "coordination",
    "core", "discovery", "events", "flowcontrol", "gangs", "intstr", "meta", "metrics", "networking", "node", "policy",
    "quantity", "rbac", "resource", "runtime", "scheduling", "storage",
]  # fmt: skip
