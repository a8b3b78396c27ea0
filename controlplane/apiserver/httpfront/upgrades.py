"""Requests that want to leave HTTP: which protocol they ask for, and the connection itself once they have it.

A connection that has left HTTP is bytes both ways (:class:`Upgraded`), over aiohttp's own protocol object: the parser
of requests is replaced by one that only collects, as aiohttp does for WebSockets. Reading stops while what has come is
not taken, so that a slow receiver holds up its sender and no memory fills.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Literal, Protocol

from aiohttp import web

from controlplane.apiserver import audit

if TYPE_CHECKING:
    from collections.abc import Mapping

Upgrade = Literal["websocket", "spdy", "unknown", ""]

_HIGH_WATER = 256 << 10
"""Bytes that may wait to be taken before reading stops."""
_POLL = 1.0
_GRACE = 2.0
_ESTABLISHED, _CLOSE_WAIT = 1, 8


class ByteStream(Protocol):
    """Bytes both ways, whatever carries them."""

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send, and wait while the client does not take it. Raises ConnectionError when it is gone."""


def wanted(http: web.BaseRequest) -> Upgrade:
    """Return what a request's headers ask for; empty: it is an ordinary request."""
    headers = http.headers
    if "upgrade" not in ",".join(headers.getall("Connection", ())).lower():
        return ""
    name = headers.get("Upgrade", "").lower().strip()
    if name == "websocket":
        return "websocket"
    if "spdy/3.1" in name:
        return "spdy"
    return "unknown" if name else ""


def answered(http: web.BaseRequest) -> bool:
    """Tell whether an answer has begun: after ``101`` no other can follow."""
    return bool(http.writer.output_size)


async def gone(http: web.BaseRequest) -> None:
    """Return once the client has closed the connection, also while nothing is read from it.

    Whoever reads sees the end in the bytes; but reading stands still when the other side does not take what came, and
    then only the kernel knows. What has come before the end gets a moment to be passed on.
    """
    if http.transport is None:
        return
    connection = http.transport.get_extra_info("socket")
    while (transport := http.transport) is not None and not transport.is_closing():
        try:
            state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        except (OSError, ValueError):
            return  # it has no descriptor any more
        if state == _CLOSE_WAIT:
            await asyncio.sleep(_GRACE)
            return
        if state != _ESTABLISHED:
            return
        await asyncio.sleep(_POLL)


def keep_alive(http: web.BaseRequest) -> None:
    """Let the kernel find out within a minute and a half that a silent client's host is gone."""
    if http.transport is None:
        return
    connection = http.transport.get_extra_info("socket")
    for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


class Upgraded:
    """A connection after ``101 Switching Protocols``; made by :meth:`start`."""

    def __init__(self, http: web.BaseRequest) -> None:
        self._http = http
        self._chunks: list[bytes] = []
        self._size = 0
        self._ended = False
        self._paused = False
        self._ready = asyncio.Event()
        self.response = web.StreamResponse(status=101)

    @classmethod
    async def start(cls, http: web.BaseRequest, headers: Mapping[str, str]) -> Upgraded:
        """Answer 101 with these headers and take the connection over. Raises ConnectionError."""
        made = cls(http)
        made.response.headers.update(headers)
        made.response.headers["Connection"] = "Upgrade"
        made.response.force_close()
        await made.response.prepare(http)
        audit.started(101)
        protocol: Any = http.protocol  # it asks for a WebSocketReader, but needs no more than the two methods below
        protocol.set_parser(made)
        http.protocol.keep_alive(False)
        return made

    # --- what aiohttp calls

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Collect what has come."""
        self._chunks.append(data)
        self._size += len(data)
        self._ready.set()
        transport = self._http.transport
        if self._size > _HIGH_WATER and not self._paused and transport is not None:
            self._paused = True
            transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        """Note that the connection is lost."""
        self._ended = True
        self._ready.set()

    # --- what we call

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""
        while not self._chunks:
            if self._ended:
                return b""
            self._ready.clear()
            await self._ready.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        transport = self._http.transport
        if self._paused and transport is not None:
            self._paused = False
            transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send, and wait while the client does not take it. Raises ConnectionError when it is gone."""
        transport = self._http.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(data)
        await self._http.protocol._drain_helper()
