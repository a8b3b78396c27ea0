"""What a pod asks of a node, in whole units: the sums that the resource plugins compare with a node's columns.

Kubernetes counts cpu in thousandths and everything else in whole units, both rounded up per container, *before*
summing. A pod needs, for each resource, the greater of

* the sum over its containers and its sidecars (init containers with ``restartPolicy: Always``), and
* the peak while its init containers run one after the other, beside the sidecars started so far,

then pod-level requests take the place of that, and the overhead of its runtime class comes on top. The rules are
those of ``k8s.io/component-helpers/resource`` and KEP-753, KEP-1287 (in-place resize) and KEP-2837 (pod-level
resources). Scores use a second sum, in which a container without a request counts as 100m and 200 MB, so that pods
that ask for nothing do not all land on one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.api import quantity
from wharfinger.api.types import core

Amounts = dict[str, int]
"""Resource name -> amount: cpu in thousandths, all others in whole units."""

DEFAULT_MILLI_CPU = 100
"""What a container without a cpu request counts as in scores."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What a container without a memory request counts as in scores, in bytes."""

_DEFAULTS: Amounts = {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY}


def amounts(resources: Mapping[str, Any]) -> Amounts:
    """Count a map of quantities; raises ValueError for one that is none."""
    return {
        name: quantity.milli_value(amount.string) if name == "cpu" else quantity.value(amount.string)
        for name, amount in resources.items()
    }


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if amount > total.get(name, -1):
            total[name] = amount


def pod_level_applies(resource: str) -> bool:
    """Whether a request at the level of the pod replaces the sum over its containers."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def pod_requests(pod: core.Pod, *, nonzero: bool = False) -> Amounts:
    """Return what the pod needs; with `nonzero`, containers without a request count with the defaults for scores.

    A bound pod that is being resized counts with the greatest of what it wants, what the node agent has granted and
    what it uses, or without what it wants if the node has said that this can never be.
    """
    spec = pod.spec
    at_pod_level = _pod_level(spec)
    missing = _DEFAULTS if nonzero else {}
    if nonzero and at_pod_level:
        plain = pod_requests(pod)
        missing = {name: amount for name, amount in _DEFAULTS.items() if name not in plain}
    granted = _granted(pod)
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _container(container, granted, missing))
    if spec.initContainers:
        _with_init_containers(total, spec.initContainers, granted, missing)
    total.update(at_pod_level)
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    return total


def _pod_level(spec: core.PodSpec) -> Amounts:
    if not spec.HasField("resources"):
        return {}
    return {name: value for name, value in amounts(spec.resources.requests).items() if pod_level_applies(name)}


def _with_init_containers(
    total: Amounts, containers: Iterable[core.Container], granted: Mapping[str, _Granted], missing: Amounts
) -> None:
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in containers:
        need = _container(container, granted, missing)
        if container.restartPolicy == "Always":
            _add(total, need)
            _add(sidecars, need)
            need = dict(sidecars)
        else:
            _add(need, sidecars)
        _raise_to(peak, need)
    _raise_to(total, peak)


_Granted = tuple[Amounts, bool]


def _granted(pod: core.Pod) -> dict[str, _Granted]:
    """Return by container name what the node has granted or uses, and whether that alone counts."""
    status = pod.status
    if not status.containerStatuses and not status.initContainerStatuses:
        return {}
    infeasible = any(
        condition.type == "PodResizePending" and condition.status == "True" and condition.reason == "Infeasible"
        for condition in status.conditions
    )
    result: dict[str, _Granted] = {}
    for statuses in (status.containerStatuses, status.initContainerStatuses):
        for entry in statuses:
            if not entry.HasField("resources"):
                continue
            most = amounts(entry.resources.requests)
            _raise_to(most, amounts(entry.allocatedResources))
            result[entry.name] = (most, infeasible)
    return result


def _container(container: core.Container, granted: Mapping[str, _Granted], missing: Amounts) -> Amounts:
    need = amounts(container.resources.requests)
    if container.name in granted:
        most, alone = granted[container.name]
        if alone:
            need = dict(most)
        else:
            _raise_to(need, most)
    for name, amount in missing.items():
        need.setdefault(name, amount)
    return need
