"""What objects count for in a ResourceQuota: the names that a quota may bound, and how much of each an object uses.

The apiserver asks when it admits an object, the quota controller when it counts what is there: the same figures. Rules:
"Resource Quotas" in Kubernetes' documentation.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.api import pods, quantity
from wharfinger.api.quantity import Quantity
from wharfinger.api.types import core

Usage = dict[str, Quantity]

COUNT = "count/"
_ONE = Quantity.of(1)
_NONE = Quantity.of(0)
_LEGACY = frozenset(
    {
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims",
    }
)  # fmt: skip
"""Resources of the core group that may be counted by their bare name."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_REQUIRED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""What each container must state once it is bounded."""
_OF_CLASS = ".storageclass.storage.k8s.io/"


def counted_kind(name: str) -> tuple[str, str] | None:
    """Return group and resource of the objects that a name of a quota is about; None for a name that counts nothing."""
    if name.startswith(COUNT):
        resource, _, group = name[len(COUNT) :].partition(".")
        return group, resource
    if name in _LEGACY:
        return "", name
    if name.startswith("services."):
        return "", "services"
    if name == "requests.storage" or _OF_CLASS in name:
        return "", "persistentvolumeclaims"
    if name in _COMPUTE or name.startswith(("requests.", "limits.", "hugepages-")):
        return "", "pods"
    return None


def usage(group_resource: str, obj: Any) -> Usage:
    """Return what an object uses, by all names under which it may be bounded."""
    found = {COUNT + group_resource: _ONE}
    if group_resource == "pods":
        found.update(_of_pod(obj))
        return found
    if group_resource in _LEGACY:
        found[group_resource] = _ONE
    if group_resource == "services":
        found.update(_of_service(obj))
    elif group_resource == "persistentvolumeclaims":
        found.update(_of_claim(obj))
    return found


def _of_pod(pod: core.Pod) -> Usage:
    """A pod that has ended, or should have by now, only counts as an object."""
    metadata = pod.metadata
    overdue = metadata.HasField("deletionTimestamp") and metadata.HasField("deletionGracePeriodSeconds")
    if pods.is_terminal(pod) or (
        overdue and time.time() > metadata.deletionTimestamp.seconds + metadata.deletionGracePeriodSeconds
    ):
        return {}
    return {"pods": _ONE, **compute(pods.effective_requests(pod), pods.effective_limits(pod))}


def compute(requests: Mapping[str, int], limits: Mapping[str, int]) -> Usage:
    """Return requests and limits (units of :mod:`wharfinger.api.pods`) under the names that quotas have for them."""
    found: Usage = {}
    for name, amount in requests.items():
        size = _quantity(name, amount)
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] = size
        found[f"requests.{name}"] = size
    for name, amount in limits.items():
        if name in _COMPUTE:
            found[f"limits.{name}"] = _quantity(name, amount)
    return found


def _quantity(name: str, amount: int) -> Quantity:
    if name == "cpu":
        return Quantity.of_milli(amount)
    return Quantity.of(amount, "BinarySI" if name in _COMPUTE or name.startswith("hugepages-") else "DecimalSI")


def _of_service(service: core.Service) -> Usage:
    spec = service.spec
    ports = 0
    if spec.type == "NodePort":
        ports = len(spec.ports)
    elif spec.type == "LoadBalancer":
        given = not spec.HasField("allocateLoadBalancerNodePorts") or spec.allocateLoadBalancerNodePorts
        ports = len(spec.ports) if given else sum(bool(port.nodePort) for port in spec.ports)
    return {
        "services.nodeports": Quantity.of(ports),
        "services.loadbalancers": _ONE if spec.type == "LoadBalancer" else _NONE,
    }


def _of_claim(claim: core.PersistentVolumeClaim) -> Usage:
    requests = claim.spec.resources.requests
    storage = quantity.parse(requests["storage"].string if "storage" in requests else "0")
    if "storage" in claim.status.allocatedResources:
        storage = max(storage, quantity.parse(claim.status.allocatedResources["storage"].string or "0"))
    found = {"requests.storage": storage}
    if name := claim.spec.storageClassName:
        found[f"{name}{_OF_CLASS}requests.storage"] = storage
        found[f"{name}{_OF_CLASS}persistentvolumeclaims"] = _ONE
    return found


# --- scopes


def in_scope(quota: core.ResourceQuota, group_resource: str, obj: Any) -> bool:
    """Whether a quota is about an object at all. A quota with scopes is about pods alone."""
    spec = quota.spec
    if not spec.scopes and not spec.scopeSelector.matchExpressions:
        return True
    if group_resource != "pods":
        return False
    return all(_scope(obj, scope, "Exists", ()) for scope in spec.scopes) and all(
        _scope(obj, item.scopeName, item.operator, item.values) for item in spec.scopeSelector.matchExpressions
    )


def _scope(pod: core.Pod, scope: str, operator: str, values: Iterable[str]) -> bool:
    match scope:
        case "Terminating":
            return pod.spec.HasField("activeDeadlineSeconds")
        case "NotTerminating":
            return not pod.spec.HasField("activeDeadlineSeconds")
        case "BestEffort":
            return pods.qos_class(pod) == "BestEffort"
        case "NotBestEffort":
            return pods.qos_class(pod) != "BestEffort"
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(pod)
        case "PriorityClass":
            name = pod.spec.priorityClassName
            match operator:
                case "Exists":
                    return bool(name)
                case "DoesNotExist":
                    return not name
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
    return False


def _crosses_namespaces(pod: core.Pod) -> bool:
    affinity = pod.spec.affinity
    for sort in (affinity.podAffinity, affinity.podAntiAffinity):
        preferred = [item.podAffinityTerm for item in sort.preferredDuringSchedulingIgnoredDuringExecution]
        for term in (*sort.requiredDuringSchedulingIgnoredDuringExecution, *preferred):
            if term.namespaces or term.HasField("namespaceSelector"):
                return True
    return False


def unstated(pod: core.Pod, bounded: Iterable[str]) -> str:
    """Return what containers must state because a quota bounds it, as Kubernetes says it; empty when all do."""
    required = sorted(_REQUIRED.intersection(bounded))
    whole = pod.spec.resources
    if not required or whole.requests or whole.limits:
        return ""
    missing: dict[str, list[str]] = {}
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        stated = compute(pods.container_requests(container), pods.container_limits(container))
        for name in required:
            if name not in stated:
                missing.setdefault(name, []).append(container.name)
    return "; ".join(f"{name} for: {','.join(sorted(containers))}" for name, containers in missing.items())


# --- arithmetic


def read(amounts: Any) -> Usage:
    """Read a map of quantities of a message."""
    return {name: quantity.parse(amounts[name].string or "0") for name in amounts}


def write(amounts: Any, values: Usage) -> None:
    """Replace a map of quantities of a message."""
    amounts.clear()
    for name in sorted(values):
        amounts[name].string = str(values[name])


def shown(amounts: Usage) -> str:
    """Return amounts as messages name them: ``cpu=1,memory=1Gi``."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
