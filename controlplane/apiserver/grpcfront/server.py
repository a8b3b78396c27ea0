"""The two gRPC ports: one that demands a client certificate, one for bearer tokens.

Python's gRPC server either demands a certificate or never asks for one, hence two ports. The handlers are registered
as bytes out: answers are made by :mod:`.wire`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from controlplane.apiserver import metrics
from controlplane.apiserver.auth import certificates
from controlplane.apiserver.auth.impersonation import PREFIX, impersonated
from controlplane.apiserver.grpcfront import auditing, streaming
from controlplane.apiserver.grpcfront.failures import abort
from controlplane.apiserver.grpcfront.relays import first_message
from controlplane.apiserver.grpcfront.resources import Calls
from controlplane.apiserver.grpcfront.wire import parsed
from wharfinger.api.errors import StatusError, UnauthorizedError
from wharfinger.client.transport import SERVER_OPTIONS
from wharfinger.proto.native import resources_v1_pb2 as native
from wharfinger.proto.native import scheduling_v1_pb2, streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controlplane.apiserver.audit import Auditor
    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.auth.bearer import Bearer
    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.grpcfront.relays import Relays
    from controlplane.apiserver.request import User

log = logging.getLogger(__name__)

MAX_MESSAGE = 16 << 20
"""Bytes of one request message: batches are larger than objects, whose size is checked later with a clear answer."""

_OPTIONS: list[tuple[str, Any]] = [
    *(option for option in SERVER_OPTIONS if option[0] != "grpc.max_receive_message_length"),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_concurrent_streams", 100_000),
]


class Authenticator:
    """Finds out who calls: a client certificate, else a bearer token."""

    def __init__(self, tokens: Bearer, authorizers: Authorizers) -> None:
        self._tokens = tokens
        self._authorizers = authorizers

    def user_of(self, context: Any) -> User:
        """Return the caller, or whom the caller acts as. Raises UnauthorizedError, ForbiddenError."""
        return self.acting(self.caller(context), context)

    def acting(self, user: User, context: Any) -> User:
        """Return whom a caller acts as. Raises ForbiddenError."""
        metadata = context.invocation_metadata() or ()
        for key, _ in metadata:
            if key.startswith(PREFIX):
                return impersonated(user, metadata, self._authorizers)
        return user

    def caller(self, context: Any) -> User:
        """Return who calls. Raises UnauthorizedError."""
        pem = context.auth_context().get("x509_pem_cert")
        if pem:
            return certificates.user_of(pem[0])
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                return self._tokens.user_of(value)
        raise UnauthorizedError("no credentials: a client certificate, or the header authorization: Bearer <token>")


_METHODS = {
    "version": "Server/Version",
    "discover": "Server/Discover",
    "log": "Streams/Log",
    "exec": "Streams/Exec",
    "attach": "Streams/Attach",
    "portforward": "Streams/PortForward",
    "why": "Scheduling/Why",
    "pending": "Scheduling/Pending",
    "simulate": "Scheduling/Simulate",
}


def _path(verb: str, message: Any) -> str:
    """Return the path of the method that serves a verb."""
    method = _METHODS.get(verb) or f"Resources/{message.DESCRIPTOR.name.removesuffix('Request')}"
    return f"/wharfinger.v1.{method}"


class GrpcFront:
    """Listens on up to two ports."""

    def __init__(
        self,
        api: Api,
        relays: Relays,
        authenticator: Authenticator,
        *,
        more: Callable[[Any], None] | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        """`more` adds further services to each server."""
        self._more = more
        self._auditing = auditing.Auditing(auditor, authenticator) if auditor is not None else None
        self._calls = Calls(api, self._auditing)
        self._relays = relays
        self._authenticator = authenticator
        self._servers: list[grpc.aio.Server] = []
        self._write_streams: set[streaming.WriteStream] = set()

    async def listen(self, address: str, credentials: grpc.ServerCredentials) -> int:
        """Open a port; returns its number. Raises RuntimeError when the address is taken."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=None)
        server.add_generic_rpc_handlers(self._handlers())
        if self._more is not None:
            self._more(server)
        port = server.add_secure_port(address, credentials)
        if not port:
            raise RuntimeError(f"cannot listen on {address}: the address is taken or is none of this host")
        await server.start()
        self._servers.append(server)
        return port

    def caller(self, context: Any, method: str, verb: str) -> User:
        """Return who calls a method of a further service; its audit record begins. Raises StatusError."""
        if self._auditing is None:
            return self._authenticator.user_of(context)
        path = f"/wharfinger.v1.{method}"
        return self._auditing.begin(path, verb, context, self._auditing.caller(path, verb, context), None)

    async def stop(self, grace: float) -> None:
        """Take no new calls; those under way have `grace` seconds."""
        for stream in self._write_streams:
            stream.finish()
        await asyncio.gather(*(server.stop(grace) for server in self._servers))

    def _handlers(self) -> tuple[grpc.GenericRpcHandler[Any, Any], ...]:
        calls, relays = self._calls, self._relays
        again, listing, watching = calls.api.retried, streaming.list_objects, streaming.watch
        resources = {
            "Get": self._found("get", calls.get, native.GetRequest),
            "Create": self._found("create", calls.create, native.CreateRequest),
            "Update": self._found("update", calls.update, native.UpdateRequest),
            "Patch": self._found("patch", calls.patch, native.PatchRequest),
            "Delete": self._found("delete", calls.delete, native.DeleteRequest),
            "DeleteCollection": self._found(
                "deletecollection", calls.delete_collection, native.DeleteCollectionRequest
            ),
            "Bind": self._found("bind", calls.bind, native.BindRequest),
            "BindMany": self._found("bindmany", calls.bind_many, native.BindManyRequest),
            "List": self._streaming("list", lambda u, m, c: again(listing, calls, u, m, c), native.ListRequest),
            "Watch": self._streaming("watch", lambda u, m, c: again(watching, calls, u, m, c), native.WatchRequest),
            "Write": grpc.stream_stream_rpc_method_handler(self._ending(self._write)),
        }
        server = {
            "Version": self._unary("version", calls.version, native.VersionRequest),
            "Discover": self._unary("discover", calls.discover, native.DiscoverRequest),
        }
        streams = {
            "Log": self._streaming("log", relays.log, streams_v1_pb2.LogRequest),
            "Exec": self._bidirectional("exec", relays.exec, streams_v1_pb2.StreamInput),
            "Attach": self._bidirectional("attach", relays.attach, streams_v1_pb2.StreamInput),
            "PortForward": self._bidirectional("portforward", relays.port_forward, streams_v1_pb2.ForwardInput),
        }
        scheduling = {
            "Why": self._unary("why", relays.why, scheduling_v1_pb2.WhyRequest),
            "Pending": self._unary("pending", relays.pending, scheduling_v1_pb2.PendingRequest),
            "Simulate": self._unary("simulate", relays.simulate, scheduling_v1_pb2.SimulateRequest),
        }
        return (
            grpc.method_handlers_generic_handler("wharfinger.v1.Resources", resources),
            grpc.method_handlers_generic_handler("wharfinger.v1.Server", server),
            grpc.method_handlers_generic_handler("wharfinger.v1.Streams", streams),
            grpc.method_handlers_generic_handler("wharfinger.v1.Scheduling", scheduling),
        )

    def _found(
        self, verb: str, call: Callable[[User, Any], Awaitable[bytes]], message: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Serve a call on a resource, which may be one of a custom kind that was defined just now."""
        again = self._calls.api.retried
        return self._unary(verb, lambda user, parsed_: again(call, user, parsed_), message)

    def _unary(
        self, verb: str, call: Callable[[User, Any], Awaitable[bytes]], message: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        enter, observe, clock = self._enter(verb, message), metrics.observer(verb), time.perf_counter

        async def handle(request: bytes, context: Any) -> bytes:
            start = clock()
            try:
                answer = await call(*enter(request, context))
            except Exception as error:  # noqa: BLE001  (abort logs what was not foreseen)
                observe(clock() - start, error)
                await abort(context, error, verb)
            observe(clock() - start, None)
            return answer

        # Parsed in here and not by gRPC, which would answer "unknown" and log a stack for each wrong byte.
        return grpc.unary_unary_rpc_method_handler(self._ending(handle))

    def _enter(self, verb: str, message: Any) -> Callable[[bytes, Any], tuple[User, Any]]:
        """Return what finds out of a call who calls for what, and begins its record if there is an audit log."""
        user_of, audits = self._authenticator.user_of, self._auditing
        if audits is None:
            return lambda request, context: (user_of(context), parsed(message, request))
        path = _path(verb, message)
        if verb == "bindmany":
            return lambda request, context: (audits.around(path, verb, context), parsed(message, request))
        return lambda request, context: audits.enter(path, verb, context, message, request)

    def _ending(self, handle: Any) -> Any:
        return handle if self._auditing is None else auditing.ending(handle)

    def _streaming(
        self, verb: str, call: Callable[[User, Any, Any], Awaitable[None]], message: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        enter = self._enter(verb, message)
        running = metrics.long_running(verb)

        async def handle(request: bytes, context: Any) -> None:
            running.inc()
            try:
                await call(*enter(request, context), context)
            except Exception as error:  # noqa: BLE001  (abort logs what was not foreseen)
                if not isinstance(error, StatusError) and context.cancelled():
                    return  # the client went away in the middle of an answer
                await abort(context, error, verb)
            finally:
                running.dec()

        return grpc.unary_stream_rpc_method_handler(self._ending(handle))

    def _bidirectional(
        self, verb: str, call: Callable[[User, Any, Any], Awaitable[None]], message: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Serve a stream whose first message, of the class `message`, says what is to be opened."""
        running = metrics.long_running(verb)
        user_of, audits, path = self._authenticator.user_of, self._auditing, _path(verb, message)

        async def open_(context: Any) -> tuple[User, Any]:
            if audits is None:
                return user_of(context), await first_message(context, message)
            caller = audits.caller(path, verb, context)
            opening = await first_message(context, message)
            return audits.begin(path, verb, context, caller, opening.open), opening

        async def handle(_: Any, context: Any) -> None:
            running.inc()
            try:
                await call(*await open_(context), context)
            except Exception as error:  # noqa: BLE001  (abort logs what was not foreseen)
                if not isinstance(error, StatusError) and context.cancelled():
                    return  # the client went away in the middle
                await abort(context, error, verb)
            finally:
                running.dec()

        return grpc.stream_stream_rpc_method_handler(self._ending(handle))

    async def _write(self, _: Any, context: Any) -> None:
        try:
            user = (
                self._authenticator.user_of(context)
                if self._auditing is None
                else self._auditing.around(f"{auditing.RESOURCES}Write", "write", context)
            )
        except StatusError as error:
            await abort(context, error, "write")
        try:
            stream = streaming.WriteStream(
                self._calls, user, context, identify=lambda: self._authenticator.user_of(context)
            )
            self._write_streams.add(stream)
            try:
                await stream.serve()
            finally:
                self._write_streams.discard(stream)
        except StatusError as error:
            await abort(context, error, "write")
