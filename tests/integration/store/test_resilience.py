"""The cache while etcd dies, comes back, is compacted, stalls, is replaced; over TLS and over several members."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest

from controlplane.apiserver.store import Cache, Compare, EtcdConfig, EventType, Put, Resource, Store, Write
from controlplane.apiserver.store.watcher import Watcher
from tests.integration.store.helpers import PODS, Making, change, collect, create, delete, pods_resource, until
from tests.support.etcd import Etcd, cluster, free_ports
from tests.support.proxy import Proxy
from wharfinger.api import errors
from wharfinger.proto.etcd import rpc_pb2

EVENTS = 3000


async def follow(cache: Cache, seen: list[Any], since: int) -> None:
    """A client that resumes where it broke off."""
    while True:
        try:
            watcher = await cache.watch(PODS, since=since)
            async with watcher:
                async for batch in watcher:
                    seen += batch
                    since = batch[-1].revision
            return
        except errors.ExpiredError:
            pytest.fail("a watch was closed with 410 although no history was lost")


@pytest.mark.parametrize("group_commit_max", [100, 1])
async def test_no_event_is_lost_while_etcd_is_killed_again_and_again(make: Making, group_commit_max: int) -> None:
    store = await make.store(group_commit_max=group_commit_max, patience=30.0)
    caches = [await make.cache(store), await make.cache(await make.store(patience=30.0))]
    start = await store.revision()
    seen: list[list[Any]] = [[], []]
    following = [asyncio.create_task(follow(cache, seen[n], start)) for n, cache in enumerate(caches)]
    acknowledged: list[tuple[int, str, bytes | None]] = []

    async def write(worker: int, count: int) -> None:
        key, revision = f"{PODS}a/{worker}", 0
        for number in range(count):
            if number % 10 == 9:
                revision = await delete(store, key, revision)
                acknowledged.append((revision, key, None))
                revision = 0
            else:
                value = b"%d of %d" % (number, worker)
                revision = await change(store, key, revision, value)
                acknowledged.append((revision, key, value))

    async def kill() -> None:
        for part in range(1, 5):
            await until(lambda part=part: len(acknowledged) >= part * EVENTS / 5, seconds=60)
            await asyncio.to_thread(make.etcd.restart)

    async with asyncio.timeout(120):
        await asyncio.gather(kill(), *(write(worker, EVENTS // 30) for worker in range(30)))
    assert len(acknowledged) == EVENTS
    assert await store.revision() == max(revision for revision, _, _ in acknowledged)
    acknowledged.sort()
    for cache, events in zip(caches, seen, strict=True):
        await cache.fresh()
        await until(lambda events=events: len(events) >= EVENTS)
        history = [
            (event.revision, event.entry.key, None if event.type is EventType.DELETED else event.entry.value)
            for event in events
        ]
        assert [revision for revision, _, _ in history] == [revision for revision, _, _ in acknowledged]
        assert sorted(history) == acknowledged
        assert all(event.entry.mod_revision == event.revision for event in events)
    one, two = ([(e.key, e.value, e.mod_revision) for e in cache.list(PODS).entries] for cache in caches)
    assert one == two
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


async def test_compaction_beyond_the_position_is_410_and_a_fresh_list(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = Store(EtcdConfig(endpoints=(proxy.address,)))
        await store.start()
        cache = Cache(store, bookmark_period=0.3, progress_timeout=1.0)
        cache.register(pods_resource())
        stays = await create(direct, PODS + "a/stays")
        goes = await create(direct, PODS + "a/goes")
        await cache.start()
        watcher = await cache.watch(PODS)
        proxy.set("down")
        await until(lambda: store.client.lost)
        await delete(direct, PODS + "a/goes", goes)
        new = await change(direct, PODS + "a/stays", stays, b"changed")
        for number in range(5):
            new = await create(direct, f"{PODS}b/{number}")
        await direct.client.compact(new)
        proxy.set("forward")
        with pytest.raises(errors.ExpiredError):
            await anext(watcher)
        await cache.fresh()
        listing = cache.list(PODS)
        assert [entry.key for entry in listing.entries] == [PODS + "a/stays", *(f"{PODS}b/{n}" for n in range(5))]
        assert listing.entries[0].value == b"changed"
        # Whoever lists now can watch from there, although nothing has been written since.
        resumed = await cache.watch(PODS, since=listing.revision)
        later = await create(direct, PODS + "c/later")
        assert [event.revision for event in await collect(resumed, bool)] == [later]
        with pytest.raises(errors.ExpiredError):
            await cache.watch(PODS, since=stays)
        await cache.stop()
        await store.stop()


async def test_a_cache_that_starts_after_a_compaction_to_the_newest_revision(make: Making) -> None:
    store = await make.store()
    revision = await create(store, PODS + "a/one")
    await store.client.compact(revision)
    cache = await make.cache(store)
    listing = cache.list(PODS)
    assert listing.revision == revision
    watcher = await cache.watch(PODS, since=listing.revision)
    later = await create(store, PODS + "a/two")
    assert [event.revision for event in await collect(watcher, bool)] == [later]


class SilentWatch:
    """Opens streams that never say anything."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.opened = 0

    def Watch(self, **options: Any) -> Any:  # noqa: N802
        self.opened += 1
        stream = self.real.Watch(**options)
        if self.opened > 1:
            return stream

        class Stream:
            def __init__(self) -> None:
                self.asleep: asyncio.Task[None] | None = None

            async def write(self, _: Any) -> None:
                self.asleep = asyncio.create_task(asyncio.sleep(3600))

            def __aiter__(self) -> Any:
                return self

            async def __anext__(self) -> Any:
                assert self.asleep is not None
                await self.asleep

            def cancel(self) -> None:
                if self.asleep is not None:
                    self.asleep.cancel()

        return Stream()


async def test_a_silent_stream_is_opened_again(make: Making) -> None:
    store = await make.store()
    endpoint = store.client.endpoints[0]
    silent = endpoint.watch = SilentWatch(endpoint.watch)
    cache = await make.cache(store, start=False)
    starting = asyncio.create_task(cache.start())
    await create(await make.store(), PODS + "a/one")
    await asyncio.wait_for(starting, 20)
    await cache.fresh()
    assert cache.get(PODS + "a/one") is not None
    assert silent.opened == 2


async def test_a_cache_waits_for_an_etcd_that_is_not_there_yet() -> None:
    ports = free_ports(2)
    etcd = Etcd(ports=(ports[0], ports[1]))
    making = Making(etcd)
    try:
        store = await making.store(timeout=0.5, patience=1.0)
        cache = await making.cache(store, start=False)
        starting = asyncio.create_task(cache.start())
        await until(lambda: store.client.lost)
        assert not cache.ready
        with pytest.raises(errors.ServiceUnavailableError):
            await store.commit(Write([Compare("/early", 0)], [Put("/early", b"x")]))
        await asyncio.to_thread(etcd.start)
        await asyncio.wait_for(starting, 30)
        assert cache.ready
        await create(store, PODS + "a/one")
        await cache.fresh()
        assert cache.get(PODS + "a/one") is not None
    finally:
        await making.close()
        etcd.stop()


async def test_a_paused_etcd_makes_the_cache_stale_and_is_logged_once(
    make: Making, caplog: pytest.LogCaptureFixture
) -> None:
    store = await make.store(timeout=0.5, patience=1.0)
    cache = await make.cache(store, bookmark_period=0.1, progress_timeout=0.5)
    watcher = await cache.watch(PODS, bookmarks=True)
    await anext(watcher)
    make.etcd.pause()
    try:
        await until(lambda: cache.stale_seconds > 2)
        with pytest.raises((errors.ServiceUnavailableError, errors.TimeoutError_)):
            await cache.fresh(timeout=0.5)
        assert not cache.ready
    finally:
        make.etcd.resume()
    await until(lambda: cache.ready)
    await create(store, PODS + "a/one")
    await collect(watcher, lambda events: any(event.type is EventType.ADDED for event in events))
    lines = [record.message for record in caplog.records if "does not answer" in record.message]
    assert len(lines) == 1


async def test_an_etcd_with_an_older_state_is_listed_anew(make: Making) -> None:
    store = await make.store()
    for number in range(20):
        await create(store, f"{PODS}a/{number}")
    cache = await make.cache(store)
    watcher = await cache.watch(PODS)
    make.etcd.kill()
    shutil.rmtree(make.etcd.folder / "data")
    await asyncio.to_thread(make.etcd.start)
    other = await make.store()
    await create(other, PODS + "a/only")
    with pytest.raises(errors.ExpiredError):
        await asyncio.wait_for(anext(watcher), 20)
    await cache.fresh()
    assert [entry.name for entry in cache.list(PODS).entries] == ["only"]
    assert cache.revision == await other.revision()


async def test_an_etcd_restored_to_an_older_state_is_noticed_though_it_has_come_further(make: Making) -> None:
    """The revisions that the restored etcd lost are given to other changes before anybody looks."""
    direct = await make.store()
    await create(direct, PODS + "a/stays")
    async with Proxy(make.etcd.endpoint) as proxy:
        store = Store(EtcdConfig(endpoints=(proxy.address,), timeout=1.0, patience=30.0))
        await store.start()
        cache = Cache(store, bookmark_period=0.3, progress_timeout=1.0)
        cache.register(pods_resource())
        await cache.start()
        data, older = make.etcd.folder / "data", make.etcd.folder / "older"
        make.etcd.terminate()
        shutil.copytree(data, older)
        await asyncio.to_thread(make.etcd.start)
        await create(direct, PODS + "a/forgotten")
        await cache.fresh()
        watcher = await cache.watch(PODS, since=cache.revision)
        proxy.set("down")
        await until(lambda: store.client.lost)
        make.etcd.kill()
        shutil.rmtree(data)
        older.rename(data)
        await asyncio.to_thread(make.etcd.start)
        for number in range(5):
            await create(direct, f"{PODS}b/{number}")
        assert await direct.revision() > cache.revision, "the test needs an etcd that has come further"
        proxy.set("forward")
        with pytest.raises(errors.ExpiredError):
            await asyncio.wait_for(anext(watcher), 20)
        await cache.fresh()
        expected = [PODS + "a/stays", *(f"{PODS}b/{number}" for number in range(5))]
        assert [entry.key for entry in cache.list(PODS).entries] == expected
        await cache.stop()
        await store.stop()


async def test_no_read_shows_the_state_before_a_restore(make: Making) -> None:
    store = await make.store()
    await create(store, PODS + "a/stays")
    cache = await make.cache(store, bookmark_period=60.0)
    data, older = make.etcd.folder / "data", make.etcd.folder / "older"
    make.etcd.terminate()
    shutil.copytree(data, older)
    await asyncio.to_thread(make.etcd.start)
    for number in range(5):
        await create(store, f"{PODS}b/{number}")
    await cache.fresh()
    make.etcd.kill()
    shutil.rmtree(data)
    older.rename(data)
    await asyncio.to_thread(make.etcd.start)
    await cache.fresh()
    assert [entry.key for entry in cache.list(PODS).entries] == [PODS + "a/stays"]


async def test_tls_with_client_certificates() -> None:
    with Etcd(tls=True) as etcd:
        assert etcd.tls is not None
        config = EtcdConfig(
            endpoints=(etcd.endpoint,),
            ca_file=str(etcd.tls.ca),
            cert_file=str(etcd.tls.cert),
            key_file=str(etcd.tls.key),
        )
        store = Store(config)
        await store.start()
        cache = Cache(store)
        cache.register(pods_resource())
        await cache.start()
        await create(store, PODS + "a/one")
        await cache.fresh()
        assert cache.get(PODS + "a/one") is not None
        await cache.stop()
        await store.stop()
        stranger = Store(EtcdConfig(endpoints=(etcd.endpoint,), ca_file=str(etcd.tls.ca), patience=0.5))
        await stranger.start()
        with pytest.raises(errors.ServiceUnavailableError):
            await stranger.get("/x")
        await stranger.stop()
        with pytest.raises(FileNotFoundError):
            await Store(EtcdConfig(endpoints=(etcd.endpoint,), ca_file="no-such-file")).start()


def test_a_configuration_that_cannot_work_is_refused() -> None:
    for endpoints in ((), ("http://127.0.0.1:2379",), ("127.0.0.1",)):
        with pytest.raises(ValueError, match="endpoint"):
            EtcdConfig(endpoints=endpoints)
    with pytest.raises(ValueError, match="key file"):
        EtcdConfig(cert_file="a.crt")


async def watched(store: Store) -> tuple[Cache, Watcher]:
    """Start a store, and a cache on it with a watch of all pods."""
    await store.start()
    cache = Cache(store, bookmark_period=0.5, progress_timeout=2.0)
    cache.register(Resource(PODS, "pods"))
    await cache.start()
    return cache, await cache.watch(PODS)


async def test_the_death_of_the_member_in_use_is_survived() -> None:
    members = await asyncio.to_thread(cluster, 3)
    store = Store(EtcdConfig(endpoints=tuple(member.endpoint for member in members), timeout=2.0, patience=20.0))
    try:
        cache, watcher = await watched(store)
        for number in range(30):
            if number == 10:
                used = store.client.endpoint.address
                next(member for member in members if member.endpoint == used).kill()
            await create(store, f"{PODS}a/{number}")
        events = await asyncio.wait_for(collect(watcher, lambda events: len(events) == 30), 30)
        assert [event.entry.name for event in events] == [str(number) for number in range(30)]
        await cache.stop()
        await store.stop()
    finally:
        for member in members:
            member.stop()


async def leader_of(store: Store) -> str:
    """Return the endpoint of etcd's leader."""
    for endpoint in store.client.endpoints:
        status = await endpoint.maintenance.Status(rpc_pb2.StatusRequest(), timeout=5)
        if status.leader == status.header.member_id:
            return endpoint.address
    raise AssertionError("etcd has no leader")


@pytest.mark.parametrize(("way", "where"), [("kill", "follower"), ("pause", "leader")])
async def test_a_new_leader_is_found_and_nothing_happens_twice(way: str, where: str) -> None:
    """What was with the lost leader is settled elsewhere; each acknowledged write happened, once and in its order."""
    members = await asyncio.to_thread(cluster, 3)
    store = Store(EtcdConfig(endpoints=tuple(member.endpoint for member in members), patience=60.0))
    tasks: list[asyncio.Task[None]] = []
    try:
        cache, watcher = await watched(store)
        first = await leader_of(store)
        lost = next(member for member in members if member.endpoint == first)
        at = next(one for one in store.client.endpoints if (one.address == first) == (where == "leader"))
        store.client.prefer(at)
        acknowledged: dict[str, list[int]] = {f"{PODS}a/{number}": [] for number in range(8)}
        times: list[float] = []
        going = True

        async def write(key: str) -> None:
            revision = 0
            while going:
                begun = asyncio.get_running_loop().time()
                revision = await change(store, key, revision, b"%d" % len(acknowledged[key]))
                acknowledged[key].append(revision)
                times.append(asyncio.get_running_loop().time() - begun)
                await asyncio.sleep(0.002)

        tasks += [asyncio.create_task(write(key)) for key in acknowledged]

        async def further(count: int) -> None:
            wanted = {key: len(done) + count for key, done in acknowledged.items()}
            await until(lambda: all(len(acknowledged[key]) >= wanted[key] for key in wanted), seconds=60)

        await further(5)
        times.clear()
        lost.kill() if way == "kill" else lost.pause()
        await further(20)
        print(f"\netcd's leader lost ({way}, connected to the {where}): the longest write took {max(times):.2f} s")
        if way == "pause":
            lost.resume()  # it may now pass on what it was sent
            await further(20)
        going = False
        await asyncio.gather(*tasks)
        count = sum(map(len, acknowledged.values()))
        events = await asyncio.wait_for(collect(watcher, lambda events: len(events) >= count), 60)
        await cache.fresh()
        seen: dict[str, list[int]] = {key: [] for key in acknowledged}
        for event in events:
            assert event.entry.value == b"%d" % len(seen[event.entry.key])
            seen[event.entry.key].append(event.revision)
        assert seen == acknowledged
        assert {entry.key: entry.mod_revision for entry in cache.list(PODS).entries} == {
            key: done[-1] for key, done in acknowledged.items()
        }
        await cache.stop()
        await store.stop()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for member in members:
            member.stop()
