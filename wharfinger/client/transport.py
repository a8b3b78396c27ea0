"""Channels to the apiservers: TLS, fail-over, and errors as the classes of :mod:`wharfinger.api.errors`.

One channel an endpoint, made at first use. A call goes to the endpoint that worked last; when that one is
unreachable the next call goes to the next. Reads are tried on every endpoint in turn before they fail. Writes are
not repeated here: one that ended as unavailable may have happened, so only the caller can know what to do.

An apiserver may hold its connections, answer gRPC's pings, and nothing else (a process that hangs). So where there is
another one to go to, an endpoint with calls under way that has been silent for a while is asked for its version, and so
is that other one. When only the other one answers, again and again, all calls are broken off like those of a lost
connection; when none does, the fault may be ours, so that takes longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.rpc import status_pb2

from wharfinger.api import errors
from wharfinger.api.types import meta
from wharfinger.client.config import ClientConfig
from wharfinger.proto.native import resources_v1_pb2, resources_v1_pb2_grpc, scheduling_v1_pb2_grpc, streams_v1_pb2_grpc

log = logging.getLogger(__name__)

MAX_MESSAGE = 64 << 20
"""Bytes: lists come in chunks, so this only bounds a broken peer."""

CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # A peer that vanished without closing its connection is noticed after 15 s even when nothing is sent.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Each client keeps its own connection: tests and hollow nodes depend on it, and a shared one is a shared fate.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]

SERVER_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 4_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
]
"""For every gRPC server of ours: the keepalive pings above must not be taken for an attack."""

_RETIRE_SECONDS = 30.0
_LOOK_SECONDS = 0.5
SILENT_SECONDS = 1.0
"""After which an endpoint that owes us an answer is asked whether it is still there."""
LASTING_SILENT_SECONDS = 7.0
"""The same for one that owes us nothing but the rest of watches, which bring a bookmark about every 5 s."""
PROBE_SECONDS = 0.75
_PROBES = 2
"""So many unanswered, an endpoint is left for one that answers; one alone may have been held up by ourselves."""
_PROBES_WITHOUT_OTHER = 5
"""The same when no other one answers either: all of them may be slow, and so may we."""

STATUS_DETAILS = "grpc-status-details-bin"
STATUS_TYPE_URL = "type.googleapis.com/" + meta.Status.DESCRIPTOR.full_name

T = TypeVar("T")


def error_from_rpc(error: grpc.aio.AioRpcError) -> errors.StatusError:
    """Return the Status that a failed call carries, or one that describes the failure of the transport."""
    trailing: Any = error.trailing_metadata() or ()
    for key, value in trailing:
        if key == STATUS_DETAILS:
            for detail in status_pb2.Status.FromString(value).details:
                if detail.type_url == STATUS_TYPE_URL:
                    return errors.from_status(meta.Status.FromString(detail.value))
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return errors.ServiceUnavailableError(f"the apiserver cannot be reached: {text}")
    if code is grpc.StatusCode.CANCELLED:
        return errors.ServiceUnavailableError("the apiserver broke off the call; it may be stopping")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.TimeoutError_("the apiserver did not answer in time")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.MethodNotAllowedError(text or "the server does not know this call")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return errors.UnauthorizedError(text or "Unauthorized")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return errors.RequestTooLargeError(text)
    return errors.InternalError(f"{code.name}: {text}")


class Endpoint:
    """The channel to one apiserver and its stubs."""

    def __init__(self, address: str, config: ClientConfig) -> None:
        self.address = address
        credentials = grpc.ssl_channel_credentials(
            root_certificates=config.ca, private_key=config.key, certificate_chain=config.cert
        )
        self.channel = grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
        self.resources = resources_v1_pb2_grpc.ResourcesStub(self.channel)  # type: ignore[no-untyped-call]
        self.server = resources_v1_pb2_grpc.ServerStub(self.channel)  # type: ignore[no-untyped-call]
        self.streams = streams_v1_pb2_grpc.StreamsStub(self.channel)  # type: ignore[no-untyped-call]
        self.scheduling = scheduling_v1_pb2_grpc.SchedulingStub(self.channel)  # type: ignore[no-untyped-call]
        self.retired = False
        """Whether calls are to go elsewhere: its credentials were replaced."""
        self._lasting: set[Any] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._broken: set[asyncio.Task[Any]] = set()
        self.heard = time.monotonic()
        """When it last sent anything."""
        self.probe: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether calls are under way."""
        return bool(self._waiting or self._lasting)

    @property
    def patience(self) -> float:
        """Seconds of silence after which it is to be asked whether it is still there."""
        return SILENT_SECONDS if self._waiting else LASTING_SILENT_SECONDS

    def hear(self) -> None:
        """Note that it has sent something."""
        self.heard = time.monotonic()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Look after a call that is answered once. When it is broken off, ServiceUnavailableError is raised."""
        task = asyncio.current_task()
        assert task is not None, "calls are made in tasks"
        if not self.busy:
            self.hear()
        self._waiting.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._broken or task.uncancel():
                raise
            raise errors.ServiceUnavailableError(f"the apiserver at {self.address} does not answer") from None
        except grpc.aio.AioRpcError:
            self.hear()
            raise
        finally:
            self._waiting.discard(task)
            self._broken.discard(task)
        self.hear()

    @contextlib.contextmanager
    def lasting(self, call: Any) -> Iterator[None]:
        """Look after a call that may last for ever: when the endpoint is retired it is broken off like a lost
        connection. In the body, ServiceUnavailableError stands for that."""
        if not self.busy:
            self.hear()
        self._lasting.add(call)
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.retired or (task is not None and task.cancelling()):
                raise
            raise errors.ServiceUnavailableError("the connection is made anew") from None
        finally:
            self._lasting.discard(call)

    async def abandon(self) -> None:
        """Break off everything, and close."""
        for task in list(self._waiting):
            self._broken.add(task)
            task.cancel()
        await self.retire()

    async def retire(self) -> None:
        """Break off what lasts, let the other calls end, and close."""
        self.retired = True
        for call in list(self._lasting):
            call.cancel()
        await self.channel.close(_RETIRE_SECONDS)


def _metadata(config: ClientConfig) -> tuple[tuple[str, str], ...] | None:
    """Return what goes with each call."""
    metadata = [("authorization", f"Bearer {config.token}")] if config.token else []
    if config.acting_as is not None:
        metadata += config.acting_as.metadata()
    return tuple(metadata) or None


class Transport:
    """All endpoints of a cluster, and which of them is in use."""

    def __init__(self, config: ClientConfig) -> None:
        if not config.endpoints:
            raise ValueError("ClientConfig.endpoints is empty: at least one host:port is needed")
        self.config = config
        self.metadata = _metadata(config)
        self._endpoints: dict[str, Endpoint] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._current = 0
        self._look: asyncio.TimerHandle | None = None

    def renew(self, config: ClientConfig) -> None:
        """Use other credentials from now on. Watches and write streams come back by themselves, on new connections."""
        self.config = config
        self.metadata = _metadata(config)
        old, self._endpoints = self._endpoints, {}
        for endpoint in old.values():
            self._spawn(endpoint.retire(), name="retire connection")

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return task

    def endpoint(self) -> Endpoint:
        """Return the endpoint that calls should use now."""
        endpoint = self._at(self._current)
        if self._look is None and len(self.config.endpoints) > 1:
            self._look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look_around)
        return endpoint

    def _at(self, index: int) -> Endpoint:
        """Return the endpoint at a place of the configured list, which goes round."""
        address = self.config.endpoints[index % len(self.config.endpoints)]
        endpoint = self._endpoints.get(address)
        if endpoint is None:
            endpoint = self._endpoints[address] = Endpoint(address, self.config)
        return endpoint

    def _look_around(self) -> None:
        """Ask those who have been silent for long, and look again while any call is under way."""
        self._look = None
        busy = [endpoint for endpoint in self._endpoints.values() if endpoint.busy]
        for endpoint in busy:
            if endpoint.probe is None and time.monotonic() - endpoint.heard > endpoint.patience:
                endpoint.probe = self._spawn(self._probe(endpoint), name=f"does {endpoint.address} answer")
        if busy:
            self._look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look_around)

    async def _probe(self, endpoint: Endpoint) -> None:
        try:
            compared = 0
            for _ in range(_PROBES_WITHOUT_OTHER):
                answered, other = await asyncio.gather(self._answers(endpoint), self._another_answers(endpoint))
                if answered:
                    return
                compared += other
                if compared == _PROBES:
                    break
            log.warning("an apiserver holds its connections and does not answer", extra={"endpoint": endpoint.address})
            self.failed(endpoint)
            if self._endpoints.get(endpoint.address) is endpoint:
                del self._endpoints[endpoint.address]
            self._spawn(endpoint.abandon(), name="abandon connection")
        finally:
            endpoint.probe = None

    async def _answers(self, endpoint: Endpoint) -> bool:
        """Tell whether it sends anything back. A refusal is an answer; a lost connection ends the calls by itself."""
        try:
            await endpoint.server.Version(
                resources_v1_pb2.VersionRequest(), timeout=PROBE_SECONDS, metadata=self.metadata
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return False
        endpoint.hear()
        return True

    async def _another_answers(self, endpoint: Endpoint) -> bool:
        """Tell whether the one that calls would go to next takes requests."""
        addresses = self.config.endpoints
        if endpoint.address not in addresses:
            return False
        other = self._at(addresses.index(endpoint.address) + 1)
        try:
            await other.server.Version(resources_v1_pb2.VersionRequest(), timeout=PROBE_SECONDS, metadata=self.metadata)
        except grpc.aio.AioRpcError:
            return False
        return True

    def failed(self, endpoint: Endpoint) -> None:
        """Turn to the next endpoint, unless another call has done so already."""
        addresses = self.config.endpoints
        if len(addresses) > 1 and addresses[self._current % len(addresses)] == endpoint.address:
            self._current += 1
            log.info("apiserver unreachable, trying the next", extra={"endpoint": endpoint.address})

    def translate(self, endpoint: Endpoint, error: grpc.aio.AioRpcError) -> errors.StatusError:
        """Return the error to raise, and leave an unreachable endpoint."""
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            self.failed(endpoint)
        return error_from_rpc(error)

    async def read(self, call: Callable[[Endpoint], Awaitable[T]]) -> T:
        """Make a call that changes nothing, on each endpoint in turn until one answers."""
        for attempt in range(len(self.config.endpoints)):
            endpoint = self.endpoint()
            try:
                with endpoint.waiting():
                    return await call(endpoint)
            except errors.ServiceUnavailableError:
                if attempt + 1 == len(self.config.endpoints):
                    raise
            except grpc.aio.AioRpcError as error:
                translated = self.translate(endpoint, error)
                if attempt + 1 < len(self.config.endpoints) and error.code() is grpc.StatusCode.UNAVAILABLE:
                    continue
                raise translated from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def write(self, call: Callable[[Endpoint], Awaitable[T]]) -> T:
        """Make a call once."""
        endpoint = self.endpoint()
        try:
            with endpoint.waiting():
                return await call(endpoint)
        except grpc.aio.AioRpcError as error:
            raise self.translate(endpoint, error) from error

    async def close(self) -> None:
        """Close every channel; calls under way are cancelled."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        retiring = list(self._retiring)
        for task in retiring:
            task.cancel()
        await asyncio.gather(*retiring, return_exceptions=True)
        for endpoint in self._endpoints.values():
            await endpoint.channel.close(None)
        self._endpoints.clear()
