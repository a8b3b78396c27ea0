"""What the node and its containers use, measured every few seconds: the figures behind ``kubectl top``.

Counters of processor time only say something as a difference, so two samples are kept, and a report is about the span
between them. A container that was not there at both has no figures yet.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from nodeagent.runtime import RuntimeFailure
from wharfinger.proto.native import streams_v1_pb2 as streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nodeagent.runtime import ContainerUse, Runtime

log = logging.getLogger(__name__)

PERIOD = 15.0
"""Seconds between samples."""
_FIRST_PERIOD = 3.0
_SECOND = 10**9


@dataclass(frozen=True, slots=True)
class Sample:
    """What was used up to a moment."""

    at: int
    """Nanoseconds of the monotonic clock."""
    time: int
    """Nanoseconds since 1970."""
    cpu: int
    """Nanoseconds of processor time of the whole host."""
    memory: int
    """Bytes that are not available to more processes."""
    containers: Mapping[str, ContainerUse]


def read_host() -> tuple[int, int]:
    """Return the processor time that the host has spent (nanoseconds), and the memory in use (bytes)."""
    times = psutil.cpu_times()
    memory = psutil.virtual_memory()
    # Time of guests is part of user and nice, so it must not be added again.
    busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return int(busy * _SECOND), memory.total - memory.available


class UsageMeter:
    """Takes the samples and makes reports of them."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        period: float = PERIOD,
        host: Callable[[], tuple[int, int]] = read_host,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._runtime = runtime
        self._period = period
        self._host = host
        self._clock = clock
        self._wall = wall
        self._before: Sample | None = None
        self._last: Sample | None = None
        self._failing = False

    async def run(self) -> None:
        """Sample until cancelled; a runtime that is away is waited for."""
        await self._try()
        await asyncio.sleep(min(_FIRST_PERIOD, self._period))
        while True:
            await self._try()
            await asyncio.sleep(self._period)

    async def _try(self) -> None:
        try:
            await self.sample()
        except RuntimeFailure as error:
            if not self._failing:
                log.warning("the use of containers cannot be measured", extra={"error": str(error)})
            self._failing = True
        else:
            self._failing = False

    async def sample(self) -> None:
        """Take one sample. Raises RuntimeFailure; then the ones before stay."""
        containers = {use.id: use for use in await self._runtime.usage()}
        cpu, memory = self._host()
        self._before, self._last = self._last, Sample(self._clock(), self._wall(), cpu, memory, containers)

    def report(self) -> streams.NodeUsage:
        """Return the use between the last two samples; what was not seen in both is left out."""
        before, last = self._before, self._last
        answer = streams.NodeUsage()
        if before is None or last is None or last.at <= before.at:
            return answer
        window = last.at - before.at

        def measured(used: int, memory: int) -> streams.Measured:
            return streams.Measured(
                time=last.time, window=window, cpu=max(used, 0) * _SECOND // window, memory=memory
            )  # fmt: skip

        answer.node.CopyFrom(measured(last.cpu - before.cpu, last.memory))
        by_pod: dict[str, list[ContainerUse]] = {}
        for use in last.containers.values():
            by_pod.setdefault(use.pod_uid, []).append(use)
        for uid, uses in by_pod.items():
            if not all(use.id in before.containers for use in uses):
                continue
            pod = answer.pods.add(namespace=uses[0].pod_namespace, pod=uses[0].pod_name, uid=uid)
            for use in sorted(uses, key=lambda use: use.name):
                used = use.cpu - before.containers[use.id].cpu
                pod.containers.add(name=use.name).measured.CopyFrom(measured(used, use.memory))
        return answer
