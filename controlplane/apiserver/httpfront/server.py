"""The HTTPS port: TLS with optional client certificates, keep-alive, bodies of bounded size, errors as Status.

Built on aiohttp's low-level server: one handler sees every method and path as they were sent, which a router would
change or refuse in its own words.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aiohttp import web

from controlplane.apiserver import audit, metrics
from controlplane.apiserver.auth import certificates
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.auth.impersonation import PREFIX, impersonated
from controlplane.apiserver.failures import as_status_error
from controlplane.apiserver.httpfront import (
    auditing,
    calls,
    heads,
    health,
    logs,
    routing,
    streaming,
    streams,
    websocket,
)
from controlplane.apiserver.httpfront.calls import Incoming, Reply, Stream, status_reply
from controlplane.apiserver.httpfront.connection import HEADER_SECONDS, Connection, Server, cut_off
from controlplane.apiserver.httpfront.nonresource import NonResource
from controlplane.apiserver.request import User
from wharfinger.api import errors
from wharfinger.api.errors import RequestTooLargeError, StatusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.audit import Auditor
    from controlplane.apiserver.auth.bearer import Bearer
    from controlplane.apiserver.auth.serviceaccounts import ServiceAccountTokens
    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.httpfront.logs import LogRelay
    from controlplane.apiserver.podstreams import PodStreams
    from wharfinger.daemon import Check, TLSFiles

log = logging.getLogger(__name__)

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
REQUEST_SECONDS = 60.0
"""How long a body may take to arrive, and the client to take its answer (``--request-timeout``)."""
GZIP_FROM = 128 << 10
"""Bytes of an answer from which on it is compressed, as in Kubernetes."""
_KEEP_ALIVE = 180.0
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
"""Counted by name; others are counted together."""


@lru_cache(maxsize=4096)
def _pem_of(der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).encode()


class HttpFront:
    """Serves until closed."""

    def __init__(
        self,
        api: Api,
        relays: LogRelay,
        pods: PodStreams,
        *,
        tokens: Bearer,
        accounts: ServiceAccountTokens | None = None,
        checks: Sequence[Check],
        tls: TLSFiles,
        request_bytes: int,
        request_seconds: float = REQUEST_SECONDS,
        auditor: Auditor | None = None,
    ) -> None:
        self._api = api
        self._relays = relays
        self._tokens = tokens
        self._auditor = auditor
        self._tls = tls
        self._limit = request_bytes
        self._seconds = request_seconds
        self._calls = calls.Calls(api)
        self._streams = streams.StreamFront(pods)
        self._others = NonResource(api, checks=checks, accounts=accounts)
        self._runner: web.ServerRunner | None = None
        self._observe: dict[str, Any] = {}
        self.port = 0
        self.serving = False
        """Whether resources are served; before that only health and metrics are."""

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError when the address is taken."""
        patience = min(HEADER_SECONDS, self._seconds)
        server = Server(self._handle, header_seconds=patience, access_log=None, keepalive_timeout=_KEEP_ALIVE)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        context = self._tls.ssl_context(alpn=["http/1.1"])
        site = web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024)
        await site.start()
        self.port = self._others.port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening and end what is under way."""
        if self._runner is not None:
            await self._runner.cleanup()

    # --- who ------------------------------------------------------------------------------------------------------

    def _user(self, http: web.BaseRequest) -> User:
        """Return who asks. Raises UnauthorizedError for a token that is nobody's."""
        transport = http.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        der = tls.getpeercert(binary_form=True) if tls is not None else None
        if der:
            return certificates.user_of(_pem_of(der))
        scheme, _, token = http.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            token = websocket.bearer(http)
        if not token.strip():
            return ANONYMOUS
        return self._tokens.user_of(f"Bearer {token}")

    # --- one request ----------------------------------------------------------------------------------------------

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        connection = http.protocol
        http[auditing.ID] = auditing.audit_id(http)
        if not isinstance(connection, Connection):
            return await self._serve(http)
        connection.begin()
        try:
            return await self._serve(http)
        finally:
            audit.end()
            if not http.can_read_body or http.content.at_eof():
                connection.end()  # else the rest of the body still comes, until the connection ends

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        start = time.perf_counter()
        warnings: list[str] = []
        accept = ",".join(http.headers.getall("Accept", ()))
        failure: StatusError | None = None
        try:
            reply = await self._answer(http, accept, warnings)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  (the unforeseen is logged)
            failure = as_status_error(error, f"{http.method} {http.path}")
            reply = status_reply(failure, accept)
        headers = _headers(http)
        if isinstance(reply, web.StreamResponse):
            return reply
        if isinstance(reply, Stream):
            return await self._stream(http, reply, headers, warnings)
        self._count(http.method, time.perf_counter() - start, failure)
        if failure is None:
            audit.answered(reply.code)
        elif failure.retry_after:
            headers["Retry-After"] = str(failure.retry_after)
        return await self._response(http, reply, headers, warnings)

    def _count(self, method: str, seconds: float, failure: StatusError | None) -> None:
        name = method if method in _METHODS else "other"
        observe = self._observe.get(name)
        if observe is None:
            observe = self._observe[name] = metrics.observer(f"http {name}")
        observe(seconds, failure)

    async def _stream(
        self, http: web.BaseRequest, stream: Stream, headers: dict[str, str], warnings: list[str]
    ) -> web.StreamResponse:
        running = metrics.long_running("http watch")
        running.inc()
        audit.started()
        try:
            extra = dict(headers)
            if warnings:
                extra["Warning"] = ", ".join(heads.warnings(warnings))
            return await streaming.serve(
                http, stream.watching, stream.encoder, extra, stream.content_type, patience=self._seconds
            )
        finally:
            running.dec()

    async def _response(
        self, http: web.BaseRequest, reply: Reply, headers: dict[str, str], warnings: list[str]
    ) -> web.Response:
        body = reply.body
        if len(body) > GZIP_FROM and http.method == "GET" and "gzip" in http.headers.get("Accept-Encoding", ""):
            body = await asyncio.to_thread(gzip.compress, body, 1)
            headers["Content-Encoding"] = "gzip"
            headers["Vary"] = "Accept-Encoding"
        response = web.Response(status=reply.code, body=body, headers={**headers, "Content-Type": reply.content_type})
        for text in heads.warnings(warnings):
            response.headers.add("Warning", text)
        if http.can_read_body and not http.content.at_eof():
            response.force_close()  # the rest of a body that nobody wants is not worth its time
        await self._send(http, response)
        return response

    async def _send(self, http: web.BaseRequest, response: web.Response) -> None:
        """Send an answer, and cut off a client that does not take it."""
        try:
            async with asyncio.timeout(self._seconds):
                await response.prepare(http)
                await response.write_eof()
        except TimeoutError:
            log.info("a client that does not take its answer is cut off", extra={"peer": str(http.remote)})
            cut_off(http)

    async def _answer(
        self, http: web.BaseRequest, accept: str, warnings: list[str]
    ) -> Reply | Stream | web.StreamResponse:
        heads.check_head(http)
        parts = routing.segments(routing.path_of(http.raw_path))
        resource = self._is_resource(parts)
        try:
            user = self._user(http)
        except errors.UnauthorizedError:
            if self._auditor is not None:
                auditing.refused(self._auditor, http, parts, resource=resource)
            raise
        if self._auditor is not None:
            auditing.begin(self._auditor, user, http, parts, resource=resource)
        if "Impersonate-User" in http.headers or any(name.lower().startswith(PREFIX) for name in http.headers):
            headers = ((name.lower(), value) for name, value in http.headers.items())
            user = impersonated(user, headers, self._api.authorizers)
            audit.impersonating(user)
        if resource:
            return await self._resource(http, user, parts, accept, warnings)
        if len(parts) > 1 or parts[0] not in health.PATHS:  # whoever watches over us needs no right for these
            path = "/" + "/".join(parts)
            self._api.authorizers.admit(Attributes(user, http.method.lower(), path=path))
        return await self._others.answer(http, parts, accept)

    @staticmethod
    def _is_resource(parts: list[str]) -> bool:
        depth = {"api": 2, "apis": 3}.get(parts[0])
        return depth is not None and len(parts) > depth and parts[depth:] != [""] and all(parts[:depth])

    async def _resource(
        self, http: web.BaseRequest, user: User, parts: list[str], accept: str, warnings: list[str]
    ) -> Reply | Stream | web.StreamResponse:
        if not self.serving:
            raise errors.ServiceUnavailableError("the server is starting or stopping", retry_after=1)
        address = routing.address(parts)
        if (address.group, address.resource, address.subresource) == ("", "pods", "log") and http.method == "GET":
            message = logs.request_of(address, http.query)
            return await logs.serve(http, self._relays, user, message, _headers(http))
        if streams.is_stream(address):
            return await self._streams.serve(http, user, address)
        incoming = Incoming(
            user, http.method, address, http.query, accept, http.headers.get("Content-Type", ""), warnings=warnings
        )
        if user.name == ANONYMOUS.name and http.can_read_body:
            self._calls.require(incoming)  # strangers do not get to fill our memory with bodies
        incoming.data = await self._read_body(http)
        return await self._calls.serve(incoming)

    async def _read_body(self, http: web.BaseRequest) -> bytes:
        """Read a body of bounded size in bounded time.

        Raises RequestTooLargeError, and BadRequestError for one that does not arrive.
        """
        if not http.can_read_body:
            return b""
        length = http.content_length
        if length is not None and length > self._limit:
            raise self._too_large(length)
        if http.headers.get("Expect", "").lower() == "100-continue":
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in http.content.iter_any():
                    size += len(chunk)
                    if size > self._limit:
                        raise self._too_large(size)
                    chunks.append(chunk)
        except TimeoutError as error:
            raise errors.BadRequestError(f"the body did not arrive within {self._seconds:g} s") from error
        except web.RequestPayloadError as error:
            raise errors.BadRequestError(f"the body cannot be read: {error}") from error
        return b"".join(chunks)

    def _too_large(self, size: int) -> RequestTooLargeError:
        return RequestTooLargeError(f"the body has {size} bytes or more; at most {self._limit} are taken")


def _headers(http: web.BaseRequest) -> dict[str, str]:
    """Return what every answer bears."""
    return {"Audit-Id": http[auditing.ID], "Cache-Control": "no-cache, private"}
