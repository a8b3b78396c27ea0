"""exec, attach and port-forward by SPDY/3.1: each of a process's streams is one of SPDY's, named by its headers.

exec and attach: one stream each of ``streamtype`` error, stdin, stdout, stderr and (with a terminal, since v3) resize,
all begun by the client. Port-forward: for each connection a pair of ``streamtype`` data and error with the same
``requestID`` and ``port``. Versions differ in the error stream (v4: a Status, before: text) and in resize (since v3).
(Kubernetes: ``k8s.io/kubelet/pkg/cri/streaming``, which also knows no v5 here.)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.apiserver.httpfront import remotecommand
from controlplane.apiserver.podstreams import until_first
from wharfinger.api import errors
from wharfinger.proto.native import streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp import web

    from controlplane.apiserver.podstreams import AgentCall
    from wharfinger.spdy import Session, Stream

log = logging.getLogger(__name__)

PROTOCOL_HEADER = "X-Stream-Protocol-Version"
V4 = "v4.channel.k8s.io"
COMMAND = (V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
FORWARD = ("portforward.k8s.io",)
STREAM_SECONDS = 30.0
"""How long a client may take to begin all of the streams that belong together."""
_RESIZING = COMMAND[:2]
_MAX_RESIZE = 4 << 10
_CLOSING_SECONDS = 3.0


def negotiate(http: web.BaseRequest, known: tuple[str, ...]) -> str:
    """Return the first protocol of the client's that we speak. Raises BadRequestError, ForbiddenError."""
    names = [name.strip() for name in ",".join(http.headers.getall(PROTOCOL_HEADER, ())).split(",") if name.strip()]
    if not names:
        raise errors.BadRequestError(f"unable to upgrade: {PROTOCOL_HEADER} is required")
    for name in names:
        if name in known:
            return name
    raise errors.ForbiddenError(
        f"unable to upgrade: unable to negotiate protocol: client supports {', '.join(names)}, "
        f"server accepts {', '.join(known)}"
    )


class CommandEnd:
    """A client of exec or attach."""

    def __init__(self, session: Session, wanted: streams_v1_pb2.StreamOpen, protocol: str) -> None:
        self._session = session
        self._protocol = protocol
        self._expected = {"error"}
        self._expected.update(name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name))
        if wanted.tty and protocol in _RESIZING:
            self._expected.add("resize")
        self._streams: dict[str, Stream] = {}

    async def begin(self) -> bool:
        """Take on the client's streams; False when it does not begin them all in time."""
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                while self._expected - self._streams.keys():
                    stream = await self._session.accept()
                    if stream is None:
                        return False
                    name = stream.headers.get("streamtype", "")
                    if name not in self._expected or name in self._streams:
                        log.info("a client began a stream that is not expected", extra={"streamtype": name[:40]})
                        await stream.reset()
                        continue
                    if name not in ("stdin", "resize"):
                        stream.ignore()
                    self._streams[name] = stream
                    await stream.reply()
        except TimeoutError:
            missing = ", ".join(sorted(self._expected - self._streams.keys()))
            log.info("a client did not begin all streams", extra={"missing": missing})
            return False
        return True

    async def inputs(self) -> AsyncIterator[streams_v1_pb2.StreamInput]:
        """See :class:`.remotecommand.ClientEnd`."""
        ready: asyncio.Queue[streams_v1_pb2.StreamInput | None] = asyncio.Queue(1)

        async def stdin(stream: Stream) -> None:
            async for data in stream:
                await ready.put(streams_v1_pb2.StreamInput(stdin=data))
            await ready.put(streams_v1_pb2.StreamInput(close_stdin=True))

        async def resize(stream: Stream) -> None:
            rest = b""
            async for data in stream:
                *sizes, rest = (rest + data).split(b"}")
                for size in sizes:
                    if (message := remotecommand.resize_of(size.strip() + b"}")) is not None:
                        await ready.put(message)
                rest = rest[-_MAX_RESIZE:]

        async def end() -> None:
            await self._session.wait()
            await ready.put(None)

        works = [end()]
        works += [
            work(self._streams[name]) for name, work in (("stdin", stdin), ("resize", resize)) if name in self._streams
        ]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            while (message := await ready.get()) is not None:
                yield message
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # a stream that was reset sends no more

    async def stdout(self, data: bytes) -> None:
        """See :class:`.remotecommand.ClientEnd`."""
        await self._output("stdout", data)

    async def stderr(self, data: bytes) -> None:
        """See :class:`.remotecommand.ClientEnd`."""
        await self._output("stderr", data)

    async def _output(self, name: str, data: bytes) -> None:
        stream = self._streams.get(name)
        if stream is not None:  # else the agent sends what was not asked for
            await stream.write(data)

    async def status(self, data: bytes) -> None:
        """See :class:`.remotecommand.ClientEnd`."""
        for name in ("stdout", "stderr"):
            if name in self._streams:
                await self._streams[name].close()
        await self._streams["error"].write(data if self._protocol == V4 else remotecommand.plain(data))
        await self._streams["error"].close()


@dataclass(eq=False)
class _Pair:
    """The streams of one connection."""

    port: int
    streams: dict[str, Stream] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


async def forward(session: Session, begin: Callable[[int], Awaitable[AgentCall]]) -> None:
    """Serve a port-forward until the connection ends; `begin` connects to a port."""
    pairs: dict[str, _Pair] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        while (stream := await session.accept()) is not None:
            kind = stream.headers.get("streamtype", "")
            port = stream.headers.get("port", "")
            if kind not in ("data", "error") or not is_port(port):
                log.info("a client began a stream without a port or type", extra={"headers": str(stream.headers)[:200]})
                await stream.reset()
                continue
            # Very old clients send no requestID and begin the error stream just before the other.
            request = stream.headers.get("requestid") or f"#{stream.number - 2 * (kind == 'data')}"
            pair = pairs.get(request)
            if pair is None:
                pair = pairs[request] = _Pair(int(port))
                task = asyncio.create_task(_serve_pair(pair, begin), name=f"port-forward to {port}")
                tasks.add(task)
                task.add_done_callback(_finisher(pairs, request, tasks))
            if kind in pair.streams:
                await stream.reset()
                continue
            await stream.reply()
            if kind == "error":
                stream.ignore()
            pair.streams[kind] = stream
            if len(pair.streams) == 2:
                pair.complete.set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_port(text: str) -> bool:
    """Tell whether a text is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536


def _finisher(
    pairs: dict[str, _Pair], request: str, tasks: set[asyncio.Task[None]]
) -> Callable[[asyncio.Task[None]], None]:
    def finish(task: asyncio.Task[None]) -> None:
        pairs.pop(request, None)
        tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a forwarded connection failed unexpectedly", exc_info=error)

    return finish


async def _serve_pair(pair: _Pair, begin: Callable[[int], Awaitable[AgentCall]]) -> None:
    call: AgentCall | None = None
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            await pair.complete.wait()
        call = await begin(pair.port)
        await _move(call, pair)
    except TimeoutError:
        await _fail(pair, "the other stream of this connection did not come in time")
    except errors.StatusError as error:
        await _fail(pair, error.message)
    except ConnectionError:
        log.debug("a forwarded connection was broken off", extra={"port": pair.port})
    finally:
        if call is not None:
            call.cancel()
        # Whatever became of the data: clients wait for the end of the error stream.
        for stream in pair.streams.values():
            stream.ignore()
            with contextlib.suppress(ConnectionError):
                await stream.close()


async def _fail(pair: _Pair, text: str) -> None:
    error = pair.streams.get("error")
    if error is not None:
        with contextlib.suppress(ConnectionError):
            await error.write(f"error forwarding port {pair.port}: {text}".encode())


async def _move(call: AgentCall, pair: _Pair) -> None:
    data = pair.streams["data"]

    async def inputs() -> None:
        async for piece in data:
            if not await call.write(streams_v1_pb2.ForwardInput(data=piece).SerializeToString()):
                break
        else:
            await call.write(streams_v1_pb2.ForwardInput(close=True).SerializeToString())
        await asyncio.Event().wait()  # the agent's side decides when it is over

    async def outputs() -> None:
        while (message := await call.read()) is not None:
            output = streams_v1_pb2.ForwardOutput.FromString(message)
            match output.WhichOneof("output"):
                case "data":
                    await data.write(output.data)
                case "closed":
                    await data.close()
                case "error":
                    await _fail(pair, output.error)
                    return

    await until_first(outputs(), inputs())


async def finish(session: Session) -> None:
    """End a connection in order: what was sent arrives before it is closed."""
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await session.go_away()
            await session.wait()
    except (TimeoutError, ConnectionError):
        log.debug("a client did not end its SPDY connection")
