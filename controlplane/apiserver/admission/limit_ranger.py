"""LimitRanger: a namespace's bounds for single containers, pods and claims, and what containers get that say nothing.

Two steps, as in Kubernetes: the defaults are filled in early, so that later steps see them, and the bounds are checked
when all others have completed the pod. A container's limits and requests are settled when its pod is created; a change
of a running one (``resize``) is checked, not completed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.admission.bounded import NamespacesWith
from wharfinger.api import pods, quantity
from wharfinger.api.errors import ForbiddenError
from wharfinger.api.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind
    from wharfinger.api.types import core

_PREFIX = "/registry/limitranges/"
ANNOTATION = "kubernetes.io/limit-ranger"
_CONTAINER, _POD, _CLAIM = "Container", "Pod", "PersistentVolumeClaim"

Amounts = dict[str, Quantity]


class _Limits(Step):
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._bounded = NamespacesWith(cache, _PREFIX)

    def _ranges(self, namespace: str) -> list[core.LimitRange]:
        if namespace not in self._bounded:
            return []
        return [entry.decoded for entry in self._cache.list(_PREFIX, namespace=namespace).entries]


class LimitRanger(_Limits):
    """Completes new pods."""

    name: ClassVar[str] = "LimitRanger"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods."""
        return operation == "create" and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Fill in requests and limits, and note which."""
        said: list[str] = []
        for one in self._ranges(request.namespace):
            limits, requests = defaults_of(one)
            for what, containers in (("container", obj.spec.containers), ("init container", obj.spec.initContainers)):
                for container in containers:
                    said += fill(container, what, limits=limits, requests=requests)
        if said:
            obj.metadata.annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(said)}"
        return None


class LimitRangerCheck(_Limits):
    """Checks pods and claims."""

    name: ClassVar[str] = "LimitRanger"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods and their resizes; claims that are new or changed."""
        return operation in ("create", "update") and kind.group_resource in ("pods", "persistentvolumeclaims")

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse what is out of bounds, with all that is."""
        resource = request.kind.resource
        if old is not None and (old.metadata.HasField("deletionTimestamp") or _is_irrelevant(request)):
            return None
        if old is None and request.subresource:
            return None
        check = pod_violations if resource == "pods" else claim_violations
        found = [text for one in self._ranges(request.namespace) for text in check(obj, one)]
        if found:
            text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            name = obj.metadata.name
            raise ForbiddenError(f'{resource} "{name}" is forbidden: {text}', name=name, kind=resource)
        return None


def _is_irrelevant(request: Request) -> bool:
    """Whether an update cannot change what is bounded."""
    if request.kind.resource == "pods":
        return request.subresource != "resize"
    return bool(request.subresource)


# --- defaults


def defaults_of(one: core.LimitRange) -> tuple[dict[str, str], dict[str, str]]:
    """Return the limits and requests that a range gives to containers without."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in one.spec.limits:
        if item.type == _CONTAINER:
            limits.update({name: item.default[name].string for name in item.default})
            requests.update({name: item.defaultRequest[name].string for name in item.defaultRequest})
    return limits, requests


def fill(
    container: core.Container, what: str, *, limits: Mapping[str, str], requests: Mapping[str, str]
) -> Iterator[str]:
    """Complete a container; returns what was set, in words."""
    for word, own, wanted in (
        ("request", container.resources.requests, requests),
        ("limit", container.resources.limits, limits),
    ):
        missing = sorted(name for name in wanted if name not in own)
        for name in missing:
            own[name].string = wanted[name]
        if missing:
            yield f"{', '.join(missing)} {word} for {what} {container.name}"


# --- bounds


def pod_violations(pod: core.Pod, one: core.LimitRange) -> Iterator[str]:
    """Return what of a pod is out of a range's bounds."""
    for item in one.spec.limits:
        if item.type == _CONTAINER:
            for container in (*pod.spec.containers, *pod.spec.initContainers):
                resources = container.resources
                yield from _violations(item, _quantities(resources.requests), _quantities(resources.limits))
        elif item.type == _POD:
            yield from _violations(item, _of_pod(pods.effective_requests(pod)), _of_pod(pods.effective_limits(pod)))


def claim_violations(claim: core.PersistentVolumeClaim, one: core.LimitRange) -> Iterator[str]:
    """Return what of a claim is out of a range's bounds."""
    requests = _quantities(claim.spec.resources.requests)
    for item in one.spec.limits:
        if item.type != _CLAIM:
            continue
        for name, bound in _quantities(item.min).items():
            if requests.get(name, bound) < bound:
                yield f"minimum {name} usage per {item.type} is {bound}, but request is {requests[name]}"
        for name, bound in _quantities(item.max).items():
            if bound < requests.get(name, bound):
                yield f"maximum {name} usage per {item.type} is {bound}, but request is {requests[name]}"


def _violations(item: core.LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    per = item.type
    for name, bound in _quantities(item.min).items():
        usage = f"minimum {name} usage per {per} is {bound}"
        if name not in requests:
            yield f"{usage}.  No request is specified"
        elif requests[name] < bound:
            yield f"{usage}, but request is {requests[name]}"
        if name in limits and limits[name] < bound:
            yield f"{usage}, but limit is {limits[name]}"
    for name, bound in _quantities(item.max).items():
        usage = f"maximum {name} usage per {per} is {bound}"
        if name not in limits:
            yield f"{usage}.  No limit is specified"
        elif bound < limits[name]:
            yield f"{usage}, but limit is {limits[name]}"
        if name in requests and bound < requests[name]:
            yield f"{usage}, but request is {requests[name]}"
    for name, bound in _quantities(item.maxLimitRequestRatio).items():
        usage = f"{name} max limit to request ratio per {per} is {bound}"
        request, limit = requests.get(name), limits.get(name)
        if request is None or not request:
            yield f"{usage}, but no request is specified or request is 0"
        elif limit is None or not limit:
            yield f"{usage}, but no limit is specified or limit is 0"
        elif limit.nanos * quantity.NANO > bound.nanos * request.nanos:
            yield f"{usage}, but provided ratio is {limit.nanos / request.nanos:f}"


def _quantities(resources: Any) -> Amounts:
    return {name: quantity.parse(resources[name].string or "0") for name in sorted(resources)}


def _of_pod(amounts: Mapping[str, int]) -> Amounts:
    return {
        name: Quantity.of_milli(amount)
        if name == "cpu"
        else Quantity.of(amount, "BinarySI" if "memory" in name or "storage" in name else "DecimalSI")
        for name, amount in sorted(amounts.items())
    }
