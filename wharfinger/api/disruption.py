"""The condition DisruptionTarget: why a pod is being ended by something other than its owner or its node.

Kubernetes' components patch the pod's status and then delete the pod. Here the reason can travel with the delete: mark
and condition are one write, so no pod is ever marked as a target that is not going, and a scheduler that makes room
for thousands of pods writes half as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api import pods, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from wharfinger.api.types import core

CONDITION = "DisruptionTarget"


def marker(reason: str, message: str) -> Callable[[core.Pod], None]:
    """Return a function that gives a pod the condition; a pod that had it keeps the time of its transition."""

    def mark(pod: core.Pod) -> None:
        condition = pods.condition(pod, CONDITION)
        if condition is None:
            condition = pod.status.conditions.add(type=CONDITION)
        if condition.status != "True":
            condition.status = "True"
            condition.lastTransitionTime.CopyFrom(times.now())
        condition.reason, condition.message = reason, message

    return mark


def patch(uid: str | None, reason: str, message: str, *, phase: str = "") -> dict[str, Any]:
    """Return the strategic patch of a pod's status that does the same, for who deletes by a request of its own."""
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": times.format_seconds(times.now().seconds),
    }
    status: dict[str, Any] = {"conditions": [condition]}
    if phase:
        status["phase"] = phase
    return {"metadata": {"uid": uid} if uid else {}, "status": status}
