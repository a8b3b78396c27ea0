"""The message classes of every API group, under the short names used throughout the project.

``core.Pod`` is ``k8s.io.api.core.v1.Pod``. Field names are Kubernetes' JSON names, so ``pod.spec.nodeName``
reads as in a manifest. Names that Python reserves (``continue``, ``from``, ``except``) need ``getattr``.
"""

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

API_MODULES = (
    meta, admissionregistration, apiextensions, apiregistration, apps, authentication, authorization,
    autoscaling_v1, autoscaling, batch, certificates, coordination, core, discovery, events, flowcontrol,
    metrics, networking, node, policy, rbac, resource, scheduling, storage,
)  # fmt: skip
"""Every module that defines kinds, for the registry in :mod:`wharfinger.api.kinds`."""

__all__ = [
    "API_MODULES", "admissionregistration", "apiextensions", "apiregistration", "apps", "authentication",
    "authorization", "autoscaling", "autoscaling_v1", "batch", "certificates", "coordination", "core",
    "discovery", "events", "flowcontrol", "intstr", "meta", "metrics", "networking", "node", "policy",
    "quantity", "rbac", "resource", "runtime", "scheduling", "storage",
]  # fmt: skip
