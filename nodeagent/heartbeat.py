"""Renews node Leases in a thread with a channel of its own, so that nothing else in the agent can delay a heartbeat.

One write stream carries all Leases of the process (one for an agent, thousands for hollow nodes), spread evenly over
the interval. A heartbeat promises that the agent as a whole is alive, so beats are withheld while the main event loop
has stood still for too long. The time in a Lease is for people to read: nobody compares it with another host's clock.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from nodeagent.fencing import boottime
from wharfinger.api import errors, kinds, times
from wharfinger.api.types import coordination
from wharfinger.client.config import ClientConfig
from wharfinger.client.options import write_options
from wharfinger.client.requests import unknown
from wharfinger.client.transport import CHANNEL_OPTIONS
from wharfinger.proto.native import resources_v1_pb2 as native
from wharfinger.proto.native import resources_v1_pb2_grpc

log = logging.getLogger(__name__)

NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
ANSWER_SECONDS = 8.0
"""A stream without an answer for that long is given up for another one."""
_TICK = 0.05
_KIND = kinds.of(coordination.Lease)


@dataclass(slots=True)
class _Beat:
    node: str
    uid: str
    due: float
    version: str = ""
    """Of the Lease as stored; empty: not known, create it."""
    look_up: bool = False
    """It exists in a version that is not known here."""
    asked: float = 0.0
    """When the last request was sent, by CLOCK_BOOTTIME."""
    sent: float = 0.0
    """When the request that has no answer yet was sent; 0 when there is none."""
    renewed: float = 0.0
    """When the last renewal was acknowledged, monotonic; 0: never."""


class Heartbeats:
    """See the module."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        interval: float,
        loop_seen: Callable[[], float],
        stall_seconds: float = 20.0,
        acknowledged: Callable[[float], None] = lambda at: None,
    ) -> None:
        """`loop_seen` returns when the main loop last showed life, by time.monotonic().

        `acknowledged` is told, in the heartbeat's thread, when (CLOCK_BOOTTIME) a renewal was asked for that is now
        acknowledged.
        """
        self._acknowledged = acknowledged
        self._config = config
        self._interval = interval
        self._loop_seen = loop_seen
        self._stall_seconds = stall_seconds
        self._beats: dict[str, _Beat] = {}
        self._requests: dict[int, str] = {}
        self._ids = itertools.count(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._stalled = False
        self._trouble = False

    def add(self, node: str, uid: str) -> None:
        """Begin to renew a node's Lease, at once for the first time."""
        self._beats[node] = _Beat(node, uid, due=time.monotonic())

    def owned_by(self, node: str, uid: str) -> None:
        """The node's object is another one now: its Lease must belong to that one, or it is collected as garbage."""
        beat = self._beats.get(node)
        if beat is not None and beat.uid != uid:
            beat.uid = uid

    def remove(self, node: str) -> None:
        """Stop renewing a node's Lease."""
        self._beats.pop(node, None)

    def last_renewed(self, node: str) -> float | None:
        """Return the seconds since the last acknowledged renewal; None before the first."""
        beat = self._beats.get(node)
        return time.monotonic() - beat.renewed if beat is not None and beat.renewed else None

    def renew(self, config: ClientConfig) -> None:
        """Use other credentials from now on: the connection is made anew within a quarter of a second."""
        self._config = config

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        for attempt in itertools.count():
            if self._stop.is_set():
                return
            config = self._config
            address = config.endpoints[attempt % len(config.endpoints)]
            try:
                self._session(address, config)
            except grpc.RpcError as error:
                if self._config is not config:
                    log.info("heartbeats go on with a new certificate")
                elif not self._trouble and not self._stop.is_set():
                    log.warning("heartbeats do not get through", extra={"endpoint": address, "error": _text(error)})
                self._trouble = self._config is config
            except Exception:  # without this thread the node would be given up: begin a new session, and say why
                log.exception("heartbeats failed on a fault of ours", extra={"endpoint": address})
            for beat in list(self._beats.values()):
                beat.sent = 0.0
            self._requests.clear()
            self._stop.wait(0.2 + random.random() * min(0.3 * attempt, 2.0))

    def _session(self, address: str, config: ClientConfig) -> None:
        """Beat over one connection until it breaks, or other credentials have come."""
        credentials = grpc.ssl_channel_credentials(config.ca, config.key, config.cert)
        metadata = (("authorization", f"Bearer {config.token}"),) if config.token else None
        with grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS) as channel:
            stub: Any = resources_v1_pb2_grpc.ResourcesStub(channel)  # type: ignore[no-untyped-call]
            ended = threading.Event()
            call = stub.Write(self._batches(stub, metadata, ended), metadata=metadata)
            watcher = threading.Thread(
                target=self._watch, args=(call, ended, config), name="heartbeat watch", daemon=True
            )
            watcher.start()
            try:
                for results in call:
                    for result in results.results:
                        self._answered(result)
            finally:
                ended.set()
                call.cancel()

    def _watch(self, call: Any, ended: threading.Event, config: ClientConfig) -> None:
        """Break a connection that fell silent or has old credentials, and all when the thread is to stop."""
        while not ended.wait(0.25):
            oldest = min((beat.sent for beat in list(self._beats.values()) if beat.sent), default=0.0)
            silent = oldest and time.monotonic() - oldest > ANSWER_SECONDS
            if silent or self._config is not config or self._stop.is_set():
                call.cancel()
                return

    def _batches(self, stub: Any, metadata: Any, ended: threading.Event) -> Iterator[native.WriteBatch]:
        while not ended.is_set() and not self._stop.is_set():
            batch = native.WriteBatch()
            if self._main_loop_alive():
                now = time.monotonic()
                for beat in list(self._beats.values()):
                    if beat.due <= now and not beat.sent:
                        if beat.look_up:
                            self._look_up(beat, stub, metadata)
                        batch.writes.append(self._write(beat, now))
            if batch.writes:
                yield batch
            else:
                ended.wait(_TICK)

    def _main_loop_alive(self) -> bool:
        silence = time.monotonic() - self._loop_seen()
        if silence <= self._stall_seconds:
            self._stalled = False
            return True
        if not self._stalled:
            log.error("the agent's main loop stands still: no heartbeats until it moves", extra={"seconds": silence})
        self._stalled = True
        return False

    def _look_up(self, beat: _Beat, stub: Any, metadata: Any) -> None:
        request = native.GetRequest(reference=self._reference(beat.node))
        try:
            answer = stub.Get(request, timeout=ANSWER_SECONDS, metadata=metadata)
            beat.version = coordination.Lease.FromString(answer.object.raw).metadata.resourceVersion
        except grpc.RpcError as error:
            log.debug("lease not read", extra={"node": beat.node, "error": _text(error)})
            beat.version = ""
        beat.look_up = False

    def _reference(self, node: str) -> native.Reference:
        return native.Reference(
            group=_KIND.group, version=_KIND.version, resource=_KIND.resource, namespace=NAMESPACE, name=node
        )

    def _write(self, beat: _Beat, now: float) -> native.Write:
        lease = coordination.Lease()
        lease.metadata.name, lease.metadata.namespace = beat.node, NAMESPACE
        lease.metadata.ownerReferences.add(apiVersion="v1", kind="Node", name=beat.node, uid=beat.uid)
        lease.spec.holderIdentity, lease.spec.leaseDurationSeconds = beat.node, LEASE_SECONDS
        lease.spec.renewTime.CopyFrom(times.micro_now())
        write = native.Write(id=next(self._ids))
        options = write_options(brief=True, lazy=True)
        if beat.version:
            lease.metadata.resourceVersion = beat.version
            body = unknown(_KIND, lease.SerializeToString())
            write.update.CopyFrom(
                native.UpdateRequest(reference=self._reference(beat.node), object=body, options=options)
            )
        else:
            body = unknown(_KIND, lease.SerializeToString())
            write.create.CopyFrom(
                native.CreateRequest(reference=self._reference(beat.node), object=body, options=options)
            )
        beat.sent, beat.asked = now, boottime()
        self._requests[write.id] = beat.node
        return write

    def _answered(self, result: native.WriteResult) -> None:
        beat = self._beats.get(self._requests.pop(result.id, ""))
        if beat is None:
            return
        beat.sent = 0.0
        now = time.monotonic()
        if not result.HasField("error"):
            beat.version = coordination.Lease.FromString(result.object.object.raw).metadata.resourceVersion
            first = not beat.renewed
            beat.renewed = now
            self._acknowledged(beat.asked)
            # The first beats of many nodes come together; from then on they are spread over the interval.
            beat.due = now + self._interval * (random.random() if first and len(self._beats) > 1 else 1.0)
            if self._trouble:
                log.info("heartbeats get through again")
            self._trouble = False
            return
        error = errors.from_status(result.error)
        beat.due = now + min(1.0, self._interval)
        if isinstance(error, errors.NotFoundError):
            beat.version = ""
        elif isinstance(error, errors.AlreadyExistsError | errors.ConflictError):
            beat.look_up, beat.due = True, now
        else:
            log.warning("heartbeat refused", extra={"node": beat.node, "error": str(error)})


def _text(error: grpc.RpcError) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
