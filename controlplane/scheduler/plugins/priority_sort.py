"""PrioritySort: higher priority first, then first come, first served."""

from __future__ import annotations

from controlplane.scheduler.framework import QueueSortPlugin
from controlplane.scheduler.podinfo import PodInfo


class PrioritySort(QueueSortPlugin):
    """Orders by priority; the queue itself keeps pods of equal keys in the order in which they came."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo) -> tuple[int, ...]:
        """Return the priority, highest first."""
        return (-pod.priority,)
