"""Amounts: from a pod's requests and limits to cgroup figures, and the sums that its status shows. Pure.

The cgroup arithmetic is kubelet's: 1024 shares a CPU, a quota per period of 100 ms.
https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeagent.runtime import Resources
from wharfinger.api import pods, quantity
from wharfinger.api.quantity import Quantity
from wharfinger.api.types import core
from wharfinger.api.types import quantity as quantity_messages

CPU_PERIOD = 100_000
"""Microseconds."""
MIN_SHARES, MAX_SHARES = 2, 262_144
MIN_QUOTA = 1_000
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000

Amounts = Mapping[str, quantity_messages.Quantity]


def amount(amounts: Amounts, name: str) -> Quantity | None:
    """Return one amount; None when it is not set."""
    return quantity.parse(amounts[name].string) if name in amounts else None


def cpu_shares(milli: int) -> int:
    """Return the weight for a request in thousandths of a CPU."""
    return max(MIN_SHARES, min(milli * 1024 // 1000, MAX_SHARES))


def cpu_quota(milli: int) -> int:
    """Return microseconds of CPU time a period for a limit in thousandths of a CPU; 0 without one."""
    return max(MIN_QUOTA, milli * CPU_PERIOD // 1000) if milli else 0


def container_resources(pod: core.Pod, container: core.Container, memory_capacity: int) -> Resources:
    """Return a container's cgroup figures; `memory_capacity` is the node's, in bytes."""
    wanted, limits = container.resources.requests, container.resources.limits
    cpu_limit, cpu_request = amount(limits, "cpu"), amount(wanted, "cpu")
    share_of = cpu_request or cpu_limit
    memory_limit = amount(limits, "memory")
    milli = cpu_limit.milli_value() if cpu_limit else 0
    return Resources(
        cpu_shares=cpu_shares(share_of.milli_value() if share_of else 0),
        cpu_quota=cpu_quota(milli),
        cpu_period=CPU_PERIOD,
        memory_limit=memory_limit.value() if memory_limit else 0,
        oom_score_adj=oom_score(pod, container, memory_capacity),
    )


def oom_score(pod: core.Pod, container: core.Container, memory_capacity: int) -> int:
    """Return how soon the kernel takes a container when memory runs out: the less it asked for, the sooner."""
    quality = qos_class(pod)
    if quality == "Guaranteed" or pod.spec.priorityClassName in ("system-node-critical",):
        return _GUARANTEED_SCORE
    if quality == "BestEffort":
        return _BEST_EFFORT_SCORE
    wanted = amount(container.resources.requests, "memory") or amount(container.resources.limits, "memory")
    score = 1000 - 1000 * (wanted.value() if wanted else 0) // max(memory_capacity, 1)
    return max(1000 + _GUARANTEED_SCORE, min(score, _BEST_EFFORT_SCORE - 1))


def qos_class(pod: core.Pod) -> str:
    """Return the pod's quality of service: the API's word, else computed from its spec."""
    return pod.status.qosClass or pods.qos_class(pod)


def pod_cgroup_resources(pod: core.Pod) -> Resources:
    """Return the figures of the pod's own cgroup: limits only when every container has one."""
    requests, limits = pods.effective_requests(pod), pods.effective_limits(pod)
    containers = list(pods.all_containers(pod))
    whole = pod.spec.resources.limits

    def bounded(name: str) -> bool:
        return name in whole or all(name in container.resources.limits for container in containers)

    return Resources(
        cpu_shares=cpu_shares(requests.get("cpu", 0)),
        cpu_quota=cpu_quota(limits.get("cpu", 0)) if bounded("cpu") else 0,
        cpu_period=CPU_PERIOD,
        memory_limit=limits.get("memory", 0) if bounded("memory") else 0,
    )


def total(sources: Iterable[Amounts]) -> dict[str, Quantity]:
    """Return the sum of each amount."""
    sums: dict[str, Quantity] = {}
    for source in sources:
        for name, one in source.items():
            parsed = quantity.parse(one.string)
            sums[name] = sums[name] + parsed if name in sums else parsed
    return sums


def pod_resources(pod: core.Pod, status: core.PodStatus) -> None:
    """Fill in what a status says of the pod as a whole."""
    requests = total(container.resources.requests for container in pod.spec.containers)
    limits = total(container.resources.limits for container in pod.spec.containers)
    status.resources.SetInParent()
    for name, one in requests.items():
        if name in ("cpu", "memory"):
            status.allocatedResources[name].string = str(one)
            status.resources.requests[name].string = str(one)
    for name, one in limits.items():
        if name in ("cpu", "memory"):
            status.resources.limits[name].string = str(one)
