"""WebSockets whose messages begin with the number of a channel, as Kubernetes' stream protocols have it.

======  ==========================  ===================================================
number  exec and attach             port-forward, for the i-th port of the query
======  ==========================  ===================================================
0       stdin                       2i: data, after a first message with the port
1       stdout                      2i+1: errors, after a first message with the port
2       stderr
3       the Status at the end
4       resize
255     (v5) closes the channel
        that the next byte names
======  ==========================  ===================================================

``v5.channel.k8s.io`` alone can close stdin. Before v4 errors are plain text instead of a Status. The ``base64`` ones
send text: the number as a digit, then the data in base64. Without a subprotocol the oldest one is spoken. What nobody
knows is refused with 403, like by a kubelet. (Kubernetes: ``k8s.io/streaming/pkg/httpstream/wsstream``, KEP 4006.)
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from controlplane.apiserver import audit
from controlplane.apiserver.httpfront import remotecommand, upgrades
from controlplane.apiserver.podstreams import until_first
from wharfinger.api import errors
from wharfinger.proto.native import streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from controlplane.apiserver.podstreams import AgentCall

log = logging.getLogger(__name__)

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5 = "v5.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
MAX_MESSAGE = 32 << 20
"""Bytes of one message, as much as Kubernetes takes."""
_CLOSING_SECONDS = 3.0
_BEARER = "base64url.bearer.authorization.k8s.io."
_VERSIONS = frozenset({"13", "8", "7"})


@dataclass(frozen=True, slots=True)
class Subprotocol:
    """How channels are spoken."""

    name: str
    base64: bool = False
    status: bool = False
    """Whether errors are a Status in JSON."""
    closes: bool = False


_PLAIN = (
    Subprotocol(""),
    Subprotocol("channel.k8s.io"),
    Subprotocol("base64.channel.k8s.io", base64=True),
    Subprotocol("v4.channel.k8s.io", status=True),
    Subprotocol("v4.base64.channel.k8s.io", base64=True, status=True),
)
COMMAND = {one.name: one for one in (*_PLAIN, Subprotocol(V5, status=True, closes=True))}
"""Spoken for exec and attach."""
FORWARD = {one.name: one for one in (*_PLAIN, Subprotocol(TUNNEL)) if "channel" not in one.name or "v4" in one.name}
"""Spoken for port-forward."""


def offered(http: web.BaseRequest) -> list[str]:
    """Return the subprotocols that a client speaks, in its order, without a token in their midst."""
    names = ",".join(http.headers.getall("Sec-WebSocket-Protocol", ())).split(",")
    return [name for name in map(str.strip, names) if name and not name.startswith(_BEARER)]


def bearer(http: web.BaseRequest) -> str:
    """Return the token that browsers, which cannot set headers, send as a subprotocol; empty without one.

    Raises UnauthorizedError when it cannot be read.
    """
    names = ",".join(http.headers.getall("Sec-WebSocket-Protocol", ())).split(",")
    found = [name for name in map(str.strip, names) if name.startswith(_BEARER)]
    if not found:
        return ""
    coded = found[0].removeprefix(_BEARER)
    try:
        return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except ValueError as error:
        raise errors.UnauthorizedError(f"the token in Sec-WebSocket-Protocol is no base64url: {error}") from error


def choose(http: web.BaseRequest, known: dict[str, Subprotocol]) -> Subprotocol:
    """Return the first subprotocol of the client's that we speak. Raises ForbiddenError, BadRequestError."""
    if http.headers.get("Sec-WebSocket-Version", "") not in _VERSIONS:
        raise errors.BadRequestError("Sec-WebSocket-Version must be 13")
    key = http.headers.get("Sec-WebSocket-Key", "")
    try:
        fits = len(base64.b64decode(key)) == 16
    except ValueError:  # no base64, or not even ASCII
        fits = False
    if not fits:
        raise errors.BadRequestError("Sec-WebSocket-Key must be 16 bytes in base64")
    names = offered(http)
    if not names:
        return known[""]
    for name in names:
        if name in known:
            return known[name]
    spoken = ", ".join(filter(None, known))
    raise errors.ForbiddenError(f"none of the subprotocols {', '.join(names)} is spoken here; these are: {spoken}")


async def accept(http: web.BaseRequest, subprotocol: Subprotocol) -> web.WebSocketResponse:
    """Answer 101."""
    upgrades.keep_alive(http)
    socket = web.WebSocketResponse(
        protocols=(subprotocol.name,) if subprotocol.name else offered(http),
        compress=False,
        max_msg_size=MAX_MESSAGE,
        timeout=_CLOSING_SECONDS,
    )
    await socket.prepare(http)
    audit.started(101)
    return socket


async def close(http: web.BaseRequest, socket: web.WebSocketResponse) -> None:
    """Close in order; whoever does not take part in that is cut off."""
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await socket.close()
    except (TimeoutError, ConnectionError):
        log.debug("a client did not close its WebSocket", extra={"peer": str(http.remote)})
    if http.transport is not None:
        http.transport.abort()


class Channels:
    """Messages with channel numbers over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, subprotocol: Subprotocol) -> None:
        self._socket = socket
        self.subprotocol = subprotocol

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel. Raises ConnectionError."""
        if self.subprotocol.base64:
            await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes((channel,)) + data)

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield what the client sends until it closes or breaks the WebSocket's rules. Odd messages are left out."""
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                data: bytes = message.data
            elif message.type is WSMsgType.TEXT:
                data = message.data.encode("utf-8", "surrogatepass")
            else:
                return
            if not data:
                continue
            channel, data = data[0], data[1:]
            if self.subprotocol.base64:
                channel -= ord("0")
                try:
                    data = base64.b64decode(data, validate=True)
                except binascii.Error:
                    log.info("a client sent what is no base64", extra={"data": repr(data[:40])})
                    continue
            yield channel, data


class CommandEnd:
    """A client of exec or attach."""

    def __init__(self, channels: Channels, wanted: streams_v1_pb2.StreamOpen) -> None:
        self._channels = channels
        self._wanted = wanted

    async def begin(self) -> None:
        """Let the client know that the stream is open: an empty message, as Kubernetes sends it."""
        first = STDOUT if self._wanted.stdout else STDERR if self._wanted.stderr else ERROR
        await self._channels.send(first, b"")

    async def inputs(self) -> AsyncIterator[streams_v1_pb2.StreamInput]:
        """See :class:`.remotecommand.ClientEnd`."""
        stdin = self._wanted.stdin
        async for channel, data in self._channels.receive():
            if channel == STDIN and stdin and data:
                yield streams_v1_pb2.StreamInput(stdin=data)
            elif channel == CLOSE and self._channels.subprotocol.closes:
                if data == bytes((STDIN,)) and stdin:
                    stdin = False
                    yield streams_v1_pb2.StreamInput(close_stdin=True)
            elif channel == RESIZE and self._wanted.tty and (message := remotecommand.resize_of(data)) is not None:
                yield message

    async def stdout(self, data: bytes) -> None:
        """See :class:`.remotecommand.ClientEnd`."""
        await self._channels.send(STDOUT, data)

    async def stderr(self, data: bytes) -> None:
        """See :class:`.remotecommand.ClientEnd`."""
        await self._channels.send(STDERR, data)

    async def status(self, data: bytes) -> None:
        """See :class:`.remotecommand.ClientEnd`."""
        if not self._channels.subprotocol.status:
            data = remotecommand.plain(data)
        if data:
            await self._channels.send(ERROR, data)


async def forward(channels: Channels, calls: Sequence[AgentCall], ports: Sequence[int], http: web.BaseRequest) -> None:
    """Serve a port-forward by channels: one call to the agent for each port, all of them open."""
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await channels.send(channel, port.to_bytes(2, "little"))

    async def inputs() -> None:
        async for channel, data in channels.receive():
            index, is_error = divmod(channel, 2)
            if 0 <= index < len(calls) and not is_error and data:
                await calls[index].write(streams_v1_pb2.ForwardInput(data=data).SerializeToString())

    async def outputs(index: int) -> None:
        try:
            while (message := await calls[index].read()) is not None:
                output = streams_v1_pb2.ForwardOutput.FromString(message)
                if output.data:
                    await channels.send(2 * index, output.data)
                elif output.error:
                    await channels.send(2 * index + 1, output.error.encode())
        except errors.StatusError as error:
            await channels.send(2 * index + 1, error.message.encode())

    async def all_outputs() -> None:
        await asyncio.gather(*(outputs(index) for index in range(len(calls))))

    try:
        await until_first(inputs(), all_outputs(), upgrades.gone(http))
    except ConnectionError:
        log.debug("a client left in the middle of a port-forward", extra={"peer": str(http.remote)})


class Tunnel:
    """Another protocol's bytes in a WebSocket's messages."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""
        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                return bytes(message.data)

    async def write(self, data: bytes) -> None:
        """Send, and wait while the client does not take it. Raises ConnectionError."""
        await self._socket.send_bytes(data)
