"""``pods/NAME/log``: what the node's agent sends, as plain text.

The agent is asked through the same relay as over gRPC; here its chunks become the body of an answer. Until the first
one an error is a Status; after that the answer can only break off.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from controlplane.apiserver.httpfront import options
from wharfinger.api.errors import StatusError
from wharfinger.daemon.health import TEXT
from wharfinger.proto.native import streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from controlplane.apiserver.httpfront.routing import Address
    from controlplane.apiserver.request import User

log = logging.getLogger(__name__)

_FLAGS = ("follow", "previous", "timestamps")
_NUMBERS = {"tailLines": "tail_lines", "sinceSeconds": "since_seconds", "limitBytes": "limit_bytes"}


class LogRelay(Protocol):
    """Whoever can fetch logs: writes serialised ``LogChunk`` messages into a context."""

    async def log(self, user: User, message: streams_v1_pb2.LogRequest, context: Any) -> None:
        """Fetch until the end."""


def request_of(address: Address, query: Mapping[str, str]) -> streams_v1_pb2.LogRequest:
    """Read the options of a log request. Raises BadRequestError."""
    message = streams_v1_pb2.LogRequest(
        namespace=address.namespace,
        pod=address.name,
        container=query.get("container", ""),
        since_time=query.get("sinceTime", ""),
    )
    for name in _FLAGS:
        setattr(message, name, options.flag(query.get(name, "false")))
    for name, own in _NUMBERS.items():
        if name in query:
            setattr(message, own, options.number(name, query[name]))
    return message


class _Sink:
    """Begins the answer with the first chunk."""

    def __init__(self, http: web.BaseRequest, headers: Mapping[str, str]) -> None:
        self._http = http
        self.response = web.StreamResponse(headers={**headers, "Content-Type": TEXT})

    async def begin(self) -> None:
        if not self.response.prepared:
            self.response.enable_chunked_encoding()
            await self.response.prepare(self._http)

    async def write(self, data: bytes) -> None:
        await self.begin()
        await self.response.write(streams_v1_pb2.LogChunk.FromString(data).data)


async def serve(
    http: web.BaseRequest, relay: LogRelay, user: User, message: streams_v1_pb2.LogRequest, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send a log. Raises StatusError when it cannot begin."""
    sink = _Sink(http, headers)
    try:
        await relay.log(user, message, sink)
    except StatusError as error:
        if not sink.response.prepared:
            raise
        log.info("a log broke off", extra={"pod": f"{message.namespace}/{message.pod}", "error": error.message})
        if http.transport is not None:
            http.transport.abort()
        return sink.response
    await sink.begin()
    await sink.response.write_eof()
    return sink.response
