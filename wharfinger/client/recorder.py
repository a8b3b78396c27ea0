"""Events about objects, recorded in the background and counted instead of repeated.

The rules follow client-go's ``tools/record``: the same event about the same object becomes one Event whose count
grows; one source may say at most 25 things about one object at once and one every five minutes after that. Recording
never blocks and never fails its caller; what had to be dropped is counted and said.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from wharfinger.api import errors, kinds
from wharfinger.api.types import core
from wharfinger.client.client import Client

log = logging.getLogger(__name__)

REMEMBERED = 4096
PENDING = 8192
BURST = 25
REFILL_SECONDS = 300.0
CONCURRENT = 64
TRIES = 12
RETRY_SECONDS = 10.0
"""As client-go: an event is given up after two minutes without an apiserver."""


@dataclass(slots=True)
class _Seen:
    """One series of like events: what is stored of it and what is not yet."""

    name: str
    namespace: str
    event: core.Event
    count: int = 0
    stored: bool = False
    queued: bool = False
    failures: int = 0
    """Tries in a row that found no apiserver."""


@dataclass(slots=True)
class _Budget:
    tokens: float
    at: float


class EventRecorder:
    """Records Events in the name of one component. Start it, close it."""

    def __init__(self, client: Client, *, component: str, host: str = "") -> None:
        self._writer = client.writer()
        self._component = component
        self._host = host
        self._seen: OrderedDict[tuple[str, ...], _Seen] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._pending: deque[_Seen] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """How many events were not recorded: over budget, over memory, or refused."""

    @property
    def backlog(self) -> int:
        """How many events wait to be written; beyond PENDING further ones are dropped."""
        return len(self._pending)

    def event(
        self, obj: Message, type_: str, reason: str, message: str, *, field_path: str = "", component: str = ""
    ) -> None:
        """Record that something happened to an object; `type_` is ``Normal`` or ``Warning``.

        `component` is the source to name when it is another than the recorder's.
        """
        kind, metadata = kinds.of(obj), obj.metadata  # type: ignore[attr-defined]
        reference = core.ObjectReference(
            kind=kind.kind,
            apiVersion=kind.api_version,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resourceVersion=metadata.resourceVersion,
            fieldPath=field_path,
        )
        self.event_for(reference, type_, reason, message, component=component)

    def event_for(
        self, reference: core.ObjectReference, type_: str, reason: str, message: str, *, component: str = ""
    ) -> None:
        """Record an event about an object that is named, not held."""
        component = component or self._component
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="event recorder")
        key = (reference.kind, reference.namespace, reference.name, reference.uid, reference.fieldPath, type_, reason,
               message, component)  # fmt: skip
        if not self._allowed("/".join(key[:4])) or len(self._pending) >= PENDING:
            self.dropped += 1
            return
        now = int(time.time())
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = self._begin(reference, type_, reason, message, component)
            seen.event.firstTimestamp.seconds = now
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(key)
        seen.count += 1
        seen.event.lastTimestamp.seconds = now
        if not seen.queued:
            self._again(seen)

    def _begin(self, reference: core.ObjectReference, type_: str, reason: str, message: str, component: str) -> _Seen:
        event = core.Event(type=type_, reason=reason, message=message[:1024])
        event.metadata.name = f"{reference.name[:230]}.{time.time_ns():x}"
        event.metadata.namespace = reference.namespace or "default"
        event.involvedObject.CopyFrom(reference)
        event.source.component, event.source.host = component, self._host
        event.reportingComponent, event.reportingInstance = component, self._host
        return _Seen(event.metadata.name, event.metadata.namespace, event)

    def _allowed(self, subject: str) -> bool:
        now = time.monotonic()
        budget = self._budgets.get(subject)
        if budget is None:
            budget = self._budgets[subject] = _Budget(BURST, now)
            if len(self._budgets) > REMEMBERED:
                self._budgets.popitem(last=False)
        budget.tokens = min(BURST, budget.tokens + (now - budget.at) / REFILL_SECONDS)
        budget.at = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    async def _run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        while True:
            while self._pending:
                task = asyncio.get_running_loop().create_task(self._store(self._pending.popleft()))
                running.add(task)
                task.add_done_callback(running.discard)
                if len(running) >= CONCURRENT:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self._wake.clear()
            await self._wake.wait()

    async def _store(self, seen: _Seen) -> None:
        written = seen.count
        try:
            if not (seen.stored and await self._count_up(seen)):
                seen.event.count = written
                await self._writer.create(seen.event, brief=True)
                seen.stored = True
            seen.failures = 0
        except errors.AlreadyExistsError:
            seen.stored = True
        except (errors.ServiceUnavailableError, errors.TimeoutError_) as error:
            seen.failures += 1
            if seen.failures < TRIES and len(self._pending) < PENDING:
                # The apiserver is away: the series keeps its place in the queue, and goes on counting meanwhile.
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._again, seen)
                return
            self._drop(seen, error)
        except errors.StatusError as error:
            self._drop(seen, error)
        seen.queued = False
        if seen.count != written:  # it happened again meanwhile
            self._again(seen)

    def _again(self, seen: _Seen) -> None:
        seen.queued = True
        self._pending.append(seen)
        self._wake.set()

    def _drop(self, seen: _Seen, error: errors.StatusError) -> None:
        seen.failures = 0
        self.dropped += 1
        log.debug("event not recorded", extra={"event": seen.event.reason, "error": str(error)})

    async def _count_up(self, seen: _Seen) -> bool:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen.event.lastTimestamp.seconds))
        patch: dict[str, Any] = {"count": seen.count, "lastTimestamp": stamp}
        try:
            await self._writer.patch(core.Event, seen.name, patch=patch, namespace=seen.namespace, brief=True)
        except errors.NotFoundError:
            return False  # expired meanwhile: make it anew
        return True

    async def close(self) -> None:
        """Stop; what is still pending is dropped."""
        self.dropped += len(self._pending)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._writer.close()
        if self.dropped:
            log.info("events not recorded", extra={"dropped": self.dropped})


@dataclass(frozen=True, slots=True)
class NamedRecorder:
    """A recorder's face for one of several parts of a process: what it records names that part as the source."""

    recorder: EventRecorder
    component: str

    def event(self, obj: Message, type_: str, reason: str, message: str, *, field_path: str = "") -> None:
        """Record as EventRecorder.event does."""
        self.recorder.event(obj, type_, reason, message, field_path=field_path, component=self.component)

    def event_for(self, reference: core.ObjectReference, type_: str, reason: str, message: str) -> None:
        """Record as EventRecorder.event_for does."""
        self.recorder.event_for(reference, type_, reason, message, component=self.component)
