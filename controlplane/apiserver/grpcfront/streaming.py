"""The calls that stream: List in chunks, Watch in batches, and the write stream.

Each keeps what it holds bounded. A list yields to the event loop after each chunk. A watch sends one message for all
that is ready, and lets the cache close it when the client does not keep up. The write stream works on many requests at
once, in any order, and stops reading while too many are under way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import grpc.aio

from controlplane.apiserver import audit, metrics, watchstream
from controlplane.apiserver.failures import as_status_error
from controlplane.apiserver.grpcfront import wire
from wharfinger.api import errors
from wharfinger.proto.native import resources_v1_pb2 as native

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.grpcfront.resources import Calls
    from controlplane.apiserver.request import User
    from controlplane.apiserver.store import WatchEvent

log = logging.getLogger(__name__)

_EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009  (the stubs do not know it)

CHUNK_ITEMS = 500
CHUNK_BYTES = 1 << 20
IDENTIFY_SECONDS = 10.0
"""How long a write stream may go on before it is asked again who calls."""
MAX_UNDER_WAY = 2048
"""Writes of one stream that are worked on at once; more are read when some are done."""
_OBSERVE = {verb.name: metrics.observer(verb.name) for verb in native.Write.DESCRIPTOR.oneofs_by_name["request"].fields}
"""Writes of the stream count like those that come one by one."""


async def list_objects(calls: Calls, user: User, message: native.ListRequest, context: Any) -> None:
    """Serve List."""
    request = calls.request(user, "list", message.reference)
    page = await calls.api.list(request, message.options)
    resource = calls.api.readable(request.kind).resource
    head = wire.chunk_head(request.kind, page.revision)
    parts, size, sent = [head], 0, 0
    revision = wire.field(0x0A, str(page.revision).encode())
    for entry in page.entries:
        item = resource.raw(entry)
        parts.append(wire.field(0x22, item))
        size += len(item)
        sent += 1
        if sent % CHUNK_ITEMS == 0 or size >= CHUNK_BYTES:
            await context.write(b"".join(parts))
            parts, size = [revision], 0
    if page.continue_:
        parts.append(wire.field(0x12, page.continue_.encode()))
        if page.remaining:
            parts.append(b"\x18" + wire.varint(page.remaining))
    if page.continue_ or size or not sent:
        await context.write(b"".join(parts))


async def watch(calls: Calls, user: User, message: native.WatchRequest, context: Any) -> None:
    """Serve Watch. What goes wrong after the start ends the stream with an ERROR event."""
    request = calls.request(user, "watch", message.reference)
    watching = await calls.api.watch(request, message.options)
    form = wire.event_form(watching.resource)
    make: Any = wire.event_maker(watching.resource)

    def encode(event: WatchEvent) -> bytes:
        return wire.initial_end(event.revision) if event.initial_end else event.served(form, make)

    audit.started()
    async with watching.watcher as watcher:
        try:
            async with asyncio.timeout(watching.timeout):
                async for piece in watchstream.pieces(watcher, watching, encode):
                    await context.write(piece)
        except TimeoutError:
            return  # the time that the client asked for is over
        except errors.StatusError as error:
            await context.write(wire.error_event(error.to_status()))


class WriteStream:
    """One open write stream."""

    def __init__(self, calls: Calls, user: User, context: Any, *, identify: Callable[[], User] | None = None) -> None:
        """`identify` says who calls by now: tokens and certificates end, also those with which a stream began."""
        self._calls = calls
        self._user = user
        self._identify = identify
        self._identified = time.monotonic()
        self._context = context
        self._ready: list[bytes] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_all = False
        self._finishing = False
        self._reader: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Read, work and answer until the client has closed its side and everything is answered."""
        reader = self._reader = asyncio.get_running_loop().create_task(self._read(), name="write stream: reading")
        try:
            while not (self._read_all and not self._tasks and not self._ready):
                await self._wake.wait()
                self._wake.clear()
                if self._ready:
                    ready, self._ready = self._ready, []
                    self._make_room()
                    await self._context.write(b"".join(ready))
            if not self._finishing:
                await reader
        finally:
            reader.cancel()
            # The client is gone: nobody would hear the outcomes, but what is under way goes on to its end.

    def finish(self) -> None:
        """Read no more, and end when what was read is answered: the server stops."""
        self._finishing = True
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async for batch in self._batches():
                if self._identify is not None and time.monotonic() - self._identified > IDENTIFY_SECONDS:
                    self._user, self._identified = self._identify(), time.monotonic()
                for write in batch.writes:
                    await self._have_room()
                    task = loop.create_task(self._work(write))
                    self._tasks.add(task)
                    task.add_done_callback(self._done)
        finally:
            self._read_all = True
            self._wake.set()

    async def _have_room(self) -> None:
        """Wait while too many writes are under way, or too many outcomes for a client that does not read them."""
        if len(self._tasks) + len(self._ready) >= MAX_UNDER_WAY:
            self._room.clear()
            await self._room.wait()

    async def _batches(self) -> Any:
        while (message := await self._context.read()) is not _EOF:
            yield wire.parsed(native.WriteBatch, message)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._make_room()
        self._wake.set()

    def _make_room(self) -> None:
        if len(self._tasks) + len(self._ready) < MAX_UNDER_WAY // 2:
            self._room.set()

    async def _work(self, write: native.Write) -> None:
        verb, start = write.WhichOneof("request"), time.perf_counter()
        try:
            if verb is None:
                raise errors.BadRequestError("a write holds no request")
            given = getattr(write, verb)
            if self._calls.auditing is not None:
                self._calls.auditing.part(verb, given)
            answer = await self._calls.api.retried(self._calls.on_stream[verb], self._user, given)
            self._ready.append(wire.result_bytes(write.id, answer))
            _OBSERVE[verb](time.perf_counter() - start, None)
        except Exception as error:  # noqa: BLE001  (becomes this write's outcome; the unforeseen is logged)
            if verb is not None:
                _OBSERVE[verb](time.perf_counter() - start, error)
            status = as_status_error(error, f"Write/{verb}").to_status()
            self._ready.append(wire.error_bytes(write.id, status))
        finally:
            audit.end()
