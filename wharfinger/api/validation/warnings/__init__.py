"""Speaks up about what is allowed and yet probably wrong: deprecated fields, values that nobody will look at.

Warnings travel beside the answer (``Warning`` headers); nothing depends on them. The questions come at four moments:
:func:`creating` and :func:`updating` judge an object that is valid, :func:`deleting` the options of a deletion, and
:func:`deprecation` an API as such, whatever the request does with it.

Pods are only judged when they are made and workloads only when their specification changes: warnings are for people,
and what controllers write all day need not be read again each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from wharfinger.api.types import apiextensions, apps, batch, core, discovery, meta, networking, node, storage
from wharfinger.api.validation.warnings import others, pods, volumes, workloads

__all__ = ["creating", "deleting", "deprecation", "updating"]

_CREATING: dict[type[Message], Callable[[Any], list[str]]] = {
    core.Pod: pods.of_pod,
    core.PodTemplate: workloads.of_pod_template,
    core.ReplicationController: workloads.of_named_workload,
    apps.ReplicaSet: workloads.of_named_workload,
    apps.Deployment: workloads.of_named_workload,
    apps.StatefulSet: workloads.of_stateful_set,
    apps.DaemonSet: workloads.of_daemon_set,
    batch.Job: workloads.of_job,
    batch.CronJob: workloads.of_cron_job,
    core.Service: others.of_service,
    core.Endpoints: others.of_endpoints,
    discovery.EndpointSlice: others.of_slice,
    core.Secret: others.of_secret,
    core.Node: others.of_node,
    core.ServiceAccount: others.of_account,
    core.PersistentVolume: volumes.of_volume,
    core.PersistentVolumeClaim: volumes.of_claim,
    storage.StorageClass: volumes.of_storage_class,
    node.RuntimeClass: others.of_runtime_class,
    networking.Ingress: others.of_ingress,
    networking.NetworkPolicy: others.of_network_policy,
    apiextensions.CustomResourceDefinition: others.of_definition,
}

_NOT_ON_UPDATE: frozenset[type[Message]] = frozenset({core.Pod, networking.Ingress, discovery.EndpointSlice})
_ON_NEW_GENERATIONS: frozenset[type[Message]] = frozenset(
    {core.ReplicationController, apps.ReplicaSet, apps.Deployment, apps.StatefulSet, apps.DaemonSet, batch.Job,
     batch.CronJob}
)  # fmt: skip

_DEPRECATED: dict[type[Message], str] = {
    core.Endpoints: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    core.ComponentStatus: "v1 ComponentStatus is deprecated in v1.19+",
}

_KEPT_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


def creating(obj: Message) -> list[str]:
    """Return what to say about a new object."""
    rule = _CREATING.get(type(obj))
    return rule(obj) if rule is not None else []


def updating(obj: Any, old: Any) -> list[str]:
    """Return what to say about a changed object (not about changes through a subresource)."""
    cls = type(obj)
    rule = _CREATING.get(cls)
    if rule is None or cls in _NOT_ON_UPDATE:
        return []
    if cls in _ON_NEW_GENERATIONS:
        return workloads.of_change(obj) if obj.metadata.generation != old.metadata.generation else []
    if cls is core.ServiceAccount and others.of_account(old):
        return []
    return rule(obj)


def deleting(cls: type[Message], options: meta.DeleteOptions) -> list[str]:
    """Return what to say about deleting an object of a kind with these options."""
    if cls is batch.Job and not options.HasField("propagationPolicy") and not options.HasField("orphanDependents"):
        return [_KEPT_PODS]
    return []


def deprecation(cls: type[Message]) -> str:
    """Return what to say about every request for a kind, also one that fails; empty for nearly all."""
    return _DEPRECATED.get(cls, "")
