"""When each pod on a tainted node must go: a pure timetable.

A pod leaves a node for a NoExecute taint that it does not tolerate at once, and for one that it tolerates for
``tolerationSeconds`` that long after the taint and the pod were first seen together. Each pair of pod and taint has
its own time; a node's not-ready and unreachable taints replace each other and count as one. Times are our own
monotonic clock's: ``timeAdded`` in the taint was written by another host's. Source: "Taints and Tolerations" in
Kubernetes' documentation.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.controllers.node_taints import HEALTH_TAINTS, no_execute_taints
from controlplane.controllers.objects import deleting, key_of, toleration_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wharfinger.api.types import core

TaintKey = tuple[str, str]
"""Key and value; the node's own health is one taint under two keys."""
HEALTH: TaintKey = ("node.kubernetes.io/health", "")


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that must go now, and why."""

    pod: str
    """``namespace/name``."""
    uid: str
    node: str
    taint: str
    """As kubectl writes it: ``key=value:effect``."""
    tolerated_seconds: float
    """How long the pod tolerated the taint."""


@dataclass(slots=True)
class _Pod:
    uid: str
    since: dict[TaintKey, float]
    deadline: float
    eviction: Eviction | None


@dataclass(slots=True)
class _Node:
    taints: list[core.Taint]
    since: dict[TaintKey, float]
    pods: dict[str, _Pod] = field(default_factory=dict)


class TaintDeadlines:
    """Deadlines of the pods of tainted nodes; pods of other nodes cost nothing."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._heap: list[tuple[float, str, str]] = []

    def __len__(self) -> int:
        return sum(pod.deadline < math.inf for node in self._nodes.values() for pod in node.pods.values())

    def observe_node(self, name: str, taints: Sequence[core.Taint], pods: Iterable[core.Pod], now: float) -> bool:
        """Take in a node's taints with its pods; return whether that cancelled a deadline."""
        evicting = no_execute_taints(taints)
        known = self._nodes.get(name)
        if not evicting:
            gone = self._nodes.pop(name, None)
            return gone is not None and any(pod.deadline < math.inf for pod in gone.pods.values())
        before = known.since if known else {}
        node = _Node(evicting, {key: before.get(key, now) for key in map(_key, evicting)})
        pending = known.pods if known else {}
        node.pods = pending
        self._nodes[name] = node
        present = set()
        for pod in pods:
            present.add(key_of(pod))
            self._schedule(name, node, pod, now)
        for key in pending.keys() - present:
            del pending[key]
        return False

    def observe_pod(self, pod: core.Pod, now: float) -> None:
        """Take in a pod that was placed or changed."""
        name = pod.spec.nodeName
        if name and (node := self._nodes.get(name)) is not None:
            self._schedule(name, node, pod, now)

    def forget_pod(self, pod: core.Pod) -> None:
        """Take in that a pod is gone."""
        node = self._nodes.get(pod.spec.nodeName)
        if node is not None:
            node.pods.pop(key_of(pod), None)

    def restart(self, now: float) -> None:
        """Start all times again: what was seen before may have been stale."""
        self._heap.clear()
        for name, node in self._nodes.items():
            node.since = dict.fromkeys(node.since, now)
            for key, pod in node.pods.items():
                if pod.eviction is not None:
                    pod.since = dict.fromkeys(pod.since, now)
                    pod.deadline = now + pod.eviction.tolerated_seconds
                    heapq.heappush(self._heap, (pod.deadline, name, key))

    def due(self, now: float) -> list[Eviction]:
        """Return the pods whose time has come; each is returned once, until :meth:`retry`."""
        evictions: list[Eviction] = []
        while self._heap and self._heap[0][0] <= now:
            deadline, name, key = heapq.heappop(self._heap)
            pod = self._pod(name, key)
            if pod is not None and pod.deadline == deadline and pod.eviction is not None:
                evictions.append(pod.eviction)
        return evictions

    def retry(self, eviction: Eviction, at: float) -> None:
        """Make an eviction that could not be carried out due again at `at`, if it is still called for."""
        pod = self._pod(eviction.node, eviction.pod)
        if pod is not None and pod.uid == eviction.uid and pod.eviction is not None:
            pod.deadline = at
            heapq.heappush(self._heap, (at, eviction.node, eviction.pod))

    def next_deadline(self) -> float:
        """Return when to look again, at the latest; infinity when nothing is due."""
        while self._heap:
            deadline, name, key = self._heap[0]
            pod = self._pod(name, key)
            if pod is not None and pod.deadline == deadline:
                return deadline
            heapq.heappop(self._heap)
        return math.inf

    def _pod(self, node: str, key: str) -> _Pod | None:
        entry = self._nodes.get(node)
        return entry.pods.get(key) if entry is not None else None

    def _schedule(self, name: str, node: _Node, pod: core.Pod, now: float) -> None:
        key = key_of(pod)
        if deleting(pod):
            node.pods.pop(key, None)
            return
        known = node.pods.get(key)
        if known is not None and known.uid != pod.metadata.uid:
            known = None
        since = {
            taint: max(start, (known.since.get(taint, now) if known else now)) for taint, start in node.since.items()
        }
        deadline, eviction = _deadline(name, node.taints, pod, since)
        if known is not None and known.deadline == deadline:
            known.since, known.eviction = since, eviction
            return
        node.pods[key] = _Pod(pod.metadata.uid, since, deadline, eviction)
        if deadline < math.inf:
            heapq.heappush(self._heap, (deadline, name, key))


def _key(taint: core.Taint) -> TaintKey:
    return HEALTH if taint.key in HEALTH_TAINTS else (taint.key, taint.value)


def _deadline(
    node: str, taints: Iterable[core.Taint], pod: core.Pod, since: dict[TaintKey, float]
) -> tuple[float, Eviction | None]:
    earliest, eviction = math.inf, None
    for taint in taints:
        toleration = toleration_for(pod.spec.tolerations, taint)
        if toleration is None:
            seconds = 0.0
        elif toleration.HasField("tolerationSeconds"):
            seconds = float(max(0, toleration.tolerationSeconds))
        else:
            continue
        deadline = since[_key(taint)] + seconds
        if deadline < earliest:
            text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            earliest = deadline
            eviction = Eviction(key_of(pod), pod.metadata.uid, node, text, seconds)
    return earliest, eviction
