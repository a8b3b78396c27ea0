"""Connections: how long a client may take, and what it is told when its request cannot be read.

aiohttp's parser refuses what is malformed (methods that are no words, headers that are too long or ambiguous, bad
chunks) before a request exists; only here can the answer be a Status, as everywhere. Whoever opens a connection has
:data:`HEADER_SECONDS` for the head of a request, also one that sends a byte now and then; bodies and answers have
limits of their own (:mod:`.server`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from controlplane.apiserver.httpfront import render
from controlplane.apiserver.request import JSON
from wharfinger.api import errors

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

log = logging.getLogger(__name__)

HEADER_SECONDS = 32.0
"""For the head of a request, from the connection's start or the head's first byte; the same as in kube-apiserver."""
LINE_BYTES = 256 << 10
"""Of a request line: the command of an exec stands in it, and so do selectors of many names."""
FIELD_BYTES = 32 << 10
"""Of one header."""
HEAD_BYTES = 1 << 20
"""Of all of a request's head, whoever sends it; as much as Go's server takes."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read and dropped, so that its sender gets to see the answer."""
_HEADERS_TOO_LARGE = 431
_TEXT = 300
"""Characters of a parser's complaint that a client gets to see."""


def cut_off(http: BaseRequest) -> None:
    """End the connection of a client that does not read: with a reset, so that the kernel forgets what was sent, too.

    After an ordinary close it would keep megabytes for as long as the client answers, although nobody sends any more.
    """
    transport = http.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ("_busy", "_head", "_patience", "_timer")

    def __init__(self, manager: web.Server, *, header_seconds: float, **options: Any) -> None:
        super().__init__(manager, **options)
        self._patience = header_seconds
        self._busy = False
        self._head = 0
        """Bytes since the last request began to be worked on: of the next head, perhaps also of a body."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; between requests they begin a head, which must end in time."""
        super().data_received(data)
        if self._busy:
            return
        self._head += len(data)
        if self._head > HEAD_BYTES:
            self._refuse_head()
        elif self._timer is None:
            self._wait()

    def begin(self) -> None:
        """Note that a request is there and is worked on."""
        self._busy = True
        self._head = 0
        self._stop_waiting()

    def end(self) -> None:
        """Note that it is answered."""
        self._busy = False

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse_head(self) -> None:
        """Answer a head without end; aiohttp has no request yet that could be answered."""
        transport = self.transport
        if transport is None:
            return
        log.info("a client whose request has no end is cut off", extra={"peer": str(self.peername)})
        error = errors.BadRequestError(f"the request's head is too long: at most {HEAD_BYTES} bytes are taken")
        error.status_code = _HEADERS_TOO_LARGE
        body = render.message_bytes(error.to_status(), JSON)
        transport.write(
            f"HTTP/1.1 {_HEADERS_TOO_LARGE} Request Header Fields Too Large\r\nContent-Type: {JSON}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        self.force_close()

    def _give_up(self) -> None:
        self._timer = None
        log.info("a client that sends no whole request is cut off", extra={"peer": str(self.peername)})
        self.force_close()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what aiohttp did not expect; a body that breaks off or is malformed is nothing of that kind."""
        error = kw.get("exc_info")
        if isinstance(error, web.RequestPayloadError | HttpProcessingError | ConnectionError):
            log.info("the rest of a body cannot be read", extra={"peer": str(self.peername), "error": repr(error)})
        else:
            super().log_exception(*args, **kw)

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer a request that could not be read, and close the connection."""
        self._head = 0
        self._stop_waiting()
        log.info("a request cannot be read", extra={"peer": str(request.remote), "error": repr(exc)[:200]})
        error: errors.StatusError
        if isinstance(exc, BadHttpMethod):
            error = errors.MethodNotAllowedError("the server does not know this method", details={})
        elif isinstance(exc, LineTooLong):
            error = errors.BadRequestError(
                f"the request line or a header is too long: at most {LINE_BYTES} and {FIELD_BYTES} bytes are taken"
            )
            error.status_code = _HEADERS_TOO_LARGE
        elif status < 500:
            text = (message or str(exc)).splitlines()[0][:_TEXT]
            error = errors.BadRequestError(f"the request is not well-formed HTTP: {text}")
            error.status_code = status
        else:
            error = errors.InternalError("an error on the server has prevented the request from succeeding")
        body = render.message_bytes(error.to_status(), JSON)
        response = web.Response(status=error.status_code, body=body, content_type=JSON)
        response.force_close()
        return response


class Server(web.Server):
    """Makes such connections."""

    def __init__(self, handler: Any, *, header_seconds: float = HEADER_SECONDS, **options: Any) -> None:
        super().__init__(
            handler,
            max_line_size=LINE_BYTES,
            max_field_size=FIELD_BYTES,
            auto_decompress=False,  # a body says its own size; what unfolds to gigabytes is refused by its header
            lingering_time=LINGER_SECONDS,
            **options,
        )
        self._header_seconds = header_seconds

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        return Connection(self, loop=self._loop, header_seconds=self._header_seconds, **self._kwargs)
