"""One term of leading: everything the scheduler knows and does while it leads.

A new term starts from nothing but the API: fresh informers, table and queue. What an earlier term assumed or another
leader has bound since cannot linger, and a scheduler that only stands by costs next to nothing. The loop decides in
slices of a few milliseconds and lets the event loop take in events and answers in between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.scheduler import metrics
from controlplane.scheduler.binder import Binder
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.evictor import Evictor, Victim
from controlplane.scheduler.framework import Aspect
from controlplane.scheduler.gangwork import GangWork
from controlplane.scheduler.observed import ObservedNode, ObservedPod, observe_pod
from controlplane.scheduler.podinfo import PodClass, PodInfo
from controlplane.scheduler.profile import Profile
from controlplane.scheduler.queue import INITIAL_BACKOFF, MAX_BACKOFF, QueuedPod, SchedulingQueue
from controlplane.scheduler.reporter import Reporter
from controlplane.scheduler.surroundings import Surroundings
from controlplane.scheduler.victims import Candidate
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client, Informer, object_key

log = logging.getLogger(__name__)

SLICE = 0.005
"""Seconds of deciding before others get a turn."""
FLUSH_SECONDS = 30.0
WAKE_PAUSE = 0.01
KINDS_AT_ONCE = 64
REMEMBERED = 20_000


@dataclass(slots=True)
class Remembered:
    """A pod that was bound in this term."""

    uid: str
    cls: PodClass
    attempts: int
    placement: Placement
    at: float


class Leadership:
    """Schedules from :meth:`run` until that is cancelled."""

    def __init__(
        self,
        client: Client,
        profiles: Iterable[Profile],
        *,
        seed: int,
        selecting: Iterable[str] = (),
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
    ) -> None:
        self._client = client
        self.engine = Engine(profiles, seed=seed)
        self.engine.pods.selecting.update(selecting)
        self.queue = SchedulingQueue(self.engine.profile, initial_backoff=initial_backoff, max_backoff=max_backoff)
        # The informers hold observed facts in place of messages; see observed.py.
        self.nodes: Informer[Any] = Informer(client.resource(core.Node), transform=self._observe_node)
        self.pods: Informer[Any] = Informer(client.resource(core.Pod), transform=self._observe_pod)
        self._surroundings = Surroundings(client, self.engine, self._note)
        self._schedulers = frozenset(self.engine.profiles)
        self.bound: OrderedDict[str, Remembered] = OrderedDict()
        self._binder = Binder(
            client,
            bound=self._on_bound,
            failed=self._on_failed,
            checked=lambda info: self.engine.profile(info).checks_room(info.cls),
        )
        self._reporter = Reporter(client, busy=self._is_busy)
        self._evictor = Evictor(client, self._reporter, failed=self._on_eviction_failed)
        self._gangs = GangWork(
            client, self.engine, self.queue, self._reporter, submit=self._submit, refuse=self._refuse,
            make_room=self._make_room, nominate=self._nominate,
        )  # fmt: skip
        self._selecting_at_first = frozenset(selecting)
        self._work = asyncio.Event()
        self._changed = 0
        self._vacated: set[str] = set()
        """Nodes where pods have gone since kinds were last asked."""
        self._woken_at = 0.0
        self._wake_pause = WAKE_PAUSE
        self.ready = False
        """Whether the first lists have been taken in."""

    # -- life

    async def run(self) -> None:
        """Follow the API and schedule, until a selector names a label that was left out of account so far."""
        self.nodes.add_handler(
            on_add=self.set_node,
            on_update=lambda _, node: self.set_node(node),
            on_delete=lambda node: self.remove_node(node.metadata.name),
        )
        self.pods.add_handler(
            on_add=self.set_pod,
            on_update=lambda _, pod: self.set_pod(pod),
            on_delete=lambda pod: self.drop_pod(object_key(pod)),
        )
        self._reporter.start()
        self._gangs.start()
        try:
            await self._surroundings.start()
            await self.nodes.start()
            await self.pods.start()
            await self.nodes.wait_synced()
            await self.pods.wait_synced()
            self.ready = self.engine.pods.selecting == self._selecting_at_first
            log.info("scheduling", extra={"nodes": len(self.nodes), "pods": len(self.pods), **self.queue.counts})
            await self._loop()
        finally:
            self.ready = False
            await self._binder.close()
            await self._evictor.close()
            await self.pods.stop()
            await self.nodes.stop()
            await self._surroundings.stop()
            await self._gangs.close()
            await self._reporter.close()

    async def read_pod(self, namespace: str, name: str) -> core.Pod:
        """Read a whole pod from the apiserver. Raises StatusError."""
        return await self._client.resource(core.Pod).get(name, namespace=namespace)

    async def _loop(self) -> None:
        flushed = time.monotonic()
        while self.engine.pods.selecting == self._selecting_at_first:
            await self._wait(flushed + FLUSH_SECONDS)
            now = time.monotonic()
            if now - flushed >= FLUSH_SECONDS:
                flushed = now
                self.queue.flush(now)
            if self._gangs.busy(now):
                self._gangs.settle(now)
            self._wake(now)
            self._decide_slice()
            self._binder.flush()
            metrics.NODES.labels("nodes").set(len(self.engine.table))
            metrics.NODES.labels("pods").set(len(self.engine.table.placed))
            await asyncio.sleep(0)

    async def _wait(self, until: float) -> None:
        """Return when there is something to do."""
        if self.queue.active:
            return
        if self._changed or self.queue.hungry:
            until = min(until, self._woken_at + self._wake_pause)
        ready = self.queue.next_ready()
        if ready is not None:
            until = min(until, ready)
        until = min(until, self._gangs.next_release)
        self._work.clear()
        delay = until - time.monotonic()
        if delay <= 0:
            return
        try:
            async with asyncio.timeout(delay):
                await self._work.wait()
        except TimeoutError:
            return

    def _is_busy(self) -> bool:
        return self.queue.active > 0 or self._binder.outstanding > 0

    # -- deciding

    def _wake(self, now: float) -> None:
        """Ask for each kind of unschedulable pod that recent changes concern whether it fits now."""
        if not (self._changed or self.queue.hungry) or now < self._woken_at + self._wake_pause:
            return
        changed, self._changed = self._changed, 0
        vacated, self._vacated = self._vacated, set()
        moved = self.queue.wake(
            changed, self._gangs.waits_for, now, most=KINDS_AT_ONCE, nodes=vacated, preempting=self.engine
        )
        if moved:
            metrics.WOKEN.inc(moved)
        self._woken_at = time.monotonic()
        # However many kinds wait, asking them takes a small share of the time.
        self._wake_pause = max(WAKE_PAUSE, 5 * (self._woken_at - now))

    def _decide_slice(self) -> None:
        end = time.perf_counter() + SLICE
        now = time.monotonic()
        while (pod := self.queue.pop(now)) is not None:
            begun = time.perf_counter()
            gang = pod.info.gang
            if gang is None or not gang.needed:
                pods: tuple[QueuedPod, ...] = (pod,)
                self._attempt(pod)
            else:
                pods = (pod, *self._gangs.take_others(pod))
                self._attempt_gang(pods)
            ended = time.perf_counter()
            for one in pods:
                if one.last is None:
                    result = "error"
                else:
                    result = "scheduled" if isinstance(one.last, Placement) else "unschedulable"
                self._count(one, result, (ended - begun) / len(pods))
            if ended >= end:
                return

    def _count(self, pod: QueuedPod, result: str, seconds: float) -> None:
        metrics.attempt(result, self.engine.profile(pod.info).scheduler_name, seconds)

    def _attempt(self, pod: QueuedPod) -> None:
        try:
            decision = self.engine.decide(pod.info)
        except Exception as error:
            log.exception("attempt failed", extra={"pod": pod.info.key})
            self._choke((pod,), error)
            return
        if isinstance(decision, Placement):
            self._submit(pod, decision)
        else:
            self._refuse(pod, decision)

    def _attempt_gang(self, pods: Sequence[QueuedPod]) -> None:
        try:
            self._gangs.attempt(pods, time.monotonic())
        except Exception as error:
            log.exception("attempt of a gang failed", extra={"pod": pods[0].info.key, "members": len(pods)})
            left = [pod for pod in pods if pod.state == "in flight" and not isinstance(pod.last, Placement)]
            self._choke(left, error)

    def _choke(self, pods: Iterable[QueuedPod], error: Exception) -> None:
        """Put pods aside for a while: one that a plugin chokes on must not keep all others waiting."""
        for pod in pods:
            pod.last = None
            self.queue.retry(pod, time.monotonic())
            self._reporter.failed(pod.info, f"attempt failed: {error!r}", reason="SchedulerError")

    def _submit(self, pod: QueuedPod, placement: Placement) -> None:
        pod.last = placement
        if pod.info.gang is not None:
            self.engine.gangs.begin_binding(pod.info)
        self._binder.submit(pod, placement)
        self._changed |= Aspect.PEERS

    def _refuse(self, pod: QueuedPod, decision: Diagnosis) -> None:
        pod.last = decision
        message = self._preempt(pod, decision)
        if decision.codes is None:
            decision.thin()  # nobody would look at the rest
        self.queue.park(pod, decision, time.monotonic(), reads=self.engine.waits_for(pod.info) or 0)
        self._reporter.failed(pod.info, message)
        log.debug("unschedulable", extra={"pod": pod.info.key, "why": message})

    def _preempt(self, pod: QueuedPod, diagnosis: Diagnosis) -> str:
        """Have others make room if that helps; returns what to say about the failed attempt."""
        info = pod.info
        result = self.engine.preempt(info, diagnosis)
        if result is None:
            return diagnosis.message
        metrics.PREEMPTION_ATTEMPTS.inc()
        chosen = result.chosen
        if chosen is None:
            if info.nominated and not result.ineligible:
                self._nominate(info, "")
            return f"{diagnosis.message} {result.message}"
        self._make_room(info, chosen)
        return diagnosis.message

    def _make_room(self, info: PodInfo, chosen: Candidate) -> None:
        """Nominate a pod to a node and have the victims there deleted."""
        victims = []
        for key, resident in chosen.victims:
            resident.leaving = True
            seen = self.pods.get(key)
            namespace, _, name = key.partition("/")
            victims.append(Victim(namespace, name, seen.uid if seen is not None else ""))
        for key, resident in list(self.engine.nominations.on(chosen.node).items()):
            other = self.queue.get(key)
            if resident.priority < info.priority and other is not None:
                self._nominate(other.info, "")
                self.queue.reconsider(other, time.monotonic())
        log.info("preempting", extra={"pod": info.key, "node": chosen.node, "victims": len(victims)})
        self._nominate(info, chosen.node)
        self._evictor.evict(info, chosen.node, victims)

    def _nominate(self, info: PodInfo, node: str) -> None:
        self.engine.nominate(info, node)
        self._reporter.nominated(info)
        if not node:
            self._note(Aspect.USAGE)  # a node is no longer kept

    def _on_eviction_failed(self, info: PodInfo, node: str) -> None:
        for resident in self.engine.table.pods_on(node).values():
            resident.leaving = False  # the watch says it again of those that do leave
        waiting = self.queue.get(info.key)
        if waiting is not None and waiting.info.nominated == node and waiting.state != "in flight":
            self._nominate(waiting.info, "")
            self.queue.reconsider(waiting, time.monotonic())
            self._work.set()

    # -- outcomes

    def _on_bound(self, pod: QueuedPod, placement: Placement) -> None:
        info = pod.info
        now = time.monotonic()
        if self.queue.get(info.key) is pod:
            self.queue.remove(info.key)
        if info.gang is not None:
            self.engine.gangs.bound(info.key)
        self.bound[info.key] = Remembered(info.uid, info.cls, pod.attempts, placement, now)
        self.bound.move_to_end(info.key)
        if len(self.bound) > REMEMBERED:
            self.bound.popitem(last=False)
        metrics.pod_bound(pod.attempts, now - pod.added)
        self._reporter.scheduled(info, placement.node)
        log.debug("bound", extra={"pod": info.key, "node": placement.node})

    def _on_failed(self, pod: QueuedPod, placement: Placement, error: errors.StatusError) -> None:
        info = pod.info
        if self.queue.get(info.key) is not pod:
            return  # deleted, or bound by somebody else, and the watch was faster than the answer
        self.engine.forget(info)
        self.engine.nominate(pod.info, pod.info.nominated)
        if info.gang is not None:
            self.engine.gangs.binding_failed(info)
        self._note(Aspect.USAGE | Aspect.PEERS)
        if isinstance(error, errors.NotFoundError):
            self.queue.remove(info.key)
            return
        log.info("bind refused", extra={"pod": info.key, "node": placement.node, "error": str(error)})
        self.queue.retry(pod, time.monotonic())
        if not isinstance(error, errors.ConflictError):
            self._reporter.failed(info, f"binding to {placement.node} failed: {error}", reason="SchedulerError")
            metrics.ATTEMPTS.labels("error", self.engine.profile(info).scheduler_name).inc()

    # -- events

    def _note(self, aspects: int) -> None:
        self._changed |= aspects
        self._work.set()

    def _observe_pod(self, pod: core.Pod) -> Any:
        try:
            return observe_pod(pod, self.engine.pods, schedulers=self._schedulers)
        except ValueError as error:
            log.warning("pod left alone", extra={"pod": object_key(pod), "error": str(error)})
            metadata = pod.metadata
            return ObservedPod(
                metadata.namespace,
                metadata.name,
                metadata.uid,
                metadata.resourceVersion,
                object_key(pod),
                "foreign",
                "",
            )

    def _observe_node(self, node: core.Node) -> Any:
        try:
            return ObservedNode.of(node)
        except ValueError as error:
            log.warning("node has nothing to give", extra={"node": node.metadata.name, "error": str(error)})
            bare = core.Node(metadata=node.metadata, spec=node.spec)
            return ObservedNode.of(bare)

    def set_node(self, node: ObservedNode) -> None:
        """Take in a node, new or changed."""
        changed = self.engine.table.set_node(node)
        if changed:
            self._note(changed)

    def remove_node(self, name: str) -> None:
        """Forget a node."""
        if self.engine.table.remove_node(name):
            self._note(Aspect.LABELS | Aspect.PEERS)  # a domain may be gone, and with it the emptiest

    def set_pod(self, pod: ObservedPod) -> None:
        """Take in a pod, new or changed."""
        if pod.state == "placed":
            self._place(pod)
        elif pod.state == "over":
            self.drop_pod(pod.key)
        elif pod.info is not None:
            self._set_pending(pod.info)
        elif (waiting := self.queue.get(pod.key)) is not None and waiting.state != "in flight":
            self.queue.remove(pod.key)
            self.engine.nominations.remove(pod.key)
        if pod.group or self.engine.gangs:
            self._gangs.follow(pod)

    def _set_pending(self, info: PodInfo) -> None:
        before = self.queue.get(info.key)
        if before is not None and before.info.uid == info.uid:
            if before.info.stored_nomination == info.stored_nomination:
                info.nominated = before.info.nominated  # ours, perhaps not stored yet
            if before.state != "in flight":
                self.engine.nominate(info, info.nominated)
        else:
            self.engine.nominate(info, info.nominated)
        self.queue.add(info, time.monotonic())
        self._work.set()

    def _place(self, pod: ObservedPod) -> None:
        assert pod.usage is not None
        table = self.engine.table
        self.engine.nominations.remove(pod.key)
        before = table.placed.get(pod.key)
        changed = table.place(
            pod.key, pod.node, pod.usage, pod.peer, priority=pod.priority, started=pod.started, leaving=pod.leaving
        )
        if changed:  # if it had been there: it was assumed elsewhere, or has shrunk, or has other labels
            self._note(Aspect.PEERS if before is None else Aspect.USAGE | Aspect.PEERS)
        waiting = self.queue.get(pod.key)
        if waiting is None:
            return
        own = waiting.state == "in flight" and isinstance(waiting.last, Placement) and waiting.last.node == pod.node
        if not own:  # else the answer to our binding is about to come
            self.queue.remove(pod.key)

    def drop_pod(self, key: str) -> None:
        """Forget a pod: deleted, or over."""
        self.queue.remove(key)
        if self.engine.nominations:
            self.engine.nominations.remove(key)
            self._note(Aspect.USAGE)  # a node may no longer be kept
        self.bound.pop(key, None)
        if self.engine.gangs:
            self.engine.gangs.drop(key)
        node = self.engine.table.remove(key)
        if node is not None:
            self._vacated.add(node)
            self._note(Aspect.USAGE | Aspect.PEERS)
