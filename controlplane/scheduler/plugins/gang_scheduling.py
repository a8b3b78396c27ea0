"""GangScheduling: members of a PodGroup are not looked at before there are enough of them; then in one go.

Deciding them together is the engine's work (:mod:`..gangplacing`), since no filter of single pods could do it.
"""

from __future__ import annotations

from controlplane.scheduler.framework import PreEnqueuePlugin, Refusal
from controlplane.scheduler.gangs import PLUGIN
from controlplane.scheduler.podinfo import PodInfo


class GangScheduling(PreEnqueuePlugin):
    """Keeps members out of the queue until ``minMember`` of them are there, without scheduling gates."""

    name = PLUGIN

    def gate(self, pod: PodInfo) -> Refusal | None:
        """Return what the gang lacks."""
        return pod.gang.refusal() if pod.gang is not None else None
