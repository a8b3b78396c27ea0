"""What a term of leading does about gangs: takes members out of the queue together, keeps room, says how they fare.

Members wait *gated* until enough of them are there. The first that is looked at brings all others along, and they are
decided in one go (:mod:`.gangplacing`); who is placed is bound like any pod, one after the other. When others have to
make room first, every member is nominated to the node that it will get, and the nominations, which are stored in the
pods, keep that room until the victims have gone or ``scheduleTimeoutSeconds`` are over.

Bindings are several transactions. When some of a gang's have been stored and the rest is refused, or the scheduler dies
in between, what is left goes before all pods of the same priority: the gang is completed, never rolled back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from controlplane.scheduler import metrics
from controlplane.scheduler.gangplacing import GangRefusal, place_gang
from controlplane.scheduler.groupreporter import GroupReporter, Standing
from controlplane.scheduler.profile import DEFAULT_SCHEDULER_NAME

if TYPE_CHECKING:
    from controlplane.scheduler.decisions import Diagnosis, Placement
    from controlplane.scheduler.engine import Engine
    from controlplane.scheduler.gangplacing import GangOutcome
    from controlplane.scheduler.gangs import Gang
    from controlplane.scheduler.observed import ObservedPod
    from controlplane.scheduler.podinfo import PodInfo
    from controlplane.scheduler.queue import QueuedPod, SchedulingQueue
    from controlplane.scheduler.reporter import Reporter
    from controlplane.scheduler.victims import Candidate
    from wharfinger.client import Client

log = logging.getLogger(__name__)


class GangWork:
    """Looks after the gangs of an engine and their members in a queue."""

    def __init__(
        self,
        client: Client,
        engine: Engine,
        queue: SchedulingQueue,
        reporter: Reporter,
        *,
        submit: Callable[[QueuedPod, Placement], None],
        refuse: Callable[[QueuedPod, Diagnosis], None],
        make_room: Callable[[PodInfo, Candidate], None],
        nominate: Callable[[PodInfo, str], None],
    ) -> None:
        self._engine = engine
        self._gangs = engine.gangs
        self._queue = queue
        self._reporter = reporter
        self._groups = GroupReporter(client)
        self._submit = submit
        self._refuse = refuse
        self._make_room = make_room
        self._nominate = nominate
        self._held: dict[Gang, None] = {}
        self._refusals: dict[Gang, GangRefusal] = {}
        """What the last attempt of a gang came to, as long as it waits."""

    def start(self) -> None:
        """Begin to report."""
        self._groups.start()

    async def close(self) -> None:
        """Stop reporting."""
        await self._groups.close()

    # -- attempts

    def take_others(self, pod: QueuedPod) -> list[QueuedPod]:
        """Take all other members of a pod's gang that can be looked at out of the queue."""
        gang = pod.info.gang
        assert gang is not None
        others = []
        for key in gang.pending:
            other = self._queue.get(key)
            if other is not None and other is not pod and other.state not in ("gated", "in flight"):
                others.append(other)
        others.sort(key=lambda other: other.order)
        for other in others:
            self._queue.take(other)
        return others

    def attempt(self, pods: Sequence[QueuedPod], now: float) -> None:
        """Decide a gang; `pods` are in flight, `now` is monotonic seconds."""
        gang = pods[0].info.gang
        assert gang is not None
        outcome = place_gang(self._engine, [pod.info for pod in pods], gang.needed)
        if outcome.complete:
            self._take_up(gang, {pod.info.key: pod for pod in pods}, outcome)
            return
        held = outcome.possible
        if held:
            self._hold(gang, outcome, now)
        else:
            self._release(gang)
        refusal = self._refusals[gang] = GangRefusal.of(gang, outcome, held=held)
        for pod in pods:
            pod.last = refusal
            self._queue.park(pod, refusal, now, reads=outcome.reads)
            self._reporter.failed(pod.info, refusal.message)
        gang.ready = max(pod.ready for pod in pods)
        self._gangs.changed.setdefault(gang, False)
        log.debug("gang waits", extra={"podgroup": gang.key, "why": refusal.message})

    def _take_up(self, gang: Gang, pods: dict[str, QueuedPod], outcome: GangOutcome) -> None:
        self._held.pop(gang, None)
        self._refusals.pop(gang, None)
        gang.held_until, gang.ready = None, 0.0
        for info, placement in outcome.placements:
            self._submit(pods[info.key], placement)
        log.info("gang placed", extra={"podgroup": gang.key, "pods": len(outcome.placements)})
        for info, diagnosis in outcome.refused:  # members beyond the minimum wait like other pods
            self._refuse(pods[info.key], diagnosis)

    def _hold(self, gang: Gang, outcome: GangOutcome, now: float) -> None:
        """Keep a node for each member, and have others make room where that is to be done."""
        if gang.held_until is None:
            gang.held_until = now + (gang.group.timeout if gang.group is not None else 0.0)
            log.info("room is kept for a gang", extra={"podgroup": gang.key, "needed": outcome.needed})
        self._held[gang] = None
        for info, placement in outcome.placements:
            if info.nominated != placement.node:
                self._nominate(info, placement.node)
        for info, candidate in outcome.making_room:
            metrics.PREEMPTION_ATTEMPTS.inc()
            self._make_room(info, candidate)

    def _release(self, gang: Gang) -> None:
        """Give back the room that is kept."""
        self._held.pop(gang, None)
        gang.held_until = None
        for info in gang.pending.values():
            if info.nominated:
                self._nominate(info, "")

    def waits_for(self, pod: PodInfo) -> int | None:
        """Return None when it is worth while to try a pod, with its gang, now, else what aspects it waits for."""
        gang = pod.gang
        if gang is None or not gang.needed:
            return self._engine.waits_for(pod)
        infos = []
        for key in gang.pending:
            queued = self._queue.get(key)
            if queued is not None and queued.state not in ("gated", "in flight"):
                infos.append(queued)
        infos.sort(key=lambda one: one.order)
        outcome = place_gang(self._engine, [one.info for one in infos], gang.needed, preempting=gang.held_until is None)
        if not outcome.complete:
            return None if outcome.possible and gang.held_until is None else outcome.reads
        for info, _ in outcome.placements:
            self._engine.forget(info)
            self._engine.nominate(info, info.nominated)
        return None

    # -- events

    def follow(self, pod: ObservedPod) -> None:
        """Take in what a pod is to its gang, if it is in one."""
        if pod.group and pod.scheduler in self._engine.profiles:
            self._gangs.get(pod.group).ours = True
        if pod.info is not None and pod.info.gang is not None:
            waiting = self._queue.get(pod.key)
            self._gangs.set_pending(waiting.info if waiting is not None else pod.info)
        elif pod.group and pod.state == "placed":
            self._gangs.set_placed(pod.key, pod.group)
        elif pod.group and pod.succeeded:
            self._gangs.set_succeeded(pod.key, pod.group)
        else:
            self._gangs.drop(pod.key)

    def busy(self, now: float) -> bool:
        """Whether :meth:`settle` has something to do."""
        return bool(self._gangs.changed) or now >= self.next_release

    @property
    def next_release(self) -> float:
        """When the first of the kept rooms is given back; infinity when none is kept."""
        return min((gang.held_until or math.inf for gang in self._held), default=math.inf)

    def settle(self, now: float) -> None:
        """Let events take effect: gates open and close, order changes, members are tried again, room is freed."""
        for gang in [gang for gang in self._held if now >= (gang.held_until or math.inf)]:
            log.info("room is no longer kept for a gang", extra={"podgroup": gang.key})
            self._release(gang)
            self._gangs.changed.setdefault(gang, False)
        changed = dict(self._gangs.changed)
        self._gangs.changed.clear()
        for gang, news in changed.items():
            for key in list(gang.pending):
                queued = self._queue.get(key)
                if queued is None:
                    continue
                self._queue.update(queued, now)
                if queued.state == "unschedulable" and (news or (queued.kind is gang) != bool(gang.needed)):
                    self._queue.reconsider(queued, now)
            incomplete = gang.refusal() is not None
            if incomplete or not gang.needed:
                self._refusals.pop(gang, None)
            if incomplete and gang in self._held:
                self._release(gang)
            if gang.ours or (not gang.members and DEFAULT_SCHEDULER_NAME in self._engine.profiles):
                self._groups.note(gang, self.standing(gang))

    def standing(self, gang: Gang) -> Standing:
        """Say how a gang fares."""
        refusal = self._refusals.get(gang)
        missing = gang.refusal()
        if not gang.needed and gang.group is not None:
            number = len(gang.placed) + len(gang.succeeded)
            if number >= gang.minimum:
                return Standing("Scheduled", "Scheduled", f"{number} members have a node or are done")
            return Standing("Scheduling", "Binding", f"the bindings of {len(gang.binding)} members are under way")
        phase = "Scheduling" if gang.begun else "Pending"
        if missing is not None:
            return Standing(phase, "NotEnoughMembers", missing.reasons[0])
        if refusal is None and gang.begun:
            text = f"{gang.settled} of {gang.minimum} members have a node or are done, the others come next"
            return Standing(phase, "Incomplete", text)
        if refusal is None:
            return Standing(phase, "NotTried", "the scheduler has not looked at it yet")
        if gang.held_until is not None:
            return Standing(phase, "MakingRoom", refusal.message)
        return Standing(phase, "Unschedulable", refusal.message)
