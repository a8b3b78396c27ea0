"""Compaction by one of several, and status, compact, defrag, disarm, also over gRPC."""

from __future__ import annotations

import random
from typing import Any

import grpc
import pytest

from controlplane.apiserver.etcd_service import EtcdService
from controlplane.apiserver.store import Compare, EtcdConfig, Put, Store, Write, maintenance
from tests.integration.store.helpers import Making, create
from tests.support.etcd import Etcd, free_ports
from wharfinger.api import errors
from wharfinger.proto.native import etcd_v1_pb2, etcd_v1_pb2_grpc


async def test_only_what_a_whole_period_saw_is_compacted(make: Making) -> None:
    store = await make.store()
    compactor = maintenance.Compactor(store)
    old = await create(store, "/k/1")
    assert await compactor.look() == 0
    young = await create(store, "/k/2")
    compacted = await compactor.look()
    assert old <= compacted < young
    with pytest.raises(errors.ExpiredError):
        await store.range("/k/", prefix=True, revision=old - 1)
    assert [kv.key for kv in (await store.range("/k/", prefix=True, revision=young)).kvs] == ["/k/1", "/k/2"]


async def test_one_of_several_compacts_and_another_takes_over(make: Making) -> None:
    stores = [await make.store() for _ in range(3)]
    compactors = [maintenance.Compactor(store, identity=str(n)) for n, store in enumerate(stores)]
    done: list[list[int]] = []
    for turn in range(4):
        await create(stores[0], f"/k/{turn}")
        done.append([await compactor.look() for compactor in compactors])
    assert done[0] == [0, 0, 0]
    for row in done[1:]:
        assert sum(bool(revision) for revision in row) == 1
    winner = next(n for n, revision in enumerate(done[-1]) if revision)
    rest = [compactor for n, compactor in enumerate(compactors) if n != winner]
    took_over = []
    for turn in range(4, 7):
        await create(stores[0], f"/k/{turn}")
        took_over += [await compactor.look() for compactor in rest]
    assert any(took_over)


async def test_compact_on_demand_leaves_the_newest_revision(make: Making) -> None:
    store = await make.store()
    revisions = [await create(store, f"/k/{n}") for n in range(5)]
    for wrong in (-1, revisions[-1], revisions[-1] + 1):
        with pytest.raises(errors.BadRequestError, match="revision"):
            await maintenance.compact(store, wrong)
    assert await maintenance.compact(store, revisions[2]) == revisions[2]
    assert await maintenance.compact(store) == revisions[-1] - 1
    assert await maintenance.compact(store) == revisions[-1] - 1  # once more does no harm
    cache = await make.cache(store)
    assert cache.revision == revisions[-1]


async def test_a_full_etcd_is_brought_back_through_the_service() -> None:
    with Etcd(arguments=("--quota-backend-bytes", str(4 << 20))) as etcd:
        making = Making(etcd)
        store = await making.store()
        verbs: list[str] = []

        async def authorise(context: Any, _: str, verb: str) -> None:
            verbs.append(verb)
            if ("x-user", "nobody") in context.invocation_metadata():
                raise errors.ForbiddenError("nobody may not care for etcd")

        server = grpc.aio.server()
        etcd_v1_pb2_grpc.add_EtcdServicer_to_server(EtcdService(store, authorise), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        stub = etcd_v1_pb2_grpc.EtcdStub(channel)
        try:
            noise = random.Random(7)

            async def fill() -> None:
                revision = 0
                for _ in range(200):  # one key, and a long history of it
                    write = Write([Compare("/full", revision)], [Put("/full", noise.randbytes(100_000))])
                    revision = (await store.commit(write)).revision

            with pytest.raises(errors.ServiceUnavailableError, match="wharf etcd disarm"):
                await fill()
            status = await stub.Status(etcd_v1_pb2.EtcdStatusRequest())
            (member,) = status.members
            assert list(member.alarms) == ["NOSPACE"]
            assert member.leader
            assert member.endpoint == etcd.endpoint
            assert member.version.startswith("3.")
            assert member.db_size > 4 << 20
            compacted = await stub.Compact(etcd_v1_pb2.EtcdCompactRequest())
            assert compacted.revision == await store.revision() - 1
            (result,) = [result async for result in stub.Defrag(etcd_v1_pb2.EtcdDefragRequest())]
            assert not result.error
            assert result.size_after < result.size_before / 2
            disarmed = await stub.Disarm(etcd_v1_pb2.EtcdDisarmRequest())
            assert [text.partition(" ")[0] for text in disarmed.alarms] == ["NOSPACE"]
            await create(store, "/after")
            assert verbs == ["get", "update", "update", "update"]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Disarm(etcd_v1_pb2.EtcdDisarmRequest(), metadata=(("x-user", "nobody"),))
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        finally:
            await channel.close()
            await server.stop(None)
            await making.close()


async def test_a_member_that_does_not_answer_is_named(make: Making) -> None:
    dead = f"127.0.0.1:{free_ports(1)[0]}"
    store = Store(EtcdConfig(endpoints=(dead, make.etcd.endpoint)))
    await store.start()
    status = await maintenance.status(store)
    assert [(member.endpoint, bool(member.error)) for member in status.members] == [
        (dead, True),
        (make.etcd.endpoint, False),
    ]
    results = [result async for result in maintenance.defragment(store)]
    assert [result.error != "" for result in results] == [True]
    await store.stop()
