"""What the whole queue waits for: pods that are not placed, grouped by what holds them up."""

from __future__ import annotations

from controlplane.scheduler import why
from controlplane.scheduler.decisions import Diagnosis
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.gangplacing import GangRefusal
from controlplane.scheduler.queue import QueuedPod, SchedulingQueue
from wharfinger.proto.native import scheduling_v1_pb2 as native

EXAMPLES = 10
_WITH_SUGGESTIONS = 10
"""Groups for which changes that would help are looked for."""
STATES = {"active": "queued", "in flight": "binding"}


def pending(engine: Engine, queue: SchedulingQueue, now: float, *, namespace: str = "") -> native.PendingReply:
    """Group the pods of the queue; `now` on the clock of the queue, in seconds."""
    groups: dict[tuple[str, str], list[QueuedPod]] = {}
    for pod in queue:
        if not namespace or pod.info.namespace == namespace:
            groups.setdefault((STATES.get(pod.state, pod.state), cause(pod)), []).append(pod)
    reply = native.PendingReply()
    for number, ((state, text), pods) in enumerate(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))):
        pods.sort(key=lambda pod: pod.order)
        group = reply.groups.add(
            state=state,
            cause=text,
            count=len(pods),
            pods=[pod.info.key for pod in pods[:EXAMPLES]],
            oldest_seconds=max(0.0, now - min(pod.added for pod in pods)),
        )
        first = pods[0]
        if number >= _WITH_SUGGESTIONS:
            continue
        if isinstance(first.last, Diagnosis):
            group.suggestions.extend(why.suggestions(why.view_now(engine.state(first.info))))
        elif isinstance(first.last, GangRefusal):
            group.suggestions.extend(why.gang_suggestions(first.last))
    return reply


def cause(pod: QueuedPod) -> str:
    """Return in one line what holds a pod up."""
    if pod.gate is not None:
        return f"{pod.gate.plugin}: {', '.join(pod.gate.reasons)}"
    if pod.state == "in flight":
        return "its binding is under way"
    if isinstance(pod.last, GangRefusal):
        return pod.last.message
    if pod.info.nominated:
        return f"room is being made on {pod.info.nominated}"
    if isinstance(pod.last, Diagnosis):
        return pod.last.message
    return "the scheduler has not looked at it yet" if not pod.attempts else "its last attempt or binding failed"
