"""What follows from a pod's spec and status by pure computation, counted exactly as Kubernetes does.

The scheduler, the node agent, controllers and ``wharf describe`` must agree on these figures, so they are here once.
Amounts are integers: cpu in thousandths of a core, everything else in whole units (bytes for memory and storage), each
sum exact and then rounded up, as kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from wharfinger.api import quantity
from wharfinger.api.types import core, meta
from wharfinger.api.types import quantity as messages

QOSClass = Literal["Guaranteed", "Burstable", "BestEffort"]
Amounts = dict[str, int]

NONZERO_REQUESTS: Mapping[str, str] = {"cpu": "100m", "memory": "200Mi"}
"""What kube-scheduler assumes, for scoring only, of a container that requests nothing."""

_EMPTY: Mapping[str, str] = {}
_QOS_RESOURCES = ("cpu", "memory")


# --- resources --------------------------------------------------------------------------------------------------------


def effective_requests(pod: core.Pod, *, missing: Mapping[str, str] = _EMPTY) -> Amounts:
    """Return what a pod occupies on its node (``resource.PodRequests`` of kube-scheduler).

    Containers and sidecars (init containers that restart always) add up; an ordinary init container needs its own
    requests beside the sidecars started before it, and only the largest such moment counts; pod-level requests replace
    the sum for cpu, memory and huge pages; overhead comes on top. Where a status reports other resources than the spec
    (a resize under way), the larger counts. `missing` supplies requests of containers that name none. Raises ValueError
    for a malformed quantity.
    """
    return _rounded(_effective(pod, limits=False, missing=missing))


def effective_limits(pod: core.Pod) -> Amounts:
    """Return the limits of a pod as a whole, computed like :func:`effective_requests`; absent means without limit."""
    return _rounded(_effective(pod, limits=True, missing=_EMPTY))


def container_requests(container: core.Container) -> Amounts:
    """Return the requests of one container in the units of this module."""
    return _rounded(_nanos(container.resources.requests))


def container_limits(container: core.Container) -> Amounts:
    """Return the limits of one container in the units of this module."""
    return _rounded(_nanos(container.resources.limits))


def amount(resource: str, text: str) -> int:
    """Return one quantity in the units of this module: thousandths for cpu, whole units otherwise."""
    return quantity.milli_value(text) if resource == "cpu" else quantity.value(text)


def amounts(resources: Mapping[str, messages.Quantity]) -> Amounts:
    """Return a map of quantities, such as a node's allocatable, in the units of this module."""
    return {name: amount(name, item.string) for name, item in resources.items()}


def is_sidecar(container: core.Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.restartPolicy == "Always"


def _nanos(resources: Mapping[str, messages.Quantity], missing: Mapping[str, str] = _EMPTY) -> Amounts:
    # Not .items(): protobuf's maps make a slow one.
    found = {name: quantity.parse(resources[name].string or "0").nanos for name in resources}
    for name, text in missing.items():
        if name not in found:
            found[name] = quantity.parse(text).nanos
    return found


def _rounded(nanos: Mapping[str, int]) -> Amounts:
    return {
        name: -(-value // 1_000_000) if name == "cpu" else -(-value // quantity.NANO) for name, value in nanos.items()
    }


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if value > total.get(name, -1):
            total[name] = value


def _effective(pod: core.Pod, *, limits: bool, missing: Mapping[str, str]) -> Amounts:
    spec = pod.spec
    statuses = _resized(pod)

    def own(container: core.Container) -> Amounts:
        wanted = _nanos(container.resources.limits) if limits else _nanos(container.resources.requests, missing)
        status = statuses.get(container.name)
        if status is None:
            return wanted
        running = _nanos(status.resources.limits if limits else status.resources.requests)
        if not limits:
            _raise_to(running, _nanos(status.allocatedResources))
        if not _is_infeasible(pod):
            _raise_to(running, wanted)
        return running

    total: Amounts = {}
    for container in spec.containers:
        _add(total, own(container))
    if spec.initContainers:
        sidecars: Amounts = {}
        peak: Amounts = {}
        for container in spec.initContainers:
            needed = own(container)
            if is_sidecar(container):
                _add(total, needed)
                _add(sidecars, needed)
                _raise_to(peak, sidecars)
            else:
                _add(needed, sidecars)
                _raise_to(peak, needed)
        _raise_to(total, peak)
    if spec.HasField("resources"):
        whole = _nanos(spec.resources.limits if limits else spec.resources.requests)
        total.update({name: value for name, value in whole.items() if _is_pod_level(name)})
    if spec.overhead:
        overhead = _nanos(spec.overhead)
        if limits:  # overhead widens a limit, it never makes one
            overhead = {name: value for name, value in overhead.items() if name in total}
        _add(total, overhead)
    return total


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _resized(pod: core.Pod) -> dict[str, core.ContainerStatus]:
    return {
        status.name: status
        for statuses in (pod.status.containerStatuses, pod.status.initContainerStatuses)
        for status in statuses
        if status.HasField("resources")
    }


def _is_infeasible(pod: core.Pod) -> bool:
    return any(item.type == "PodResizePending" and item.reason == "Infeasible" for item in pod.status.conditions)


def qos_class(pod: core.Pod) -> QOSClass:
    """Return the quality of service that the spec asks for (see Kubernetes' page "Pod Quality of Service Classes")."""
    spec = pod.spec
    requests: Amounts = {}
    limits: Amounts = {}
    guaranteed = True
    if spec.HasField("resources") and (spec.resources.requests or spec.resources.limits):
        bearers: Iterable[core.ResourceRequirements] = (spec.resources,)
    else:
        bearers = (container.resources for container in (*spec.initContainers, *spec.containers))
    for resources in bearers:
        _add(requests, _counted(resources.requests))
        found = _counted(resources.limits)
        _add(limits, found)
        guaranteed = guaranteed and len(found) == len(_QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _counted(resources: Mapping[str, messages.Quantity]) -> Amounts:
    return {name: value for name, value in _nanos(resources).items() if name in _QOS_RESOURCES and value > 0}


# --- state ------------------------------------------------------------------------------------------------------------


def is_terminal(pod: core.Pod) -> bool:
    """Whether all containers have ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: core.Pod) -> bool:
    """Whether the pod is being deleted."""
    return pod.metadata.HasField("deletionTimestamp")


def is_ready(pod: core.Pod) -> bool:
    """Whether the pod may receive traffic."""
    found = condition(pod, "Ready")
    return found is not None and found.status == "True"


def condition(pod: core.Pod, condition_type: str) -> core.PodCondition | None:
    """Return one condition of a pod, if it is reported."""
    for item in pod.status.conditions:
        if item.type == condition_type:
            return item
    return None


def controller_of(metadata: meta.ObjectMeta) -> meta.OwnerReference | None:
    """Return the reference to the controller that owns an object, if one does."""
    for reference in metadata.ownerReferences:
        if reference.controller:
            return reference
    return None


def is_mirror(pod: core.Pod) -> bool:
    """Whether the pod only shows a static pod of its node."""
    return "kubernetes.io/config.mirror" in pod.metadata.annotations


def all_containers(pod: core.Pod) -> Iterator[core.Container]:
    """Return init containers, then containers."""
    yield from pod.spec.initContainers
    yield from pod.spec.containers


def host_ports(pod: core.Pod) -> Iterator[tuple[str, str, int]]:
    """Return (address, protocol, port) of each port on the host: containers and sidecars, as kube-scheduler counts."""
    sidecars = (container for container in pod.spec.initContainers if is_sidecar(container))
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            number = port.hostPort or (port.containerPort if pod.spec.hostNetwork else 0)
            if number > 0:
                yield port.hostIP or "0.0.0.0", port.protocol or "TCP", number


# --- taints -----------------------------------------------------------------------------------------------------------


def tolerates_taint(toleration: core.Toleration, taint: core.Taint) -> bool:
    """Whether one toleration covers a taint; an empty key or effect covers all."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def tolerates(tolerations: Iterable[core.Toleration], taint: core.Taint) -> bool:
    """Whether any of the tolerations covers a taint."""
    return any(tolerates_taint(toleration, taint) for toleration in tolerations)


def untolerated(
    tolerations: Iterable[core.Toleration], taints: Iterable[core.Taint], *, effects: Iterable[str]
) -> core.Taint | None:
    """Return the first taint with one of the effects that no toleration covers, or None."""
    known, wanted = tuple(tolerations), frozenset(effects)
    for taint in taints:
        if taint.effect in wanted and not tolerates(known, taint):
            return taint
    return None
