"""The condition DisruptionTarget: why a pod is being ended by something other than its owner or its node.

Kubernetes' components patch the pod's status and then delete the pod. Here the reason can travel with the delete: mark
and condition are one write, so no pod is ever marked as a target that is not going, and a scheduler that makes room
for thousands of pods writes half as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
