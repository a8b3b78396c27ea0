"""The HTTPS port: TLS with optional client certificates, keep-alive, bodies of bounded size, errors as Status.

Built on aiohttp's low-level server: one handler sees every method and path as they were sent, which a router would
change or refuse in its own words.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import platform
import ssl
import sys
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aiohttp import web
from prometheus_client import REGISTRY, generate_latest

from controlplane.apiserver import audit, metrics, version
from controlplane.apiserver.auth import certificates
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.auth.impersonation import PREFIX, impersonated
from controlplane.apiserver.httpfront import (
    auditing,
    calls,
    health,
    logs,
    media,
    render,
    routing,
    streaming,
    streams,
    websocket,
)
from controlplane.apiserver.httpfront.calls import Incoming, Reply, Stream, method_not_allowed, status_reply
from controlplane.apiserver.httpfront.connection import HEADER_SECONDS, Connection, Server, cut_off
from controlplane.apiserver.httpfront.discovery import Discovery
from controlplane.apiserver.httpfront.documents import Documents
from controlplane.apiserver.request import JSON, PROTOBUF, User
from wharfinger.api import codec, errors
from wharfinger.api.errors import RequestTooLargeError, StatusError
from wharfinger.daemon.health import METRICS_TYPE, TEXT

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


@lru_cache(maxsize=4096)
def _user_of_certificate(der: bytes) -> User:
    return certificates.user_of(ssl.DER_cert_to_PEM_cert(der).encode())


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
        self._accounts = accounts
        self._auditor = auditor
        self._checks = tuple(checks)
        self._tls = tls
        self._limit = request_bytes
        self._seconds = request_seconds
        self._calls = calls.Calls(api)
        self._streams = streams.StreamFront(pods)
        self.discovery = Discovery(api.served())
        self._documents = Documents(self.discovery)
        self._changes = api.changes
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
        self.port = int(self._runner.addresses[0][1])

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
            return _user_of_certificate(der)
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
        failure: Exception | None = None
        try:
            reply = await self._answer(http, accept, warnings)
        except StatusError as error:
            failure = error
            audit.failed(error)
            reply = status_reply(error, accept)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.error("a request failed unexpectedly", exc_info=error, extra={"call": f"{http.method} {http.path}"})
            failure = errors.InternalError(
                f"an error on the server ({type(error).__name__}) has prevented the request from succeeding"
            )
            audit.failed(failure, unforeseen=True)
            reply = status_reply(failure, accept)
        headers = _headers(http)
        if isinstance(reply, web.StreamResponse):
            return reply
        if isinstance(reply, Stream):
            return await self._stream(http, reply, headers, warnings)
        self._count(http.method, time.perf_counter() - start, failure)
        if failure is None:
            audit.answered(reply.code)
        if isinstance(failure, StatusError) and failure.retry_after:
            headers["Retry-After"] = str(failure.retry_after)
        return await self._response(http, reply, headers, warnings)

    def _count(self, method: str, seconds: float, failure: Exception | None) -> None:
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
                extra["Warning"] = ", ".join(_warnings(warnings))
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
        for text in _warnings(warnings):
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
        _check_head(http)
        parts = routing.segments(routing.path_of(http.raw_path))
        try:
            user = self._user(http)
        except errors.UnauthorizedError:
            if self._auditor is not None:
                auditing.refused(self._auditor, http, parts, resource=self._is_resource(parts))
            raise
        if self._auditor is not None:
            auditing.begin(self._auditor, user, http, parts, resource=self._is_resource(parts))
        if "Impersonate-User" in http.headers or any(name.lower().startswith(PREFIX) for name in http.headers):
            headers = ((name.lower(), value) for name, value in http.headers.items())
            user = impersonated(user, headers, self._api.authorizers)
            audit.impersonating(user)
        if self._is_resource(parts):
            return await self._resource(http, user, parts, accept, warnings)
        if len(parts) > 1 or parts[0] not in health.PATHS:  # whoever watches over us needs no right for these
            path = "/" + "/".join(parts)
            self._api.authorizers.admit(Attributes(user, http.method.lower(), path=path))
        return await self._other(http, parts, accept)

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
        """Read a body of bounded size in bounded time. Raises RequestTooLargeError, TimeoutError_."""
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

    # --- what is no resource --------------------------------------------------------------------------------------

    async def _other(self, http: web.BaseRequest, parts: list[str], accept: str) -> Reply:
        top, method = parts[0], http.method
        if top in health.PATHS:
            query = http.query
            code, text = health.answer(
                parts, self._checks, verbose="verbose" in query, exclude=query.getall("exclude", [])
            )
            return Reply(code, text.encode(), TEXT)
        if top == "metrics" and len(parts) == 1:
            return Reply(200, generate_latest(REGISTRY), METRICS_TYPE)
        known = await self._document(http, parts, accept)
        if known is None:
            return Reply(404, health.NOT_FOUND.encode(), TEXT)
        if method != "GET":
            raise method_not_allowed(method)
        return known

    async def _document(self, http: web.BaseRequest, parts: list[str], accept: str) -> Reply | None:
        path = parts if parts[-1] else parts[:-1]
        if not all(path):
            return None
        if not path or path[0] in ("api", "apis", "openapi"):
            await self._look_around()
        if not path:
            return Reply(200, render.dump({"paths": self._paths()}, JSON), JSON)
        match path:
            case ["version"]:
                return Reply(200, render.dump(_version(), JSON), JSON)
            case ["api"]:
                return self._aggregated(accept, core=True) or self._legacy(
                    self.discovery.api_versions(http.headers.get("Host", "")), accept, bare=True
                )
            case ["apis"]:
                return self._aggregated(accept, core=False) or self._legacy(self.discovery.api_group_list(), accept)
            case ["apis", group]:
                found = self.discovery.api_group(group)
                return None if found is None else self._legacy(found, accept)
            case ["api", "v1"]:
                return self._legacy(self.discovery.api_resource_list("", "v1"), accept, bare=True)
            case ["api", _]:
                raise routing.not_found()
            case ["apis", group, group_version] if all(parts[:3]):
                resources = self.discovery.api_resource_list(group, group_version)
                if resources is None:
                    raise routing.not_found()
                return self._legacy(resources, accept)
            case ["openid", "v1", "jwks"] if self._accounts is not None:
                return Reply(200, render.dump(self._accounts.key_set(), JSON), "application/jwk-set+json")
            case [".well-known", "openid-configuration"] if self._accounts is not None:
                address = http.headers.get("Host", "") or f"127.0.0.1:{self.port}"
                return Reply(200, render.dump(self._accounts.discovery(address), JSON), JSON)
            case ["openapi", *rest]:
                return await self._documents.serve(rest, accept)
        return None

    async def _look_around(self) -> None:
        """Make the documents follow what is served."""
        await self._api.look_around()
        if self._changes != self._api.changes:
            self._changes = self._api.changes
            self.discovery = Discovery(self._api.served())
            self._documents.follow(self.discovery)

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis"]
        for group in self.discovery.groups():
            paths += [f"/apis/{group}", *(f"/apis/{group}/{item}" for item in self.discovery.versions(group))]
        return [*paths, "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]

    def _aggregated(self, accept: str, *, core: bool) -> Reply | None:
        for clause in media.clauses(accept):
            if clause.media == JSON and clause.get("as") == "APIGroupDiscoveryList":
                api_version = clause.get("v")
                # v2beta1 is no more in this version of Kubernetes; old clients that name another way out still get it.
                known = api_version == "v2" or (api_version == "v2beta1" and len(media.clauses(accept)) > 1)
                if clause.get("g") == "apidiscovery.k8s.io" and known:
                    document = self.discovery.aggregated(f"apidiscovery.k8s.io/{api_version}", core=core)
                    kind = f"{JSON};g=apidiscovery.k8s.io;v={api_version};as=APIGroupDiscoveryList"
                    return Reply(200, render.dump(document, JSON), kind)
            elif clause.media in (JSON, PROTOBUF, "*/*") and not clause.get("as"):
                return None
        return None

    @staticmethod
    def _legacy(message: Any, accept: str, *, bare: bool = False) -> Reply:
        """Return a discovery document; the core group's own bear no apiVersion in JSON."""
        form = media.negotiate(accept)
        if form.media == PROTOBUF or not bare:
            return Reply(200, render.message_bytes(message, form.media), form.media)
        value = codec.to_json(message)
        del value["apiVersion"]
        return Reply(200, render.dump(value, form.media), form.media)




def _headers(http: web.BaseRequest) -> dict[str, str]:
    """Return what every answer bears."""
    return {"Audit-Id": http[auditing.ID], "Cache-Control": "no-cache, private"}


_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


_VERSIONS = ((1, 1), (1, 0))
_OPAQUE = frozenset({"user-agent", "cookie", "referer", "accept", "authorization"})
"""Headers that nobody here reads, or whose readers have an answer of their own to half characters."""


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_head(http: web.BaseRequest) -> None:
    """Refuse what HTTP/1.1 knows and this server does not.

    Raises BadRequestError (of 417 for an expectation), UnsupportedMediaTypeError for a body that is compressed.
    """
    for name, value in http.headers.items():
        # Such bytes would be half characters in every text and answer that they get into.
        if not value.isascii() and name.lower() not in _OPAQUE and not _encodable(value):
            raise errors.BadRequestError(f"the header {name} is not UTF-8")
    if tuple(http.version) not in _VERSIONS:
        raise errors.BadRequestError(f"HTTP/{http.version[0]}.{http.version[1]} is not spoken here, but HTTP/1.1")
    headers = http.headers
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise errors.UnsupportedMediaTypeError("a body must be sent as it is, without Content-Encoding")
    if headers.get("Transfer-Encoding", "chunked").strip().lower() != "chunked":
        raise errors.BadRequestError("the only Transfer-Encoding of a request that is known is chunked")
    if headers.get("Expect", "100-continue").strip().lower() != "100-continue":
        error = errors.BadRequestError("the only expectation that can be met is 100-continue")
        error.status_code = 417
        raise error


_WARNING_LENGTH = 256
_WARNINGS_LENGTH = 4096
_WARNINGS = 64
"""How many are told, in how many characters each when they are many, and in all: clients refuse too many headers."""


def _warnings(texts: Sequence[str]) -> list[str]:
    """Return the values of the Warning headers for texts, each once; shortened when they are many."""
    texts = list(dict.fromkeys(texts))
    if sum(map(len, texts)) > _WARNINGS_LENGTH:
        texts = [text if len(text) <= _WARNING_LENGTH else text[:_WARNING_LENGTH] for text in texts]
    told, length = [], 0
    for text in texts[:_WARNINGS]:
        length += len(text)
        if length > _WARNINGS_LENGTH:
            break
        told.append(_warning(text))
    return told


def _warning(text: str) -> str:
    """Return the value of a Warning header (RFC 9111's 299) for a text."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _version() -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": version.MAJOR,
        "minor": version.MINOR,
        "emulationMajor": version.MAJOR,
        "emulationMinor": version.MINOR,
        "minCompatibilityMajor": version.MAJOR,
        "minCompatibilityMinor": str(int(version.MINOR) - 1),
        "gitVersion": version.GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{platform.system().lower()}/{machine}",
    }
