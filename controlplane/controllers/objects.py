"""Small questions that several controllers ask of objects, and small changes they make to them.

Only what reconcilers need and what is the same for every kind; each function is pure.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from wharfinger.api.pods import is_ready, is_terminal, tolerates_taint
from wharfinger.api.types import core, meta

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Condition", "condition_of", "condition_status", "controller_of", "deleting", "is_active", "is_available",
    "is_ready", "is_terminal", "key_of", "seconds_of", "split_key", "toleration_for", "wall_time",
]  # fmt: skip


class Condition(Protocol):
    """What conditions of every kind have."""

    type: str
    status: str


C = TypeVar("C", bound=Condition)


def key_of(obj: Any) -> str:
    """Return ``namespace/name``, or the bare name of an object outside namespaces: the key of informers and queues."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def split_key(key: str) -> tuple[str, str]:
    """Return (namespace, name) of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def deleting(obj: Any) -> bool:
    """Whether the object's deletion has begun."""
    return bool(obj.metadata.HasField("deletionTimestamp"))


def condition_of(conditions: Iterable[C], condition_type: str) -> C | None:
    """Find a condition by its type."""
    for condition in conditions:
        if condition.type == condition_type:
            return condition
    return None


def condition_status(conditions: Iterable[C], condition_type: str) -> str:
    """Return a condition's status; empty when it is missing."""
    condition = condition_of(conditions, condition_type)
    return condition.status if condition is not None else ""


def controller_of(obj: Any) -> meta.OwnerReference | None:
    """Return the reference to the object's managing controller."""
    for reference in obj.metadata.ownerReferences:
        if reference.controller:
            return reference  # type: ignore[no-any-return]
    return None


def is_active(pod: core.Pod) -> bool:
    """Whether a pod counts towards its owner's replicas."""
    return not is_terminal(pod) and not deleting(pod)


def seconds_of(stamp: meta.Time) -> float:
    """Return a Time as seconds since the epoch; 0 when unset."""
    return stamp.seconds + stamp.nanos / 1e9


def is_available(pod: core.Pod, *, min_ready_seconds: int, now: float) -> bool:
    """Whether a pod has been ready for `min_ready_seconds`; `now` is wall-clock seconds.

    As Kubernetes does, this compares our clock with the stamp of the pod's node. It only paces roll-outs; nothing is
    evicted or fenced by it.
    """
    ready = condition_of(pod.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        return False
    return min_ready_seconds == 0 or seconds_of(ready.lastTransitionTime) + min_ready_seconds <= now


def wall_time(now: float | None = None) -> meta.Time:
    """Return a Time of whole seconds, as Kubernetes stores them; `now` is wall-clock seconds."""
    return meta.Time(seconds=int(time.time() if now is None else now), nanos=0)


def toleration_for(tolerations: Iterable[core.Toleration], taint: core.Taint) -> core.Toleration | None:
    """Return the first toleration that is for the taint."""
    return next((toleration for toleration in tolerations if tolerates_taint(toleration, taint)), None)
