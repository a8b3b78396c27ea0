"""Pending pods: who is looked at next, and when a pod that fits nowhere is looked at again.

A pod is in one of these places, named as kube-scheduler's metrics name them:

* *active*: to be looked at now, by priority, then by age;
* *backoff*: to be looked at when its pause is over (1 s, doubling to 10 s with each attempt);
* *unschedulable*: refused everywhere. Pods are parked **by kind**, since pods of a kind share their verdicts. When
  something has changed that the refusing plugins look at, one question a kind (does any node take it now?) decides for
  all of them, however many there are; only then do they become active again, the first in order first and a bounded
  number at a time. If no node does, but others could make room by now, they become active one by one. A pod that would
  be refused again is never tried;
* *gated*: not to be looked at until its scheduling gates are gone;
* *in flight*: placed, its binding not confirmed yet.

Pods that have waited for five minutes are tried in any case, should a change have been missed. No I/O; the caller
brings the time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.framework import Refusal
from controlplane.scheduler.gangplacing import GangRefusal
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.profile import Profile

K = TypeVar("K")

State = Literal["active", "backoff", "unschedulable", "gated", "in flight"]

INITIAL_BACKOFF = 1.0
MAX_BACKOFF = 10.0
"""Seconds."""
BACKOFF_WINDOW = 0.25
"""Pauses end together in steps of this many seconds, so that priority decides among pods that failed together."""
STRAGGLER_SECONDS = 300.0
WAKE_AT_ONCE = 256
"""Pods of a kind that become active at a time."""


@dataclass(eq=False, slots=True)
class QueuedPod:
    """A pod in the queue, and how it has fared."""

    info: PodInfo
    order: tuple[Any, ...]
    """Smallest first."""
    added: float
    """When the queue first saw it."""
    state: State = "active"
    attempts: int = 0
    attempted: float = 0.0
    """When the last attempt ended."""
    ready: float = 0.0
    """When its pause is over."""
    last: Placement | Diagnosis | GangRefusal | None = None
    gate: Refusal | None = None
    kind: Hashable = None
    """What it was parked as."""
    entry: int = 0
    """Number of its only valid entry in a heap."""


@dataclass(eq=False, slots=True)
class _Parked:
    """The unschedulable pods of one kind."""

    reads: int
    """What the filters that refused them look at."""
    node: str = ""
    """The node that they are nominated to, if any."""
    top: int = -(2**31)
    """No pod here has a higher priority."""
    pods: dict[str, QueuedPod] = field(default_factory=dict)


class Preempting(Protocol):
    """Who knows whether pods that no node would take could have others make room."""

    def lowest_priority(self) -> int:
        """Return the priority of the least important pod that is placed."""
        ...

    def would_make_room(self, pod: PodInfo) -> bool:
        """Whether others would make room for a pod now."""
        ...


class SchedulingQueue:
    """The places of pending pods, by key ``namespace/name``."""

    def __init__(
        self,
        profile_of: Callable[[PodInfo], Profile],
        *,
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
    ) -> None:
        self._profile_of = profile_of
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._numbers = itertools.count(1)
        self._active: list[tuple[tuple[Any, ...], int, QueuedPod]] = []
        self._backoff: list[tuple[float, int, QueuedPod]] = []
        self._parked: dict[Hashable, _Parked] = {}
        self._by_reads: dict[int, dict[Hashable, None]] = {}
        """What refusing filters look at -> kinds that wait for a change of it."""
        self._by_node: dict[str, dict[Hashable, None]] = {}
        """Node -> kinds that are nominated to it."""
        self._hungry: dict[Hashable, None] = {}
        """Kinds that are to be asked, those that have waited for it longest first."""
        self._counts: dict[State, int] = dict.fromkeys(("active", "backoff", "unschedulable", "gated", "in flight"), 0)

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: str) -> QueuedPod | None:
        """Return a pod by key."""
        return self._pods.get(key)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    @property
    def counts(self) -> dict[str, int]:
        """How many pods are in each place."""
        return {str(state): count for state, count in self._counts.items()}

    @property
    def active(self) -> int:
        """How many pods are to be looked at now."""
        return self._counts["active"]

    # -- the pods come and go

    def add(self, info: PodInfo, now: float) -> QueuedPod:
        """Take in a pending pod, or what is new of one; a pod that changed for scheduling is looked at again."""
        pod = self._pods.get(info.key)
        if pod is not None and pod.info.uid != info.uid:
            self.remove(info.key)
            pod = None
        if pod is None:
            pod = QueuedPod(info, self._order(info, next(self._numbers)), now)
            self._pods[info.key] = pod
            self._counts[pod.state] += 1
            self._enter(pod, now)
            return pod
        before, pod.info = pod.info, info
        if pod.state == "in flight":
            return pod
        if before.priority != info.priority:
            pod.order = self._order(info, pod.order[-1])
            if pod.state == "active":
                self._activate(pod)
        if before.cls is not info.cls or pod.state == "gated":
            if pod.state == "unschedulable":
                self._unpark(pod)
            self._enter(pod, now)
        return pod

    def _order(self, info: PodInfo, number: int) -> tuple[Any, ...]:
        # Of equal pods those go first whose gang has begun: what has been bound of it waits for them.
        later = info.gang is None or not info.gang.begun
        return (*self._profile_of(info).sort.sort_key(info), later, info.created, number)

    def _enter(self, pod: QueuedPod, now: float) -> None:
        pod.gate = self._profile_of(pod.info).gate(pod.info)
        if pod.gate is not None:
            self._move(pod, "gated")
        elif pod.state != "backoff":
            gang = pod.info.gang
            if gang is not None and gang.needed and gang.ready > now:
                pod.ready = gang.ready  # the others of its gang have a pause
                self._pause(pod)
            else:
                self._activate(pod)

    def update(self, pod: QueuedPod, now: float) -> None:
        """Ask anew whether a member of a gang may be looked at, and when: something has happened to its gang."""
        if pod.state == "in flight":
            return
        gate = self._profile_of(pod.info).gate(pod.info)
        if (gate is None) == (pod.state == "gated"):
            if pod.state == "unschedulable":
                self._unpark(pod)
            self._enter(pod, now)
        pod.gate = gate
        order = self._order(pod.info, pod.order[-1])
        if order != pod.order:
            pod.order = order
            if pod.state == "active":
                self._activate(pod)

    def remove(self, key: str) -> QueuedPod | None:
        """Forget a pod: bound, deleted or finished."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return None
        if pod.state == "unschedulable":
            self._unpark(pod)
        self._counts[pod.state] -= 1
        pod.entry = 0
        return pod

    # -- attempts

    def pop(self, now: float) -> QueuedPod | None:
        """Return the next pod to be looked at, in flight from now on; None when there is none."""
        self._end_pauses(now)
        while self._active:
            _, number, pod = heapq.heappop(self._active)
            if number == pod.entry:
                pod.attempts += 1
                self._move(pod, "in flight")
                return pod
        return None

    def take(self, pod: QueuedPod) -> None:
        """Put a pod in flight out of turn, with the first of its gang."""
        if pod.state == "unschedulable":
            self._unpark(pod)
        pod.attempts += 1
        self._move(pod, "in flight")

    def park(self, pod: QueuedPod, diagnosis: Diagnosis | GangRefusal, now: float, *, reads: int) -> None:
        """Put away a pod that fits nowhere until something in `reads` changes."""
        if self._pods.get(pod.info.key) is not pod:
            return
        self._ended(pod, now)
        pod.last = diagnosis
        self._move(pod, "unschedulable")
        pod.kind = pod.info.kind
        parked = self._parked.get(pod.kind)
        if parked is None:
            parked = self._parked[pod.kind] = _Parked(reads, pod.info.nominated)
            self._by_reads.setdefault(reads, {})[pod.kind] = None
            if parked.node:
                self._by_node.setdefault(parked.node, {})[pod.kind] = None
        self._set_reads(pod.kind, parked, reads)
        parked.top = max(parked.top, pod.info.priority)
        parked.pods[pod.info.key] = pod

    def _set_reads(self, kind: Hashable, parked: _Parked, reads: int) -> None:
        if parked.reads != reads:
            _discard(self._by_reads, parked.reads, kind)
            parked.reads = reads
            self._by_reads.setdefault(reads, {})[kind] = None

    def retry(self, pod: QueuedPod, now: float) -> None:
        """Look at a pod again after its pause: something other than its verdict went wrong."""
        if self._pods.get(pod.info.key) is not pod:
            return
        self._ended(pod, now)
        self._pause(pod)

    def requeue(self, pod: QueuedPod) -> None:
        """Look at a pod again at once, as if this attempt had not been (leadership was lost)."""
        if self._pods.get(pod.info.key) is pod:
            pod.attempts = max(0, pod.attempts - 1)
            self._activate(pod)

    def _ended(self, pod: QueuedPod, now: float) -> None:
        pod.attempted = now
        pause = min(self._max_backoff, self._initial_backoff * 2.0 ** min(pod.attempts - 1, 16))
        pod.ready = math.ceil((now + pause) / BACKOFF_WINDOW) * BACKOFF_WINDOW

    # -- waking up

    def wake(
        self,
        aspects: int,
        waits_for: Callable[[PodInfo], int | None],
        now: float,
        *,
        most: int | None = None,
        nodes: Iterable[str] = (),
        preempting: Preempting | None = None,
    ) -> int:
        """After changes of `aspects`, make those unschedulable pods active that some node would take now.

        `waits_for` tells what aspects a pod waits for, None when a node would take it now. Pods nominated to `nodes`,
        where pods have gone, are asked at once. Of the other kinds that are affected at most `most` are, those first
        that have waited longest; the rest stay *hungry*. `preempting` is asked about those that no node would take.
        Returns how many pods were moved.
        """
        moved = 0
        for node in nodes:
            for kind in list(self._by_node.get(node, ())):
                moved += self._wake_kind(kind, waits_for, now, preempting)
        for reads, kinds in self._by_reads.items():
            if reads & aspects:
                self._hungry.update(kinds)
        for kind in list(itertools.islice(self._hungry, most)):
            moved += self._wake_kind(kind, waits_for, now, preempting)
        return moved

    @property
    def hungry(self) -> bool:
        """Whether more pods could be woken without any further change."""
        return bool(self._hungry)

    def _wake_kind(
        self,
        kind: Hashable,
        waits_for: Callable[[PodInfo], int | None],
        now: float,
        preempting: Preempting | None,
    ) -> int:
        parked = self._parked[kind]
        self._hungry.pop(kind, None)
        first = next(iter(parked.pods.values()))
        aspects = waits_for(first.info)
        if aspects is not None:
            # Other filters may refuse by now than did at the attempt: a change of what *they* look at counts, too.
            self._set_reads(kind, parked, aspects)
            if preempting is None or parked.top <= preempting.lowest_priority():
                return 0
            first = min(parked.pods.values(), key=lambda pod: pod.order)
            if not preempting.would_make_room(first.info):
                return 0
            if len(parked.pods) > 1:
                self._hungry[kind] = None
            self._unpark(first)
            self._resume(first, now)
            return 1
        chosen = heapq.nsmallest(WAKE_AT_ONCE, parked.pods.values(), key=lambda pod: pod.order)
        if len(chosen) < len(parked.pods):
            self._hungry[kind] = None
        for pod in chosen:
            self._unpark(pod)
            self._resume(pod, now)
        return len(chosen)

    def reconsider(self, pod: QueuedPod, now: float) -> None:
        """Look at an unschedulable pod again, when its pause is over."""
        if pod.state == "unschedulable":
            self._unpark(pod)
            self._resume(pod, now)

    def flush(self, now: float) -> int:
        """Make pods active that have been unschedulable for too long; returns how many."""
        late = [
            pod
            for parked in self._parked.values()
            for pod in parked.pods.values()
            if now - pod.attempted >= STRAGGLER_SECONDS
        ]
        for pod in late:
            self._unpark(pod)
            self._resume(pod, now)
        return len(late)

    def next_ready(self) -> float | None:
        """Return when the next pause ends."""
        while self._backoff and self._backoff[0][1] != self._backoff[0][2].entry:
            heapq.heappop(self._backoff)
        return self._backoff[0][0] if self._backoff else None

    def _end_pauses(self, now: float) -> None:
        while (ready := self.next_ready()) is not None and ready <= now:
            self._activate(heapq.heappop(self._backoff)[2])

    # -- moves

    def _resume(self, pod: QueuedPod, now: float) -> None:
        if pod.ready > now:
            self._pause(pod)
        else:
            self._activate(pod)

    def _activate(self, pod: QueuedPod) -> None:
        self._move(pod, "active")
        heapq.heappush(self._active, (pod.order, pod.entry, pod))

    def _pause(self, pod: QueuedPod) -> None:
        self._move(pod, "backoff")
        heapq.heappush(self._backoff, (pod.ready, pod.entry, pod))

    def _unpark(self, pod: QueuedPod) -> None:
        parked = self._parked.get(pod.kind)
        if parked is not None:
            parked.pods.pop(pod.info.key, None)
            if not parked.pods:
                del self._parked[pod.kind]
                self._hungry.pop(pod.kind, None)
                _discard(self._by_reads, parked.reads, pod.kind)
                if parked.node:
                    _discard(self._by_node, parked.node, pod.kind)

    def _move(self, pod: QueuedPod, state: State) -> None:
        self._counts[pod.state] -= 1
        self._counts[state] += 1
        pod.state = state
        pod.entry = next(self._numbers)


def _discard(index: dict[K, dict[Hashable, None]], key: K, kind: Hashable) -> None:
    kinds = index.get(key)
    if kinds is not None:
        kinds.pop(kind, None)
        if not kinds:
            del index[key]
