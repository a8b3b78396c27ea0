"""Streams over one connection, whatever carries its bytes (:class:`Carrier`), for either end.

::

    session = Session(carrier, server=True)
    async with session:                      # reads in the background until it is left
        stream = await session.accept()      # the peer has begun one; its headers are stream.headers
        await stream.reply()
        async for data in stream: ...
        await stream.write(b"…"); await stream.close()

Reading the connection stops while a stream holds more than :data:`HIGH_WATER` bytes that nobody has taken. So a stream
must be read, ignored or reset: one that is not holds up the others, and memory stays bounded whatever the peer sends.
What a stream held when it was broken off can still be read: peers reset streams right after their last words.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Protocol, Self

from wharfinger.spdy import frames
from wharfinger.spdy.frames import SpdyError

log = logging.getLogger(__name__)

HIGH_WATER = 256 << 10
"""Bytes that one stream may hold."""
MAX_STREAMS = 2_048
"""Open streams of one connection, and those that nobody has accepted yet."""
MAX_HELD_HEADERS = 1 << 20
"""Bytes of the headers of all open streams of one connection: a few bytes on the wire unfold to very many here."""
MAX_HELD = 8 << 20
"""Bytes that all streams of one connection may hold together before it is not read on."""
_PIECE_COST = 64
"""Bytes of memory that each piece takes besides its own."""
_GOODBYE_SECONDS = 1.0
_PIECE = 32 << 10


class Carrier(Protocol):
    """What carries the bytes."""

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send, and wait while the peer does not take it. Raises ConnectionError when it is gone."""


class StreamReset(ConnectionError):  # noqa: N818  (what has happened, not what went wrong here)
    """Raised by reads and writes of a stream that the peer has broken off."""


class Stream:
    """One stream: bytes both ways, each of which ends on its own."""

    def __init__(self, session: Session, number: int, headers: Mapping[str, str]) -> None:
        self._session = session
        self.number = number
        self.headers = headers
        """Those that it was begun with."""
        self.answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        """The headers of the peer's reply, of a stream begun here."""
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.ended = False
        """Whether the peer sends no more."""
        self.closed = False
        """Whether this side sends no more."""
        self.accepted = False
        """Of a stream that the peer has begun: whether somebody has taken it on."""
        self._reset: StreamReset | None = None
        self._ignoring = False

    # --- this side

    async def reply(self, headers: Mapping[str, str] | None = None) -> None:
        """Take on a stream that the peer has begun."""
        await self._session.send(frames.SynReply(self.number, headers or {}))

    async def read(self) -> bytes:
        """Return what has come; empty at the end, also that of the connection. Raises StreamReset."""
        while not self._pieces:
            if self.ended:
                return b""
            if self._reset is not None:
                raise self._reset
            self._changed.clear()
            await self._changed.wait()
        data = b"".join(self._pieces)
        self._let_go()
        self._room.set()
        return data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    def ignore(self) -> None:
        """Drop what has come and what will: nobody reads this stream (any more)."""
        self._ignoring = True
        self._let_go()
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Send. Raises StreamReset, or another ConnectionError when the connection is gone."""
        for start in range(0, len(data), _PIECE):
            if self._reset is not None:
                raise self._reset
            await self._session.send(frames.Data(self.number, data[start : start + _PIECE]))

    async def close(self) -> None:
        """Send no more."""
        if not self.closed and self._reset is None:
            self.closed = True
            await self._session.send(frames.Data(self.number, b"", fin=True))
            self._session.forget_if_done(self)

    async def reset(self, status: int = frames.CANCEL) -> None:
        """Break it off; what still comes is dropped."""
        if self._reset is None:
            self.break_off(StreamReset("broken off on this side"))
            await self._session.send(frames.RstStream(self.number, status))
        else:
            self._let_go()
        self._session.forget(self)

    # --- the session's side

    async def take(self, data: bytes, *, fin: bool) -> None:
        """Hold what the peer has sent, once there is room."""
        if data and self._reset is None and not self._ignoring:
            self._pieces.append(data)
            self._held += len(data) + _PIECE_COST
            self._session.hold(len(data) + _PIECE_COST)
            if self._held > HIGH_WATER:
                self._room.clear()
        if fin:
            self.ended = True
        self._changed.set()
        await self._room.wait()

    def break_off(self, error: StreamReset) -> None:
        """End it on this side and drop what has come; whoever reads or writes hears of it."""
        self._let_go()
        self.lose(error)

    def _let_go(self) -> None:
        """Forget what is held."""
        self._pieces.clear()
        self._session.hold(-self._held)
        self._held = 0

    def lose(self, error: StreamReset) -> None:
        """Note that the peer has gone or broken it off: what has come can still be read, writing fails."""
        self._reset = error
        self._changed.set()
        self._room.set()
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # nobody need have waited for it


class Session:
    """See the module."""

    def __init__(self, carrier: Carrier, *, server: bool) -> None:
        self._carrier = carrier
        self._server = server
        self._decoder = frames.Decoder()
        self._encoder = frames.Encoder()
        self._streams: dict[int, Stream] = {}
        self._arrived: asyncio.Queue[Stream | None] = asyncio.Queue()
        self._next = 2 if server else 1
        self._last = 0
        self._held_headers = 0
        self._held = 0
        self._room = asyncio.Event()
        self._room.set()
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        """Why it ended, if not in order."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="SPDY connection")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()  # what nobody foresaw is no secret

    async def accept(self) -> Stream | None:
        """Return the next stream that the peer begins; None when the connection has ended."""
        stream = await self._arrived.get()
        if stream is None:
            self._arrived.put_nowait(None)
        else:
            stream.accepted = True
        return stream

    async def open(self, headers: Mapping[str, str], *, fin: bool = False) -> Stream:
        """Begin a stream; the peer's reply comes as ``stream.answer``. With `fin` this side sends nothing on it."""
        stream = Stream(self, self._next, headers)
        self._next += 2
        self._streams[stream.number] = stream
        if self.ended:
            stream.break_off(StreamReset("the connection has ended"))
        stream.closed = fin
        await self.send(frames.SynStream(stream.number, headers, fin))
        return stream

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._task is not None and self._task.done()

    async def wait(self) -> None:
        """Return when the connection has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def go_away(self) -> None:
        """Say that no more streams will be taken on."""
        await self.send(frames.GoAway(self._last))

    async def send(self, frame: frames.Frame) -> None:
        """Send a frame; frames with headers in the order in which they were compressed. Raises ConnectionError."""
        async with self._sending:
            await self._carrier.write(self._encoder.encode(frame))

    def hold(self, size: int) -> None:
        """Count what the streams hold; negative: what they hold no longer."""
        self._held += size
        if self._held > MAX_HELD:
            self._room.clear()
        else:
            self._room.set()

    def forget(self, stream: Stream) -> None:
        """Let go of a stream."""
        if self._streams.pop(stream.number, None) is not None and self._is_peers(stream.number):
            self._held_headers -= _size(stream.headers)
            if not stream.accepted:  # it waits for somebody to accept it, who has no use for it any more
                stream.headers = {}

    def _is_peers(self, number: int) -> bool:
        return bool(number % 2) == self._server

    def forget_if_done(self, stream: Stream) -> None:
        """Let go of a stream on which neither side sends any more."""
        if stream.closed and stream.ended:
            self.forget(stream)

    async def _run(self) -> None:
        try:
            while data := await self._carrier.read():
                for frame in self._decoder.feed(data):
                    await self._handle(frame)
        except (SpdyError, ConnectionError) as error:
            self.error = error
            log.info("a SPDY connection broke off", extra={"error": str(error)})
            if isinstance(error, SpdyError):
                await self._say_goodbye()
        finally:
            for stream in list(self._streams.values()):
                # As peers end connections without ending every stream before, that is the end of each.
                stream.ended = True
                stream.lose(StreamReset("the connection has ended"))
            self._streams.clear()
            self._arrived.put_nowait(None)

    async def _say_goodbye(self) -> None:
        """Tell a peer that has broken the protocol, if it still listens."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self.send(frames.GoAway(self._last, frames.PROTOCOL_ERROR))

    async def _handle(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Data():
                await self._take(frame.stream, frame.data, fin=frame.fin)
            case frames.SynStream():
                await self._begin(frame)
            case frames.SynReply():
                stream = self._streams.get(frame.stream)
                if stream is not None and not stream.answer.done():
                    stream.answer.set_result(frame.headers)
                if frame.fin:
                    await self._take(frame.stream, b"", fin=True)
            case frames.Headers():
                if frame.fin:
                    await self._take(frame.stream, b"", fin=True)
            case frames.RstStream():
                stream = self._streams.get(frame.stream)
                if stream is not None:
                    self.forget(stream)
                    stream.lose(StreamReset(f"the peer has broken it off with status {frame.status}"))
            case frames.Ping():
                # Numbers of the peer's pings are odd when it is the client; our own come back otherwise.
                if bool(frame.id % 2) == self._server:
                    await self.send(frame)

    async def _take(self, number: int, data: bytes, *, fin: bool) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.ended:
            return  # it was let go of, and the peer did not know yet
        await stream.take(data, fin=fin)
        if fin:
            self.forget_if_done(stream)
        await self._room.wait()

    async def _begin(self, frame: frames.SynStream) -> None:
        number = frame.stream
        if not self._is_peers(number) or number <= self._last:
            raise SpdyError(f"stream {number} begins out of turn after {self._last}")
        self._last = number
        size = _size(frame.headers)
        if (
            max(len(self._streams), self._arrived.qsize()) >= MAX_STREAMS
            or self._held_headers + size > MAX_HELD_HEADERS
        ):
            await self.send(frames.RstStream(number, frames.REFUSED_STREAM))
            return
        stream = Stream(self, number, frame.headers)
        stream.ended = frame.fin
        self._streams[number] = stream
        self._held_headers += size
        self._arrived.put_nowait(stream)


def _size(headers: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in headers.items())
