"""Tells the world what was decided: Events, and the PodScheduled condition of pods that fit nowhere.

Nothing here may hold up a decision, so reports are only noted, and written in the background: while there are pods to
be placed in small portions, as fast as it goes otherwise. Changes of a pod's status are kept by pod, so that of several
only the last is written, all in one patch; a condition that says what the pod says already is not written at all.
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
BUSY_PORTION = 3
BUSY_PAUSE = 0.01
WRITERS = 32


class Reporter:
    """Writes Events and conditions; start it by :meth:`start`, end it by :meth:`close`."""

    def __init__(self, client: Client, *, busy: Callable[[], bool]) -> None:
        self._recorder = EventRecorder(client, component=COMPONENT)
        self._writer = client.writer()
        self._busy = busy
        self._events: deque[tuple[str, str, str, str, str, str, str]] = deque()
        self._statuses: dict[str, tuple[PodInfo, dict[str, Any]]] = {}
        """Key of a pod -> what of its status is to be written."""
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
        self._statuses.pop(pod.key, None)
        message = f"Successfully assigned {pod.key} to {node}"
        self._note((pod.namespace, pod.name, pod.uid, "Normal", "Scheduled", message, pod.cls.scheduler))

    def failed(self, pod: PodInfo, message: str, *, reason: str = "Unschedulable") -> None:
        """Note that a pod was not placed; `reason` is that of the condition, Unschedulable or SchedulerError."""
        self._note((pod.namespace, pod.name, pod.uid, "Warning", "FailedScheduling", message, pod.cls.scheduler))
        now = pod.condition
        if now is None or (now.status, now.reason, now.message) != ("False", reason, message):
            since = now.since if now is not None and now.status == "False" else int(time.time())
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": times.format_seconds(since),
            }
            self._set(pod, "conditions", [condition])

    def nominated(self, pod: PodInfo) -> None:
        """Note that the node which is being cleared for a pod has changed (`pod.nominated`)."""
        self._set(pod, "nominatedNodeName", pod.nominated or None)

    def _set(self, pod: PodInfo, name: str, value: Any) -> None:
        known = self._statuses.get(pod.key)
        if known is None or known[0].uid != pod.uid:
            known = self._statuses[pod.key] = (pod, {})
        known[1][name] = value
        self._wake.set()

    def preempted(self, namespace: str, name: str, uid: str, *, by: PodInfo, node: str) -> None:
        """Note that a pod had to make room for another."""
        message = f"Preempted by pod {by.uid} on node {node}"
        self._note((namespace, name, uid, "Normal", "Preempted", message, by.cls.scheduler))

    def _note(self, event: tuple[str, str, str, str, str, str, str]) -> None:
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
            while self._statuses and len(writing) < WRITERS:
                key = next(iter(self._statuses))
                task = daemon.spawn(self._write(*self._statuses.pop(key)), name=f"status of {key}")
                writing.add(task)
                task.add_done_callback(writing.discard)
            if not self._events and not self._statuses:
                self._wake.clear()
            await asyncio.sleep(BUSY_PAUSE if busy or len(writing) >= WRITERS else 0.001)

    def _record(
        self, namespace: str, name: str, uid: str, type_: str, reason: str, message: str, scheduler: str
    ) -> None:
        reference = core.ObjectReference(kind="Pod", apiVersion="v1", namespace=namespace, name=name, uid=uid)
        self._recorder.event_for(reference, type_, reason, message, component=scheduler)

    async def _write(self, pod: PodInfo, status: dict[str, Any]) -> None:
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
