"""Group commit against an etcd that refuses, without an etcd."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controlplane.apiserver.store import EtcdConfig, Put, Write
from controlplane.apiserver.store.commit import Committer
from controlplane.apiserver.store.failures import Overloaded
from wharfinger.api import errors
from wharfinger.proto.etcd import rpc_pb2


class Busy:
    """An etcd that refuses the first transactions."""

    def __init__(self, refusals: int) -> None:
        self.config = EtcdConfig()
        self.patience = 0.4
        self.seen = 7
        self.refusals = refusals
        self.attempts = 0

    async def probe(self) -> int:
        return self.seen

    async def txn(self, request: bytes) -> Any:
        await asyncio.sleep(0)
        self.attempts += 1
        if self.attempts <= self.refusals:
            raise Overloaded("etcdserver: too many requests")
        answer = rpc_pb2.TxnResponse(succeeded=True)
        answer.header.revision = 8
        return answer


def _write() -> Write:
    return Write(compares=[("/a", 0)], puts=[Put("/a", b"1")], deletes=[])


async def test_an_overloaded_etcd_is_asked_again_after_pauses() -> None:
    busy: Any = Busy(refusals=3)
    committer = Committer(busy)
    assert (await committer.commit(_write(), [0])).revision == 8
    assert busy.attempts == 4
    await committer.close()


async def test_whoever_waits_for_an_overloaded_etcd_gives_up_in_time() -> None:
    """And etcd is left alone meanwhile: without pauses these would be thousands of attempts."""
    busy: Any = Busy(refusals=1_000_000)
    committer = Committer(busy)
    with pytest.raises(errors.ServiceUnavailableError):
        await committer.commit(_write(), [0])
    assert busy.attempts < 20
    await committer.close()
