"""What the containers of a pod ask for together, for the rules about resources of the pod as a whole.

Init containers run one after the other before the rest; sidecars (init containers that restart) stay. So the pod
needs, per resource, the larger of: all regular containers and sidecars together, and each init container beside the
sidecars started before it. Source: "Sidecar Containers", section "Resource sharing within containers".
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.api import quantity
from wharfinger.api.types import core

Amounts = dict[str, quantity.Quantity]


def container_requests(spec: core.PodSpec) -> Amounts:
    """Return the requests of all containers together."""
    return _aggregate(spec, lambda container: dict(container.resources.requests))


def container_limits(spec: core.PodSpec) -> Amounts:
    """Return the limits of all containers together."""
    return _aggregate(spec, lambda container: dict(container.resources.limits))


def _aggregate(spec: core.PodSpec, read: Callable[[core.Container], dict[str, object]]) -> Amounts:
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _amounts(read(container)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        own = _amounts(read(container))
        if container.restartPolicy == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        for name, amount in own.items():
            if name not in peak or amount > peak[name]:
                peak[name] = amount
    for name, amount in peak.items():
        if name not in total or amount > total[name]:
            total[name] = amount
    return total


def _amounts(resources: dict[str, object]) -> Amounts:
    return {name: quantity.parse(amount.string or "0") for name, amount in resources.items()}  # type: ignore[attr-defined]


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
