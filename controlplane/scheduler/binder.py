"""Has placements stored: many in a call, a few calls at once, each with its own outcome.

A bind that was refused is final: the placement is forgotten and the pod looked at again after a pause (or it is gone).
A bind whose answer was lost may have happened: it is tried again as it was, and when that is refused, the pod itself
says whether it has become ours.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from controlplane.scheduler import metrics
from controlplane.scheduler.decisions import Placement
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.queue import QueuedPod
from wharfinger import daemon
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.proto.native import resources_v1_pb2 as resources

log = logging.getLogger(__name__)

BATCH = 100
CALLS = 4
RETRY_SECONDS = 0.5

Bound = Callable[[QueuedPod, Placement], None]
Failed = Callable[[QueuedPod, Placement, errors.StatusError], None]


class Binder:
    """Takes placements and calls back with the outcome of each."""

    def __init__(
        self, client: Client, *, bound: Bound, failed: Failed, checked: Callable[[PodInfo], bool] = lambda _: True
    ) -> None:
        self._client = client
        self._checked = checked
        self._bound = bound
        self._failed = failed
        self._waiting: deque[tuple[QueuedPod, Placement, float]] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._trouble = False

    @property
    def outstanding(self) -> int:
        """How many placements wait for a call to begin."""
        return len(self._waiting)

    def submit(self, pod: QueuedPod, placement: Placement) -> None:
        """Take a placement; :meth:`flush` sends it."""
        self._waiting.append((pod, placement, time.perf_counter()))

    def flush(self) -> None:
        """Begin as many calls as may be under way."""
        while self._waiting and len(self._calls) < CALLS:
            count = min(BATCH, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            task = daemon.spawn(self._bind(batch), name="bind")
            self._calls.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            self.flush()

    async def close(self) -> None:
        """Stop; what is under way may have happened."""
        self._waiting.clear()
        for task in list(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _bind(self, batch: Sequence[tuple[QueuedPod, Placement, float]]) -> None:
        requests = [
            resources.BindRequest(
                namespace=pod.info.namespace,
                pod=pod.info.name,
                uid=pod.info.uid,
                node=placement.node,
                checked=self._checked(pod.info),
            )
            for pod, placement, _ in batch
        ]
        unsure = False
        while True:
            try:
                results = await self._client.bind_many(requests)
                break
            except (errors.ServiceUnavailableError, errors.TimeoutError_) as error:
                unsure = True
                self._say_once(error)
                await asyncio.sleep(RETRY_SECONDS)
            except errors.StatusError as error:
                for pod, placement, _ in batch:
                    self._refused(pod, placement, error)
                return
        if self._trouble:
            log.info("binding again")
            self._trouble = False
        now = time.perf_counter()
        for (pod, placement, begun), result in zip(batch, results, strict=True):
            metrics.BINDING_SECONDS.observe(now - begun)
            if not result.HasField("error"):
                self._bound(pod, placement)
                continue
            refusal = errors.from_status(result.error)
            if isinstance(refusal, errors.ServiceUnavailableError | errors.TimeoutError_):
                self.submit(pod, placement)
                self._say_once(refusal)
            elif unsure and isinstance(refusal, errors.ConflictError) and await self._is_ours(pod, placement):
                self._bound(pod, placement)
            else:
                self._refused(pod, placement, refusal)
        if any(result.HasField("error") for result in results) and self._waiting:
            await asyncio.sleep(RETRY_SECONDS)

    def _say_once(self, error: errors.StatusError) -> None:
        if not self._trouble:
            log.warning("cannot bind, trying on", extra={"error": str(error)})
        self._trouble = True

    def _refused(self, pod: QueuedPod, placement: Placement, error: errors.StatusError) -> None:
        metrics.BIND_FAILURES.labels(error.reason or "InternalError").inc()
        self._failed(pod, placement, error)

    async def _is_ours(self, pod: QueuedPod, placement: Placement) -> bool:
        try:
            current = await self._client.resource(core.Pod).get(pod.info.name, namespace=pod.info.namespace)
        except errors.StatusError as error:
            log.debug("cannot see whether a pod was bound", extra={"pod": pod.info.key, "error": str(error)})
            return False
        return current.metadata.uid == pod.info.uid and current.spec.nodeName == placement.node
