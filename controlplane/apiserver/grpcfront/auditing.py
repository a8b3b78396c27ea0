"""What the audit log has to know of a gRPC call: what it asks, from where, and how it is put.

A call has no path like HTTP's, so ``requestURI`` is the method's path with those of the request's options behind it
that Kubernetes has in its query: selectors, the command of an exec. Each write of a write stream and each binding of a
BindMany is a request of its own; the call around them is none.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

from controlplane.apiserver import audit
from controlplane.apiserver.audit import Source, source
from controlplane.apiserver.auth.attributes import Attributes, exact
from controlplane.apiserver.grpcfront.wire import parsed
from controlplane.apiserver.request import User
from wharfinger.api import errors
from wharfinger.proto.native import resources_v1_pb2 as native
from wharfinger.proto.native import streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controlplane.apiserver.audit import Auditor
    from controlplane.apiserver.grpcfront.server import Authenticator

RESOURCES = "/wharfinger.v1.Resources/"
_NOBODY = User("")
_LISTED = ("labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "continue", "limit",
           "timeoutSeconds", "sendInitialEvents")  # fmt: skip
_LOG = ("container", "follow", "previous", "timestamps", "tail_lines", "since_seconds", "since_time", "limit_bytes")
_OPEN = ("container", "command", "stdin", "stdout", "stderr", "tty", "port")
_WITH_QUERY = (
    streams_v1_pb2.LogRequest, streams_v1_pb2.StreamOpen, streams_v1_pb2.ForwardOpen, native.ListRequest,
    native.WatchRequest, native.DeleteCollectionRequest,
)  # fmt: skip
_PATHS = {"version": "/version", "discover": "/apis"}
_AROUND: ContextVar[tuple[str, Any, User, User] | None] = ContextVar("call around parts", default=None)
"""Path, context, caller and whom the caller acts as, of the call whose parts are requests."""


def _asked(user: User, verb: str, path: str, message: Any) -> Attributes:
    """Return what a call asks; without its message only that it was called."""
    reference = getattr(message, "reference", None)
    if reference is None:
        match message:
            case native.BindRequest():
                return _of_pod(user, "create", "binding", message.namespace, message.pod)
            case streams_v1_pb2.LogRequest():
                return _of_pod(user, "get", "log", message.namespace, message.pod)
            case streams_v1_pb2.StreamOpen() | streams_v1_pb2.ForwardOpen():
                return _of_pod(user, "create", verb, message.namespace, message.pod)
        return Attributes(user, "update" if verb == "update" else "get", path=_PATHS.get(verb, path))
    name, namespace = reference.name, reference.namespace
    if not name and verb in ("list", "watch"):
        name = exact(message.options.fieldSelector, "metadata.name")
    if verb == "create" and not reference.subresource:
        name = ""  # as in Kubernetes, where it stands in the body alone; it is filled in from there
    if not reference.group and reference.resource == "namespaces":
        namespace = name
    return Attributes(
        user, verb, reference.group, reference.resource, reference.subresource, namespace, name,
        version=reference.version,
    )  # fmt: skip


def _of_pod(user: User, verb: str, subresource: str, namespace: str, name: str) -> Attributes:
    return Attributes(user, verb, "", "pods", subresource, namespace, name, version="v1")


def _query(message: Any) -> str:
    names: tuple[str, ...]
    options: Any
    match message:
        case streams_v1_pb2.LogRequest():
            names, options = _LOG, message
        case streams_v1_pb2.StreamOpen() | streams_v1_pb2.ForwardOpen():
            names, options = _OPEN, message
        case native.ListRequest() | native.WatchRequest():
            names, options = _LISTED, message.options
        case native.DeleteCollectionRequest():
            names, options = _LISTED, message.list_options
        case _:
            return ""
    pairs: list[tuple[str, str]] = []
    for name in names:
        value = getattr(options, name, None)
        if isinstance(value, bool):
            value = "true" if value else ""
        if value:
            pairs += [(name, str(one)) for one in ([value] if isinstance(value, str | int) else value)]
    return f"?{urlencode(pairs)}" if pairs else ""


def _source(context: Any, path: str, message: Any) -> Source:
    headers = dict(context.invocation_metadata() or ())
    query = _query(message) if type(message) in _WITH_QUERY else ""
    return Source(
        path + query,
        source.addresses(_peer(context.peer()), headers.get("x-forwarded-for", ""), headers.get("x-real-ip", "")),
        source.agent(headers.get("user-agent", "")),
        source.audit_id(headers.get("audit-id", "")),
    )


@lru_cache(maxsize=4096)
def _peer(peer: str) -> str:
    """Return the address in ``ipv4:127.0.0.1:4711`` or ``ipv6:%5B::1%5D:4711``."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


class Auditing:
    """Begins the records of calls."""

    def __init__(self, auditor: Auditor, authenticator: Authenticator) -> None:
        self._auditor = auditor
        self._authenticator = authenticator

    def enter(self, path: str, verb: str, context: Any, message: Any, request: bytes) -> tuple[User, Any]:
        """Find out who calls, read the request, and begin its record. Raises StatusError."""
        caller = self.caller(path, verb, context)
        given = parsed(message, request)
        return self.begin(path, verb, context, caller, given), given

    def caller(self, path: str, verb: str, context: Any) -> User:
        """Return who calls. Raises UnauthorizedError, which is recorded."""
        try:
            return self._authenticator.caller(context)
        except errors.UnauthorizedError:
            asked = _asked(_NOBODY, verb, path, None)
            tried = ("bearer",) if "authorization" in dict(context.invocation_metadata() or ()) else ()
            self._auditor.refused(asked, lambda: _source(context, path, None), tried=tried)
            raise

    def begin(self, path: str, verb: str, context: Any, caller: User, given: Any) -> User:
        """Begin the record of a call, and return as whom the caller acts. Raises StatusError."""
        self._auditor.begin(_asked(caller, verb, path, given), lambda: _source(context, path, given))
        record = audit.current()
        if record is not None:
            context.set_trailing_metadata(((source.HEADER.lower(), record.audit_id),))
        user = self._authenticator.acting(caller, context)
        if user is not caller:
            audit.impersonating(user)
        return user

    def around(self, path: str, verb: str, context: Any) -> User:
        """Find out who calls and as whom, for a call whose parts are requests. Raises StatusError; that is recorded."""
        caller = self.caller(path, verb, context)
        try:
            user = self._authenticator.acting(caller, context)
        except errors.StatusError:
            self._auditor.begin(_asked(caller, verb, path, None), lambda: _source(context, path, None))
            raise
        _AROUND.set((path, context, caller, user))
        return user

    def part(self, verb: str, message: Any) -> None:
        """Begin the record of a part of the call that :meth:`around` has begun."""
        around = _AROUND.get()
        if around is None:
            return
        path, context, caller, user = around
        self._auditor.begin(_asked(caller, verb, path, message), lambda: _source(context, path, message))
        if user is not caller:
            audit.impersonating(user)


def ending(handle: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """Let a handler's record end when the handler does, however that is."""

    async def handled(request: Any, context: Any) -> Any:
        try:
            answer = await handle(request, context)
            audit.done()
            return answer
        finally:
            audit.end()

    return handled
