"""Thin async stubs over etcd's gRPC API: fail-over, deadlines, TLS, and errors sorted by what may be done about them.

Why not a library: ``facts`` in docs/architecture.md; none of eleven keeps all of TLS, revisions of transactions and a
watch that loses nothing. One channel an endpoint and one endpoint at a time: when it does not answer, the next one is
taken. That serves host names and certificates of each member alike, which gRPC's own balancing over a list of
addresses does not. Reads are repeated until `EtcdConfig.patience` is over. Transactions are never repeated here:
whether that is safe only :mod:`commit` knows.

**A new leader.** What a member had passed on to a leader that died is lost, and the member waits for it until its own
time is over (seven seconds). So a call that takes long is looked into (:mod:`inquiry`): when there is a new leader,
or the member says nothing at all, the call is given up and its outcome found out elsewhere.

Losing etcd is logged once, and once more when it is back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc

from controlplane.apiserver.store import metrics
from controlplane.apiserver.store.failures import EtcdFailure, Overloaded, Unanswered, classify
from controlplane.apiserver.store.inquiry import Inquiry
from controlplane.apiserver.store.types import KeyValue, RangeResult
from wharfinger.daemon import ClientFiles, Follower, Retirement
from wharfinger.proto.etcd import rpc_pb2, rpc_pb2_grpc

log = logging.getLogger(__name__)

T = TypeVar("T")

MISSING_KEY = b"\x00wharfinger-revision"
"""A key that nobody writes: reading it costs nothing and tells the revision."""

_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Back soon after an etcd restart; the defaults wait up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # etcd refuses pings more often than every 5 s (--grpc-keepalive-min-time).
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass(frozen=True)
class EtcdConfig:
    """Where etcd is and how to reach it."""

    endpoints: tuple[str, ...] = ("127.0.0.1:2379",)
    """``host:port`` each, of one cluster."""
    ca_file: str = ""
    """PEM. Any of the three files turns TLS on."""
    cert_file: str = ""
    key_file: str = ""
    timeout: float = 5.0
    """Seconds a single call may take."""
    patience: float = 10.0
    """Seconds a caller waits in total while etcd is away or a write's outcome is being settled, if it went just now."""

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ValueError("etcd endpoints: at least one host:port is needed")
        for endpoint in self.endpoints:
            host, _, port = endpoint.rpartition(":")
            if not host or not port.isdigit() or "/" in endpoint:
                raise ValueError(f"etcd endpoint {endpoint!r}: must be host:port, without a scheme or path")
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("etcd certificate: the certificate file and its key file are given together or not at all")

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return bool(self.ca_file or self.cert_file)


def to_bytes(key: str) -> bytes:
    """Return a key as etcd has it."""
    return key.encode("utf-8", "surrogateescape")


def to_key(key: bytes) -> str:
    """Return a key of etcd as the store has it."""
    return key.decode("utf-8", "surrogateescape")


def prefix_end(prefix: bytes) -> bytes:
    r"""Return the first key after all that begin with `prefix`; ``\0`` (the end of the key space) when there is
    none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\x00"


LEAST_PATIENCE = 1.0
"""Seconds that a caller waits even though etcd has been away for long: it may be about to come back."""


class Endpoint:
    """One member of etcd: its channel and stubs."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self.channel = (
            grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
            if credentials is not None
            else grpc.aio.insecure_channel(address, options=_OPTIONS)
        )
        self.kv = rpc_pb2_grpc.KVStub(self.channel)  # type: ignore[no-untyped-call]
        self.watch = rpc_pb2_grpc.WatchStub(self.channel)  # type: ignore[no-untyped-call]
        self.lease = rpc_pb2_grpc.LeaseStub(self.channel)  # type: ignore[no-untyped-call]
        self.cluster = rpc_pb2_grpc.ClusterStub(self.channel)  # type: ignore[no-untyped-call]
        self.maintenance = rpc_pb2_grpc.MaintenanceStub(self.channel)  # type: ignore[no-untyped-call]
        # Transactions are encoded by hand (encode.py): the request is bytes already.
        self.txn = self.channel.unary_unary(
            "/etcdserverpb.KV/Txn", request_serializer=None, response_deserializer=rpc_pb2.TxnResponse.FromString
        )


_RETIRE_SECONDS = 600.0
"""That a connection with replaced credentials is kept for the calls on it, of which maintenance is the longest."""


class EtcdClient:
    """Calls to whichever endpoint answers."""

    def __init__(self, config: EtcdConfig) -> None:
        self.config = config
        self.endpoints: list[Endpoint] = []
        self._retired = Retirement("connection to etcd")
        self.moved: list[Callable[[Endpoint], None]] = []
        """Called with an endpoint that is of no use any more: whoever has a stream there opens it elsewhere."""
        self.term = 0
        """The highest term of etcd's leaders that an answer has told."""
        self._inquiry = Inquiry(self)
        self._current = 0
        self._lost_since: float | None = None
        self.seen = 0
        """A revision that the store had reached when it last answered; 0 before that."""

    async def start(self) -> None:
        """Open the channels; does not wait for etcd. Raises OSError when a TLS file cannot be read."""
        credentials = await asyncio.to_thread(self._credentials)
        self.endpoints = [Endpoint(address, credentials) for address in self.config.endpoints]

    @property
    def files(self) -> ClientFiles:
        """The TLS files."""
        config = self.config
        return ClientFiles(
            *(Path(path) if path else None for path in (config.ca_file, config.cert_file, config.key_file))
        )

    def _credentials(self) -> grpc.ChannelCredentials | None:
        if not self.config.tls:
            return None
        try:
            pair = self.files.read()
        except ValueError as error:
            raise OSError(f"{self.config.cert_file}, {self.config.key_file}: {error}") from error
        return grpc.ssl_channel_credentials(pair.ca, pair.key, pair.cert)

    def follower(self) -> Follower:
        """Return who follows the TLS files, once started."""
        return Follower(lambda: self.files.paths, self.renew, what="certificate for etcd")

    def renew(self) -> None:
        """Read the TLS files, and use them on new connections. Raises OSError when they are of no use.

        Calls under way have their time to end; the watch moves at once (`moved`), and goes on where it was.
        """
        credentials = self._credentials()
        old, self.endpoints = self.endpoints, [Endpoint(address, credentials) for address in self.config.endpoints]
        log.info("a new certificate is used for etcd from now on", extra={"file": self.config.cert_file})
        for endpoint in old:
            self._retired.add(partial(endpoint.channel.close, None), seconds=_RETIRE_SECONDS)
            self.tell_moved(endpoint)

    def tell_moved(self, endpoint: Endpoint) -> None:
        """Tell those who have streams at an endpoint to open them elsewhere."""
        for moved in self.moved:
            moved(endpoint)

    def prefer(self, endpoint: Endpoint) -> None:
        """Send the next call to this endpoint."""
        if endpoint in self.endpoints:
            self._current = self.endpoints.index(endpoint)

    async def close(self) -> None:
        """Close the channels; calls under way fail."""
        await self._inquiry.close()
        await self._retired.close()
        for endpoint in self.endpoints:
            await endpoint.channel.close(None)

    @property
    def endpoint(self) -> Endpoint:
        """The one that calls go to now."""
        return self.endpoints[self._current]

    @property
    def patience(self) -> float:
        """Seconds that a caller who comes now waits for etcd.

        The longer it is away, the less: a short absence is bridged, but nobody waits in vain in the middle of a long
        one.
        """
        patience = self.config.patience
        if self._lost_since is None:
            return patience
        return max(patience - (time.monotonic() - self._lost_since), min(LEAST_PATIENCE, patience))

    @property
    def lost(self) -> bool:
        """Whether the last call got no answer."""
        return self._lost_since is not None

    def failed(self, endpoint: Endpoint, why: str) -> None:
        """Take note that an endpoint did not answer: the next call goes to the next one."""
        if self._lost_since is None:
            self._lost_since = time.monotonic()
            log.warning("etcd does not answer; waiting for it", extra={"endpoint": endpoint.address, "error": why})
        self.leave(endpoint)

    def leave(self, endpoint: Endpoint) -> None:
        """Send the next call to another endpoint, if there is one."""
        if self.endpoint is endpoint:
            self._current = (self._current + 1) % len(self.endpoints)

    def answered(self) -> None:
        """Take note of an answer."""
        if self._lost_since is not None:
            seconds = round(time.monotonic() - self._lost_since, 1)
            self._lost_since = None
            log.info("etcd answers again", extra={"endpoint": self.endpoint.address, "seconds": seconds})

    async def call(
        self, operation: str, send: Callable[[Endpoint], Awaitable[T]], *, endpoint: Endpoint | None = None
    ) -> T:
        """Make one call, once. Raises EtcdFailure."""
        target = endpoint or self.endpoint
        start = time.perf_counter()
        call = send(target)
        timer = self._inquiry.timer(call, target) if endpoint is None else None
        try:
            answer = await call
        except asyncio.CancelledError:
            if timer is None or not self._inquiry.gave_up(call):
                raise
            metrics.ETCD_ERRORS.labels(operation, "GivenUp").inc()
            raise Unanswered("the member waits for a leader that is gone, or does not answer") from None
        except grpc.aio.AioRpcError as error:
            failure = classify(error)
            metrics.ETCD_ERRORS.labels(operation, type(failure).__name__).inc()
            if endpoint is None:
                if isinstance(failure, Unanswered) and not isinstance(failure, Overloaded):
                    self.failed(target, str(failure))
                else:
                    self.answered()
            raise failure from error
        except grpc.aio.UsageError as error:  # the channel was closed under the call
            raise Unanswered("the connection to etcd is closed") from error
        finally:
            if timer is not None:
                self._inquiry.done(call, timer)
            metrics.ETCD_SECONDS.labels(operation).observe(time.perf_counter() - start)
        if self._lost_since is not None and endpoint is None:
            self.answered()
        return answer

    async def read(self, operation: str, send: Callable[[Endpoint], Awaitable[T]]) -> T:
        """Make a call that changes nothing, again and again while there is no answer, for `patience` seconds."""
        deadline = time.monotonic() + self.patience
        pause = 0.02
        while True:
            try:
                return await self.call(operation, send)
            except Unanswered:
                if time.monotonic() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.5)

    async def txn(self, request: bytes) -> rpc_pb2.TxnResponse:
        """Send an encoded transaction once. Raises EtcdFailure; after Unanswered it may have happened."""
        timeout = self.config.timeout
        answer: rpc_pb2.TxnResponse = await self.call("txn", lambda endpoint: endpoint.txn(request, timeout=timeout))
        self.seen = answer.header.revision
        self.term = max(self.term, answer.header.raft_term)
        return answer

    async def range_raw(self, request: rpc_pb2.RangeRequest) -> rpc_pb2.RangeResponse:
        """Read keys; repeated while there is no answer."""
        timeout = self.config.timeout
        operation = "list" if request.range_end else "get"
        answer: rpc_pb2.RangeResponse = await self.read(
            operation, lambda endpoint: endpoint.kv.Range(request, timeout=timeout)
        )
        self.seen = answer.header.revision
        self.term = max(self.term, answer.header.raft_term)
        return answer

    async def range(
        self,
        start: bytes,
        end: bytes = b"",
        *,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
    ) -> RangeResult:
        """Read the keys from `start` to before `end` (only `start` when `end` is empty). Raises EtcdFailure."""
        answer = await self.range_raw(
            rpc_pb2.RangeRequest(
                key=start, range_end=end, limit=limit, revision=revision, keys_only=keys_only, count_only=count_only
            )
        )
        return RangeResult(
            [from_pb(kv) for kv in answer.kvs], revision or answer.header.revision, answer.more, answer.count
        )

    async def revision(self) -> int:
        """Return the store's revision now: a linearizable read of a key that is not there."""
        answer = await self.range_raw(rpc_pb2.RangeRequest(key=MISSING_KEY))
        return answer.header.revision

    async def probe(self) -> int:
        """Ask for the revision once, with a short deadline: does etcd answer? Raises EtcdFailure."""
        request = rpc_pb2.RangeRequest(key=MISSING_KEY)
        timeout = min(1.0, self.config.timeout)
        answer = await self.call("get", lambda endpoint: endpoint.kv.Range(request, timeout=timeout))
        revision: int = answer.header.revision
        return revision

    async def history(self, start: int) -> tuple[list[Any], int]:
        """Return every event (etcd's messages, in order) from revision `start` up to the newest, and the first
        revision of which all are there: `start`, or a later one when that is compacted. Raises EtcdFailure.
        """
        newest = await self.revision()
        events: list[Any] = []
        first = start
        while start <= newest:
            endpoint = self.endpoint
            stream = endpoint.watch.Watch(timeout=self.config.timeout)
            try:
                create = rpc_pb2.WatchCreateRequest(key=b"\0", range_end=b"\0", start_revision=start)
                await stream.write(rpc_pb2.WatchRequest(create_request=create))
                async for answer in stream:
                    if answer.compact_revision:
                        start = first = answer.compact_revision
                        break
                    events.extend(answer.events)
                    if events and events[-1].kv.mod_revision >= newest:
                        return events, first
                else:
                    raise Unanswered("the watch ended early")
            except grpc.aio.AioRpcError as error:
                raise classify(error) from error
            finally:
                stream.cancel()
        return events, first

    async def compact(self, revision: int) -> None:
        """Drop all history before `revision`. Raises EtcdFailure (Compacted when that was done already)."""
        request = rpc_pb2.CompactionRequest(revision=revision)
        timeout = self.config.timeout
        await self.call("compact", lambda endpoint: endpoint.kv.Compact(request, timeout=timeout))

    async def grant(self, ttl: int) -> int:
        """Make a lease of `ttl` seconds. Repeated while there is no answer: a lease too many ends by itself."""
        timeout = self.config.timeout
        answer = await self.read(
            "lease", lambda endpoint: endpoint.lease.LeaseGrant(rpc_pb2.LeaseGrantRequest(TTL=ttl), timeout=timeout)
        )
        lease: int = answer.ID
        return lease


def from_pb(kv: Any) -> KeyValue:
    """Return etcd's message as the store has it."""
    return KeyValue(
        kv.key.decode("utf-8", "surrogateescape"), kv.value, kv.mod_revision, kv.create_revision, kv.version, kv.lease
    )


__all__ = [
    "MISSING_KEY",
    "Endpoint",
    "EtcdClient",
    "EtcdConfig",
    "EtcdFailure",
    "from_pb",
    "prefix_end",
    "to_bytes",
    "to_key",
]
