"""Pods: READY, STATUS and RESTARTS as kubectl's users know them.

STATUS is no field of the API. It is read off the container states, in an order that this file spells out step by
step, because people and scripts rely on its words (``Init:0/2``, ``CrashLoopBackOff``, ``Terminating``, ``NotReady``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wharfinger.api import times
from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import core

_NODE_LOST = "NodeLost"


@dataclass(frozen=True)
class Summary:
    """What a pod's state comes to."""

    ready: int
    total: int
    status: str
    restarts: int
    last_restart: float
    """Seconds since the epoch of the end that led to the last restart; 0 when there was none."""

    def restarts_text(self, now: float) -> str:
        """Return the RESTARTS cell: ``0``, or ``3 (42s ago)``."""
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({text.duration(now - self.last_restart)} ago)"
        return str(self.restarts)


def summarise(pod: core.Pod) -> Summary:
    """Read READY, STATUS and RESTARTS off a pod."""
    status, spec = pod.status, pod.spec
    sidecars = {container.name for container in spec.initContainers if container.restartPolicy == "Always"}
    total = len(spec.containers) + len(sidecars)
    word = status.reason or status.phase
    if any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in status.conditions):
        word = "SchedulingGated"
    ready = restarts = sidecar_restarts = 0
    last = sidecar_last = 0.0

    initialising = False
    for index, state in enumerate(status.initContainerStatuses):
        restarts += state.restartCount
        last = max(last, _last_end([state]))
        sidecar = state.name in sidecars
        if sidecar:
            sidecar_restarts += state.restartCount
            sidecar_last = max(sidecar_last, _last_end([state]))
        if state.state.HasField("terminated") and state.state.terminated.exitCode == 0:
            continue
        if sidecar and state.started:
            ready += bool(state.ready)
            continue
        word = _init_word(state, index, len(spec.initContainers))
        initialising = True
        break

    if not initialising or _initialised(status.conditions):
        # Once the init containers are through, their restarts no longer count, save those of sidecars.
        restarts, last = sidecar_restarts, sidecar_last
        running = False
        for state in reversed(status.containerStatuses):
            restarts += state.restartCount
            last = max(last, _last_end([state]))
            current = state.state
            if current.waiting.reason:
                word = current.waiting.reason
            elif current.HasField("terminated"):
                word = _terminated_word(current.terminated)
            elif state.ready and current.HasField("running"):
                running = True
                ready += 1
        if word == "Completed" and running:
            word = "Running" if _is_true(status.conditions, "Ready") else "NotReady"

    if pod.metadata.HasField("deletionTimestamp"):
        if status.reason == _NODE_LOST:
            word = "Unknown"
        elif status.phase not in ("Succeeded", "Failed"):
            word = "Terminating"
    return Summary(ready, total, word, restarts, last)


def _init_word(state: core.ContainerStatus, index: int, total: int) -> str:
    current = state.state
    if current.HasField("terminated"):
        if current.terminated.reason:
            return f"Init:{current.terminated.reason}"
        return "Init:" + _exit_word(current.terminated)
    if current.waiting.reason and current.waiting.reason != "PodInitializing":
        return f"Init:{current.waiting.reason}"
    return f"Init:{index}/{total}"


def _terminated_word(state: core.ContainerStateTerminated) -> str:
    return state.reason or _exit_word(state)


def _exit_word(state: core.ContainerStateTerminated) -> str:
    return f"Signal:{state.signal}" if state.signal else f"ExitCode:{state.exitCode}"


def _last_end(states: Iterable[core.ContainerStatus]) -> float:
    ends = [
        state.lastState.terminated.finishedAt.seconds
        for state in states
        if state.lastState.HasField("terminated") and not times.is_zero(state.lastState.terminated.finishedAt)
    ]
    return float(max(ends, default=0))


def _initialised(conditions: Iterable[core.PodCondition]) -> bool:
    return _is_true(conditions, "Initialized")


def _is_true(conditions: Iterable[core.PodCondition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


def readiness_gates(pod: core.Pod) -> str:
    """Return how many readiness gates are open: ``1/2``."""
    gates = [gate.conditionType for gate in pod.spec.readinessGates]
    if not gates:
        return text.NONE
    return f"{sum(_is_true(pod.status.conditions, gate) for gate in gates)}/{len(gates)}"


def _row(pod: core.Pod, now: float) -> list[Cell]:
    summary = summarise(pod)
    ip = pod.status.podIPs[0].ip if pod.status.podIPs else pod.status.podIP
    return [
        pod.metadata.name,
        f"{summary.ready}/{summary.total}",
        summary.status,
        summary.restarts_text(now),
        text.age(pod, now),
        ip or text.NONE,
        pod.spec.nodeName or text.NONE,
        pod.status.nominatedNodeName or text.NONE,
        readiness_gates(pod),
    ]


def _finished(pod: core.Pod) -> tuple[str, str] | None:
    if pod.status.phase in ("Succeeded", "Failed"):
        return pod.status.phase, "The pod has run to its end"
    return None


TABLE = Table(
    (
        NAME,
        Column("Ready", description="Containers that are ready, of all."),
        Column("Status", description="What the pod's containers are doing, in a word."),
        Column("Restarts", description="How often containers were restarted, and when last."),
        AGE,
        Column("IP", priority=1, description="The pod's address."),
        Column("Node", priority=1, description="The node that the pod is bound to."),
        Column("Nominated Node", priority=1, description="The node on which room is being made by preemption."),
        Column("Readiness Gates", priority=1, description="Readiness gates that are open, of all."),
    ),
    _row,
    _finished,
)
