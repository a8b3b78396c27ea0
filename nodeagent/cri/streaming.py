"""Streams of containers at containerd's streaming server: SPDY/3.1, at the URL that a CRI call has returned.

WebSocket would be the simpler one, but containerd 1.6 speaks no more than v4 of it, which cannot close stdin. The
server listens on the node's loopback; the URL carries a token that is good for one request within a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nodeagent.runtime import RuntimeFailure, RuntimeUnavailable
from wharfinger.spdy import Session, Stream, StreamReset

if TYPE_CHECKING:
    from nodeagent.runtime import StreamOutput

log = logging.getLogger(__name__)

_OPENING_SECONDS = 30.0
_PIECE = 64 << 10
_MAX_HEAD = 16 << 10
_MAX_TEXT = 4 << 10
_MAX_STATUS = 1 << 20
_STALL_SECONDS = 10.0
"""How long stdin may be stuck once the process has ended its output.

containerd 1.6 tells how a process ended only when all of its stdin has gone into a pipe, which never happens when the
process left more of it unread than a pipe holds.
"""
COMMAND = "v4.channel.k8s.io"
FORWARD = "portforward.k8s.io"


class _Wire:
    """A TCP connection that has left HTTP.

    A bare socket, since a transport would throw away what it has not read yet when a write fails: a process that ends
    without reading its stdin leaves its status behind.
    """

    def __init__(self, connected: socket.socket, early: bytes) -> None:
        self._socket = connected
        self._early = early
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        if self._early:
            early, self._early = self._early, b""
            return early
        return await self._loop.sock_recv(self._socket, _PIECE)

    async def write(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    def hang_up(self) -> None:
        """Let reads and writes under way end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class Connection:
    """One upgraded request and its streams; made by :meth:`open`, ended by :meth:`close`."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self.session = Session(wire, server=False)

    @classmethod
    async def open(cls, url: str, protocol: str) -> Connection:
        """Connect and upgrade. Raises RuntimeUnavailable, RuntimeFailure with the server's own words."""
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                made = cls(await _upgrade(url, protocol))
        except (OSError, TimeoutError) as error:
            raise RuntimeUnavailable(f"the runtime's streaming server at {url} does not answer: {error!r}") from error
        await made.session.__aenter__()
        return made

    async def stream(self, **headers: str) -> Stream:
        """Begin a stream, which the server must take on. Raises RuntimeUnavailable."""
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                stream = await self.session.open(headers)
                await stream.answer
        except (TimeoutError, ConnectionError) as error:
            raise RuntimeUnavailable(f"the runtime's streaming server takes no stream: {error!r}") from error
        return stream

    async def close(self) -> None:
        """End it at once."""
        self._wire.hang_up()
        try:
            await self.session.__aexit__(None, None, None)
        finally:
            self._wire.close()


async def _upgrade(url: str, protocol: str) -> _Wire:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise RuntimeFailure(
            f"the runtime's streaming server is at {parts.scheme}://{parts.netloc}: only plain HTTP with a port is "
            "spoken here; containerd's enable_tls_streaming must be off"
        )
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    family, kind, number, _, address = found[0]
    connected = socket.socket(family, kind, number)
    try:
        connected.setblocking(False)
        await loop.sock_connect(connected, address)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = (
            f"POST {path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: Upgrade", "Upgrade: SPDY/3.1",
            f"X-Stream-Protocol-Version: {protocol}", "Content-Length: 0", "", "",
        )  # fmt: skip
        await loop.sock_sendall(connected, "\r\n".join(lines).encode())
        return _Wire(connected, await _upgraded(connected))
    except BaseException:
        connected.close()
        raise


async def _upgraded(connected: socket.socket) -> bytes:
    """Read the answer to an upgrade; return what has come after it. Raises RuntimeFailure when it is a refusal."""
    loop = asyncio.get_running_loop()
    got = b""
    while b"\r\n\r\n" not in got:
        piece = await loop.sock_recv(connected, _MAX_HEAD)
        if not piece or len(got) > _MAX_HEAD:
            raise ConnectionResetError("no answer in HTTP")
        got += piece
    head, _, rest = got.partition(b"\r\n\r\n")
    status, *_ = head.decode("latin-1").splitlines()
    if status.split(None, 2)[1:2] == ["101"]:
        return rest
    length = re.search(rb"(?im)^content-length: *(\d{1,9})", head)
    wanted = min(int(length[1]), _MAX_TEXT) if length else 0
    while len(rest) < wanted and (piece := await loop.sock_recv(connected, _MAX_TEXT)):
        rest += piece
    raise RuntimeFailure(rest.decode("utf-8", "replace").strip() or status)


async def _until_reset(stream: Stream) -> AsyncIterator[bytes]:
    """Yield what comes; containerd ends a stream in order, or by a reset once all is said."""
    try:
        async for data in stream:
            yield data
    except StreamReset as error:
        log.debug("the runtime ended a stream by a reset", extra={"error": str(error)})


class Process:
    """A command, or a container's first process: see :class:`nodeagent.runtime.ProcessStreams`."""

    def __init__(self, connection: Connection, streams: dict[str, Stream]) -> None:
        self._connection = connection
        self._streams = streams
        self._fed = 0
        """Bytes of stdin that have been passed on."""
        self._feeding = False

    @classmethod
    async def open(cls, url: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> Process:
        """Join the streams at a URL of Exec or Attach."""
        connection = await Connection.open(url, COMMAND)
        names = [
            "error",
            *(name for name, wanted in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)) if wanted),
            *(("resize",) if tty else ()),
        ]
        try:
            streams = {name: await connection.stream(streamtype=name) for name in names}
        except BaseException:
            await connection.close()
            raise
        for name in ("stdin", "resize"):
            if name in streams:
                streams[name].ignore()
        return cls(connection, streams)

    async def stdin(self, data: bytes) -> None:
        """Send input."""
        self._feeding = True
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            await self._streams["stdin"].write(piece)
            self._fed += len(piece)
        self._feeding = False

    async def close_stdin(self) -> None:
        """Let the process read an end of file."""
        await self._streams["stdin"].close()

    async def resize(self, width: int, height: int) -> None:
        """Set the terminal's size."""
        await self._streams["resize"].write(b'{"Width":%d,"Height":%d}\n' % (width, height))

    async def outputs(self) -> AsyncGenerator[StreamOutput, None]:
        """Yield what the process writes, then its Status."""
        ready: asyncio.Queue[StreamOutput | None] = asyncio.Queue(1)

        async def pump(name: str) -> None:
            async for data in _until_reset(self._streams[name]):
                await ready.put((name, data))

        left = False

        async def pump_all() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for name in ("stdout", "stderr"):
                        if name in self._streams:
                            group.create_task(pump(name), name=f"output {name} of a process")
            finally:
                if not left:  # else nobody would make room for it
                    await ready.put(None)

        task = asyncio.create_task(pump_all(), name="outputs of a process")
        try:
            while (output := await ready.get()) is not None:
                yield output
            await task
        finally:
            left = True
            task.cancel()
            await asyncio.wait([task])
        yield "status", await self._status()

    async def _status(self) -> bytes:
        reading = asyncio.create_task(self._read_status(), name="status of a process")
        try:
            while True:
                feeding, fed = self._feeding, self._fed
                done, _ = await asyncio.wait([reading], timeout=_STALL_SECONDS)
                if done:
                    return await reading
                if feeding and self._feeding and fed == self._fed:
                    raise RuntimeFailure(
                        "the process has ended its output, but the container runtime does not tell how it ended: it "
                        "still waits for somebody to read its stdin"
                    )
        finally:
            reading.cancel()

    async def _read_status(self) -> bytes:
        status = b""
        async for data in _until_reset(self._streams["error"]):
            status += data
            if len(status) > _MAX_STATUS:
                raise RuntimeFailure(f"the container runtime says more than {_MAX_STATUS} bytes of a process's end")
        if not status:
            raise RuntimeUnavailable("the container runtime went away before it said how the process ended")
        return status

    async def close(self) -> None:
        """Leave the process; one that runs on is not ended by this."""
        await self._connection.close()


class Port:
    """A connection to a port of a sandbox: see :class:`nodeagent.runtime.PortStreams`."""

    def __init__(self, connection: Connection, data: Stream, error: Stream) -> None:
        self._connection = connection
        self._data = data
        self._error = error

    @classmethod
    async def open(cls, url: str, port: int) -> Port:
        """Connect, by the URL of PortForward."""
        connection = await Connection.open(url, FORWARD)
        try:
            error = await connection.stream(streamtype="error", port=str(port), requestid="0")
            await error.close()
            data = await connection.stream(streamtype="data", port=str(port), requestid="0")
        except BaseException:
            await connection.close()
            raise
        return cls(connection, data, error)

    async def write(self, data: bytes) -> None:
        """Send."""
        await self._data.write(data)

    async def write_eof(self) -> None:
        """Send no more."""
        await self._data.close()

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""
        try:
            return await self._data.read()
        except ConnectionError:
            return b""  # `failure` says why

    async def failure(self) -> str:
        """Return, after the end, what went wrong; empty when nothing did."""
        text = b""
        async for data in _until_reset(self._error):
            text = (text + data)[:_MAX_TEXT]
        return text.decode("utf-8", "replace")

    async def close(self) -> None:
        """End it at once."""
        await self._connection.close()
