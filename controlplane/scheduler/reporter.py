"""Tells the world what was decided: Events, and the PodScheduled condition of pods that fit nowhere.

Nothing here may hold up a decision, so reports are only noted, and written in the background: while there are pods to
be placed in small portions, as fast as it goes otherwise. Conditions are kept by pod, so that of several changes to one
pod only the last is written; one that would say what the pod says already is not written at all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from controlplane.scheduler.podinfo import PodInfo
from wharfinger import daemon
from wharfinger.api import errors, times
from wharfinger.api.types import core
from wharfinger.client import Client, EventRecorder

log = logging.getLogger(__name__)

COMPONENT = "default-scheduler"
MOST_NOTED = 50_000
PORTION = 64
BUSY_PORTION = 8
BUSY_PAUSE = 0.01
WRITERS = 32


class Reporter:
    """Writes Events and conditions; start it by :meth:`start`, end it by :meth:`close`."""

    def __init__(self, client: Client, *, busy: Callable[[], bool]) -> None:
        self._recorder = EventRecorder(client, component=COMPONENT)
        self._writer = client.writer()
        self._busy = busy
        self._events: deque[tuple[str, str, str, str, str, str]] = deque()
        self._conditions: dict[str, tuple[PodInfo, str, str]] = {}
        self._nominations: dict[str, PodInfo] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """Events that were not even noted because too many waited."""

    def start(self) -> None:
        """Begin to write."""
        self._task = daemon.spawn(self._run(), name="scheduler reports")

    async def close(self) -> None:
        """Stop; what is not written yet is lost (events) or written again by the next leader (conditions)."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._recorder.close()
        await self._writer.close()

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Note that a pod was bound."""
        self._conditions.pop(pod.key, None)
        self._nominations.pop(pod.key, None)
        message = f"Successfully assigned {pod.key} to {node}"
        self._note((pod.namespace, pod.name, pod.uid, "Normal", "Scheduled", message))

    def failed(self, pod: PodInfo, message: str, *, reason: str = "Unschedulable") -> None:
        """Note that a pod was not placed; `reason` is that of the condition, Unschedulable or SchedulerError."""
        self._note((pod.namespace, pod.name, pod.uid, "Warning", "FailedScheduling", message))
        now = pod.condition
        if now is None or (now.status, now.reason, now.message) != ("False", reason, message):
            self._conditions[pod.key] = (pod, reason, message)
            self._wake.set()

    def nominated(self, pod: PodInfo) -> None:
        """Note that the node which is being cleared for a pod has changed (`pod.nominated`)."""
        self._nominations[pod.key] = pod
        self._wake.set()

    def preempted(self, namespace: str, name: str, uid: str, *, by: str, node: str) -> None:
        """Note that a pod had to make room for another; `by` is the uid of that one."""
        self._note((namespace, name, uid, "Normal", "Preempted", f"Preempted by pod {by} on node {node}"))

    def _note(self, event: tuple[str, str, str, str, str, str]) -> None:
        if len(self._events) >= MOST_NOTED:
            self.dropped += 1
            return
        self._events.append(event)
        self._wake.set()

    async def _run(self) -> None:
        writing: set[asyncio.Task[None]] = set()
        while True:
            await self._wake.wait()
            busy = self._busy()
            for _ in range(BUSY_PORTION if busy else PORTION):
                if self._events and self._recorder.backlog < PORTION:
                    self._record(*self._events.popleft())
            while self._conditions and len(writing) < WRITERS:
                key = next(iter(self._conditions))
                task = daemon.spawn(self._write(*self._conditions.pop(key)), name=f"condition of {key}")
                writing.add(task)
                task.add_done_callback(writing.discard)
            while self._nominations and len(writing) < WRITERS:
                key = next(iter(self._nominations))
                task = daemon.spawn(self._write_nomination(self._nominations.pop(key)), name=f"nomination of {key}")
                writing.add(task)
                task.add_done_callback(writing.discard)
            if not self._events and not self._conditions and not self._nominations:
                self._wake.clear()
            await asyncio.sleep(BUSY_PAUSE if busy or len(writing) >= WRITERS else 0.001)

    def _record(self, namespace: str, name: str, uid: str, type_: str, reason: str, message: str) -> None:
        reference = core.ObjectReference(kind="Pod", apiVersion="v1", namespace=namespace, name=name, uid=uid)
        self._recorder.event_for(reference, type_, reason, message)

    async def _write(self, pod: PodInfo, reason: str, message: str) -> None:
        before = pod.condition
        since = before.since if before is not None and before.status == "False" else int(time.time())
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": times.format_seconds(since),
        }
        await self._patch(pod, {"conditions": [condition]})

    async def _write_nomination(self, pod: PodInfo) -> None:
        await self._patch(pod, {"nominatedNodeName": pod.nominated or None})

    async def _patch(self, pod: PodInfo, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await self._writer.patch(
                core.Pod, pod.name, namespace=pod.namespace, patch=patch, patch_type="strategic", subresource="status",
                brief=True,
            )  # fmt: skip
        except (errors.NotFoundError, errors.ConflictError) as error:
            log.debug("status not written", extra={"pod": pod.key, "error": str(error)})
        except errors.StatusError as error:
            log.warning("status not written", extra={"pod": pod.key, "error": str(error)})
