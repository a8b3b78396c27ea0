"""SchedulingGates: a pod with gates is not looked at until whoever set them has removed them."""

from __future__ import annotations

from controlplane.scheduler.framework import Code, PreEnqueuePlugin, Refusal
from controlplane.scheduler.podinfo import PodInfo


class SchedulingGates(PreEnqueuePlugin):
    """Keeps pods with ``spec.schedulingGates`` out of the queue."""

    name = "SchedulingGates"

    def gate(self, pod: PodInfo) -> Refusal | None:
        """Return the gates that are left."""
        gates = pod.gates
        if not gates:
            return None
        return Refusal(self.name, Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{' '.join(gates)}]",))
