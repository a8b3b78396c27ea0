"""Heartbeats against a small gRPC server of our own, over TLS: what the thread does when answers are wrong, or none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from nodeagent.heartbeat import Heartbeats
from wharfinger import pki
from wharfinger.api import errors
from wharfinger.api.types import coordination
from wharfinger.client import ClientConfig
from wharfinger.proto.native import resources_v1_pb2 as native
from wharfinger.proto.native import resources_v1_pb2_grpc

WAIT_SECONDS = 15


class FakeServer(resources_v1_pb2_grpc.ResourcesServicer):
    """Keeps Leases, and misbehaves when asked to."""

    def __init__(self, ca: pki.CA) -> None:
        self.leases: dict[str, coordination.Lease] = {}
        self.verbs: list[str] = []
        self.silent = False
        self.garbage = False
        self._version = 0
        self._lock = threading.Lock()
        pair = pki.issue_server(ca, name="fake", dns=["localhost"], ips=["127.0.0.1"])
        self._credentials = grpc.ssl_server_credentials([(pair.key, pair.cert)])
        self.port = 0

    def start(self) -> None:
        self.server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
        resources_v1_pb2_grpc.add_ResourcesServicer_to_server(self, self.server)
        self.port = self.server.add_secure_port(f"127.0.0.1:{self.port}", self._credentials)
        self.server.start()

    def Get(self, request: Any, context: Any) -> native.Object:  # noqa: N802
        answer = native.Object()
        answer.object.raw = self.leases[request.reference.name].SerializeToString()
        return answer

    def Write(self, requests: Any, context: Any) -> Iterator[native.WriteResults]:  # noqa: N802
        for batch in requests:
            if self.silent:
                continue
            results = native.WriteResults()
            for write in batch.writes:
                results.results.append(self._one(write))
            yield results

    def _one(self, write: native.Write) -> native.WriteResult:
        verb = write.WhichOneof("request")
        lease = coordination.Lease.FromString(getattr(write, verb).object.raw)
        name = lease.metadata.name
        result = native.WriteResult(id=write.id)
        with self._lock:
            self.verbs.append(verb)
            known = self.leases.get(name)
            error: errors.StatusError | None = None
            if verb == "create" and known is not None:
                error = errors.already_exists("leases.coordination.k8s.io", name)
            elif verb == "update" and known is None:
                error = errors.not_found("leases.coordination.k8s.io", name)
            elif verb == "update" and known.metadata.resourceVersion != lease.metadata.resourceVersion:
                error = errors.conflict("leases.coordination.k8s.io", name, "changed")
            if error is not None:
                result.error.CopyFrom(error.to_status())
                return result
            self._version += 1
            lease.metadata.resourceVersion = str(self._version)
            self.leases[name] = lease
        result.object.object.raw = b"\xff" if self.garbage else lease.SerializeToString()
        return result

    def version(self, name: str) -> int:
        lease = self.leases.get(name)
        return int(lease.metadata.resourceVersion) if lease else 0


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    ca = pki.ensure_ca(tmp_path, "test")
    server = FakeServer(ca)
    server.start()
    server.config = ClientConfig(endpoints=[f"127.0.0.1:{server.port}"], ca=ca.cert)  # type: ignore[attr-defined]
    yield server
    server.server.stop(None)


@pytest.fixture
def beats(server: FakeServer) -> Iterator[Heartbeats]:
    beats = Heartbeats(server.config, interval=0.05, loop_seen=time.monotonic)  # type: ignore[attr-defined]
    yield beats
    beats.stop()


def test_lease_is_made_and_renewed(server, beats):
    beats.add("n1", "uid-1")
    beats.start()
    until("renewals", lambda: server.version("n1") >= 3)
    lease = server.leases["n1"]
    assert lease.metadata.namespace == "kube-node-lease"
    assert lease.metadata.ownerReferences[0].uid == "uid-1"
    assert (lease.spec.holderIdentity, lease.spec.leaseDurationSeconds) == ("n1", 40)
    assert server.verbs[:3] == ["create", "update", "update"]
    assert beats.last_renewed("n1") < WAIT_SECONDS


def test_an_answer_that_cannot_be_read_does_not_end_the_heartbeats(server, beats):
    server.garbage = True
    beats.add("n1", "uid")
    beats.start()
    until("an unreadable answer", lambda: server.version("n1") >= 1)
    server.garbage = False
    until("renewals", lambda: server.version("n1") >= 3)


def test_lease_of_a_former_life_is_taken_over(server, beats):
    server.leases["n1"] = coordination.Lease()
    server.leases["n1"].metadata.name = "n1"
    server.leases["n1"].metadata.resourceVersion = "900"
    server._version = 900
    beats.add("n1", "uid")
    beats.start()
    until("renewals", lambda: server.version("n1") > 902)


def test_lease_that_was_deleted_or_changed_by_another_is_renewed_again(server, beats):
    beats.add("n1", "uid")
    beats.start()
    until("it is there", lambda: server.version("n1") > 0)
    del server.leases["n1"]
    until("it is there again", lambda: server.version("n1") > 0)
    with server._lock:
        server._version += 1000
        server.leases["n1"].metadata.resourceVersion = str(server._version)
    changed = server._version
    until("it is renewed over the change", lambda: server.version("n1") > changed + 2)


def test_many_nodes_share_the_stream(server, beats):
    for number in range(200):
        beats.add(f"n{number}", "uid")
    beats.start()
    until("all are renewed", lambda: all(server.version(f"n{number}") > 200 for number in range(200)))


def test_server_that_restarts_is_found_again(server, beats):
    beats.add("n1", "uid")
    beats.start()
    until("it is there", lambda: server.version("n1") > 0)
    server.server.stop(None).wait()
    before = server.version("n1")
    server.start()
    until("renewals go on", lambda: server.version("n1") > before + 1)


def test_server_that_falls_silent_is_left(server, beats, monkeypatch):
    monkeypatch.setattr("nodeagent.heartbeat.ANSWER_SECONDS", 0.3)
    beats.add("n1", "uid")
    beats.start()
    until("it is there", lambda: server.version("n1") > 0)
    server.silent = True
    before = server.version("n1")
    time.sleep(0.6)  # longer than the deadline: the stream is broken off by the time the server speaks again
    server.silent = False
    until("renewals go on", lambda: server.version("n1") > before + 1)


def test_no_beats_while_the_main_loop_stands_still(server):
    alive = [time.monotonic()]
    beats = Heartbeats(server.config, interval=0.02, loop_seen=lambda: alive[0], stall_seconds=0.5)
    beats.add("n1", "uid")
    beats.start()
    try:
        until("it is there", lambda: server.version("n1") > 0)
        alive[0] = time.monotonic() - 60
        until("beats stop", lambda: beats.last_renewed("n1") > 0.3)
        stopped = server.version("n1")
        alive[0] = time.monotonic() + 60
        until("beats go on", lambda: server.version("n1") > stopped)
    finally:
        beats.stop()
