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


@dataclass(slots=True)
class _Seen:
    name: str
    namespace: str
    count: int
    stored: bool = False


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
        self._pending: deque[tuple[_Seen, core.Event]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """How many events were not recorded: over budget, over memory, or refused."""

    def event(self, obj: Message, type_: str, reason: str, message: str, *, field_path: str = "") -> None:
        """Record that something happened to an object; `type_` is ``Normal`` or ``Warning``."""
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
        self.event_for(reference, type_, reason, message)

    def event_for(self, reference: core.ObjectReference, type_: str, reason: str, message: str) -> None:
        """Record an event about an object that is named, not held."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="event recorder")
        key = (reference.kind, reference.namespace, reference.name, reference.uid, reference.fieldPath, type_, reason,
               message)  # fmt: skip
        if not self._allowed("/".join(key[:4])) or len(self._pending) >= PENDING:
            self.dropped += 1
            return
        now = time.time()
        seen = self._seen.get(key)
        if seen is None:
            name = f"{reference.name[:230]}.{time.time_ns():x}"
            seen = self._seen[key] = _Seen(name, reference.namespace or "default", 0)
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(key)
        seen.count += 1
        event = core.Event(type=type_, reason=reason, message=message[:1024], count=seen.count)
        event.metadata.name, event.metadata.namespace = seen.name, seen.namespace
        event.involvedObject.CopyFrom(reference)
        event.source.component, event.source.host = self._component, self._host
        event.reportingComponent, event.reportingInstance = self._component, self._host
        event.firstTimestamp.seconds = event.lastTimestamp.seconds = int(now)
        self._pending.append((seen, event))
        self._wake.set()

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
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                seen, event = self._pending.popleft()
                task = asyncio.get_running_loop().create_task(self._store(seen, event))
                running.add(task)
                task.add_done_callback(running.discard)
                if len(running) >= CONCURRENT or not seen.stored:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    async def _store(self, seen: _Seen, event: core.Event) -> None:
        try:
            if seen.stored and await self._count_up(seen, event):
                return
            await self._writer.create(event, brief=True)
            seen.stored = True
        except errors.AlreadyExistsError:
            seen.stored = True
        except errors.StatusError as error:
            self.dropped += 1
            log.debug("event not recorded", extra={"event": event.reason, "error": str(error)})

    async def _count_up(self, seen: _Seen, event: core.Event) -> bool:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event.lastTimestamp.seconds))
        patch: dict[str, Any] = {"count": event.count, "lastTimestamp": stamp}
        try:
            await self._writer.patch(core.Event, seen.name, patch=patch, namespace=seen.namespace, brief=True)
        except errors.NotFoundError:
            return False  # expired meanwhile: make it anew
        return True

    async def flush(self, seconds: float = 2.0) -> None:
        """Wait until what was recorded so far is on its way, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while self._pending and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Stop; what is still pending is dropped."""
        self.dropped += len(self._pending)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._writer.close()
        if self.dropped:
            log.info("events not recorded", extra={"dropped": self.dropped})
