"""A node that is cut off ends the pods that may not run twice, before the control plane can start them elsewhere.

Which those are: pods of StatefulSets, and pods that say so (annotation ``wharfinger.dev/at-most-one: "true"``). When a
replacement can start at the earliest follows from what the control plane does: it calls a node unreachable when it has
*seen* no renewal of the Lease for ``--node-monitor-grace-period``, and deletes a pod from it after the time that the
pod tolerates that. It saw the last renewal after we had asked for it. So the time since we *asked for* the renewal that
was acknowledged last, on our own clock, is never shorter than the control plane's, and nobody's clocks are compared.

The clock is CLOCK_BOOTTIME, which goes on while the host sleeps. The moment is kept in a file: an agent that is started
anew counts on where the old one stood, and needs no API for it, since what must be known of a container stands in its
annotations. A node without such a file has been silent for ever.

Ended is not deleted. The pod stays as it is, and goes on by its restart policy when all of this is certain: the Lease
is renewed, the node has no taint for its health (so nobody is about to evict the pod), and the pods have been proven
current after that was seen. Until then, and at the agent's start, no container of such a pod is started.

What this cannot help against: somebody who deletes the pod or the node, or forces a pod's deletion, while the node is
cut off; an agent that is stopped for good; a host that is stopped and goes on, for the second until the agent runs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nodeagent.podspec import grace_seconds, pod_key
from nodeagent.runtime import GRACE_PERIOD_ANNOTATION, ContainerRecord, PodRecord, Runtime, RuntimeFailure
from wharfinger import wholefile
from wharfinger.api import errors
from wharfinger.api.pods import controller_of, tolerates_taint
from wharfinger.api.types import core

log = logging.getLogger(__name__)

AT_MOST_ONE = "wharfinger.dev/at-most-one"
TOLERATION_ANNOTATION = "wharfinger.dev/unreachable-toleration-seconds"
"""Of a container that is to be ended when the node is cut off: how long its pod tolerates that."""
LOOK_SECONDS = 0.5
MARGIN = (1.0, 5.0)
"""Seconds, at least and at most, by which all must have ended before a replacement can start; a tenth in between."""
SETTLED_SECONDS = 2.0
"""A deletion that was decided just before the node's taint went away has come by then."""
_UNREACHABLE = core.Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
_HEALTH = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")


def boottime() -> float:
    """Return the seconds since boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def toleration_seconds(pod: core.Pod) -> float | None:
    """Return how long a pod that may not run twice stays with a node out of reach; None: it may, or stays for ever."""
    owner = controller_of(pod.metadata)
    stateful = owner is not None and owner.kind == "StatefulSet" and owner.apiVersion.startswith("apps/")
    if not stateful and pod.metadata.annotations.get(AT_MOST_ONE) != "true":
        return None
    matching = [one for one in pod.spec.tolerations if tolerates_taint(one, _UNREACHABLE)]
    if not matching:
        return 0.0
    seconds = [one.tolerationSeconds for one in matching if one.HasField("tolerationSeconds")]
    return float(max(0, min(seconds))) if seconds else None


@dataclass(frozen=True, slots=True)
class Times:
    """When a container is asked to end, and when it must have ended; seconds of the node's silence."""

    begin: float
    end: float

    @classmethod
    def of(cls, limit: float, grace: float) -> Times:
        """`limit`: when a replacement can start. Half of the time is the node's own, whatever grace a pod wants."""
        least, most = MARGIN
        end = limit - min(max(limit / 10, least), most)
        return cls(max(end - grace, end / 2), end)


class Renewals:
    """When the last renewal of the node's Lease was asked for that was acknowledged; kept over the agent's restarts."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = boottime, boot: str | None = None) -> None:
        """`boot` names this boot of the host, for tests."""
        self._path = path
        self._clock = clock
        self._boot = boot if boot is not None else Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._at = self._read()
        self._trouble = ""

    @property
    def silence(self) -> float:
        """Seconds since then; infinite when there was none since the host was booted."""
        return self._clock() - self._at

    def acknowledged(self, at: float) -> None:
        """Take note of a renewal that was asked for at a moment of the clock. Called by the heartbeat's thread."""
        self._at = max(self._at, at)
        try:
            # Only a restart of the agent reads it, never one of the host: it need not be on the disk.
            wholefile.write(self._path, f"{self._boot} {self._at}\n".encode(), durable=False)
            self._trouble = ""
        except OSError as error:
            if str(error) != self._trouble:
                log.warning("the time of the last renewal is not kept", extra={"error": str(error)})
            self._trouble = str(error)

    def _read(self) -> float:
        try:
            boot, at = self._path.read_text().split()
            return min(float(at), self._clock()) if boot == self._boot else -math.inf
        except (OSError, ValueError):
            return -math.inf


class Fence:
    """Says which pods must not be started now. Times are of the node's silence."""

    def __init__(self, grace_period: float, silence: Callable[[], float]) -> None:
        """`grace_period`: after which the control plane calls a silent node unreachable."""
        self._grace_period = grace_period
        self.silence = silence
        self.open = False
        """Whether it is certain that the node's pods are still its own."""
        self.waiting: set[str] = set()
        """Uids of pods that are to be looked at when it opens."""

    def holds(self, pod: core.Pod) -> bool:
        """Whether nothing of the pod may be started."""
        tolerated = toleration_seconds(pod)
        if tolerated is None:
            return False
        if self.silence() >= self.times(tolerated, grace_seconds(pod)).begin:
            self.open = False
        if not self.open:
            self.waiting.add(pod.metadata.uid)
        return not self.open

    def times(self, tolerated: float, grace: float) -> Times:
        """Return when what tolerates so much must end."""
        return Times.of(self._grace_period + tolerated, grace)


class Pods(Protocol):
    """What the fencer needs of the pod manager."""

    def pod_of(self, uid: str) -> core.Pod | None:
        """Return a pod as the API had it last."""

    def poke(self, uid: str) -> None:
        """Have a pod looked at."""


class Fencer:
    """Ends what the fence is closed for, and opens it again. See the module."""

    def __init__(
        self, fence: Fence, runtime: Runtime, pods: Pods, *, fresh_node: Callable[[], Awaitable[core.Node]],
        pods_idle: Callable[[], float],
        quiet_seconds: float,
        released: Callable[[core.Pod], None],
    ) -> None:  # fmt: skip
        """`pods_idle`: seconds since the pods of the node were proven current; `quiet_seconds`: a silence that is
        nothing to look into; `released` is told of each pod that may go on."""
        self._fence = fence
        self._runtime = runtime
        self._pods = pods
        self._fresh_node = fresh_node
        self._pods_idle = pods_idle
        self._quiet = quiet_seconds
        self._released = released
        self._endings: dict[str, tuple[asyncio.Task[None], float]] = {}
        self._ended: set[str] = set()
        self._clean_since: float | None = None
        self._trouble = ""
        self._fault = ""

    async def run(self) -> None:
        """Look twice a second, until cancelled."""
        try:
            while True:
                try:
                    await self.look()
                except Exception as error:  # a fault of ours must neither leave pods unfenced nor fenced for ever
                    if repr(error) != self._fault:
                        log.exception("looking at the fence failed on a fault of ours, looking on")
                    self._fault = repr(error)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task, _ in self._endings.values():
                task.cancel()

    async def look(self) -> None:
        """Look once."""
        silence = self._fence.silence()
        if silence <= self._quiet:
            await self._release()
            return
        self._clean_since = None
        try:
            running = await self._runtime.list_pods()
        except RuntimeFailure as error:
            if str(error) != self._trouble:
                log.error("cut off, and the runtime cannot be asked what runs", extra={"error": str(error)})
            self._trouble = str(error)
            return
        self._trouble = ""
        self._end(running, silence)

    def _end(self, running: Mapping[str, PodRecord], silence: float) -> None:
        for record in running.values():
            pod = self._pods.pod_of(record.uid)
            for container in record.running:
                times = self._times(pod, container)
                if times is None or silence < times.begin:
                    continue
                self._fence.open = False
                self._fence.waiting.add(record.uid)
                self._ended.add(record.uid)
                left = max(0.0, times.end - silence)
                if self._ending(record, container, left):
                    log.warning(
                        "the node is cut off: what may not run twice is ended",
                        extra={
                            "pod": f"{record.namespace}/{record.name}", "container": container.name,
                            "silence": round(silence, 1), "grace": round(left, 1),
                        },
                    )  # fmt: skip

    def _times(self, pod: core.Pod | None, container: ContainerRecord) -> Times | None:
        """Return when a container must end: by what the pod says now, or by what it said when it was started."""
        found = []
        with suppress(ValueError):
            found.append(float(container.annotations.get(TOLERATION_ANNOTATION, "")))
        if pod is not None and (now := toleration_seconds(pod)) is not None:
            found.append(now)
        if not found:
            return None
        with suppress(ValueError):
            return self._fence.times(min(found), float(container.annotations.get(GRACE_PERIOD_ANNOTATION, "")))
        return self._fence.times(min(found), 30.0)

    def _ending(self, record: PodRecord, container: ContainerRecord, left: float) -> bool:
        """Begin to end a container, unless that is under way; a second time when its grace is over."""
        loop = asyncio.get_running_loop()
        known = self._endings.get(container.id)
        if known is not None and (not known[0].done() and (left > 0 or known[1] == 0)):
            return False
        task = loop.create_task(self._stop(record, container, left), name=f"fence {container.id}")
        self._endings[container.id] = (task, left)
        return True

    async def _stop(self, record: PodRecord, container: ContainerRecord, left: float) -> None:
        try:
            await self._runtime.stop_container(container.id, int(left))
        except RuntimeFailure as error:
            log.error(
                "what may not run twice could not be ended, trying again",
                extra={"pod": f"{record.namespace}/{record.name}", "error": str(error)},
            )

    async def _release(self) -> None:
        """Open the fence if everything is certain that must be."""
        fence = self._fence
        if fence.open:
            return
        now = asyncio.get_running_loop().time()
        try:
            node = await self._fresh_node()
        except errors.StatusError as error:
            log.debug("the node cannot be read", extra={"error": error.message})
            return
        if any(taint.key in _HEALTH and taint.effect == "NoExecute" for taint in node.spec.taints):
            self._clean_since = None
            return
        if self._clean_since is None:
            self._clean_since = now
        if now - self._pods_idle() < self._clean_since + SETTLED_SECONDS or self._fence.silence() > self._quiet:
            return
        self._clean_since = None
        fence.open = True
        self._endings = {key: ending for key, ending in self._endings.items() if not ending[0].done()}
        waiting, fence.waiting, ended, self._ended = fence.waiting, set(), self._ended, set()
        for uid in waiting:
            pod = self._pods.pod_of(uid)
            if pod is not None and uid in ended:
                log.info("the node is back: the pod may run again", extra={"pod": pod_key(pod)})
                self._released(pod)
            self._pods.poke(uid)
