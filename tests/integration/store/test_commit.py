"""Group commit against a real etcd: independence of members, refusals, lost answers."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from controlplane.apiserver.store import Committed, Compare, CompareFailed, EtcdConfig, Put, Store, Write
from controlplane.apiserver.store.failures import Unanswered
from tests.integration.store.helpers import Making, change, create, delete, until
from tests.support.etcd import Etcd
from tests.support.proxy import Proxy
from wharfinger.api import errors


def put(key: str, value: bytes = b"x", *, at: int = 0, ttl: int = 0) -> Write:
    return Write([Compare(key, at)], [Put(key, value, ttl)])


async def test_members_of_a_group_share_a_revision_and_not_their_fate(make: Making) -> None:
    store = await make.store()
    taken = await create(store, "/k/7", b"taken")
    results = await asyncio.gather(*(store.commit(put(f"/k/{n}")) for n in range(60)), return_exceptions=True)
    failed = [n for n, result in enumerate(results) if isinstance(result, CompareFailed)]
    assert failed == [7]
    current = results[7].current["/k/7"]
    assert (current.value, current.mod_revision, current.version) == (b"taken", taken, 1)
    revisions = [result.revision for result in results if isinstance(result, Committed)]
    assert len(set(revisions)) < len(revisions) / 4  # grouped
    for number, result in enumerate(results):
        if isinstance(result, Committed):
            assert (await store.get(f"/k/{number}")).mod_revision == result.revision


async def test_without_grouping_every_write_has_its_own_revision(make: Making) -> None:
    store = await make.store(group_commit_max=1)
    results = await asyncio.gather(*(store.commit(put(f"/k/{n}")) for n in range(60)))
    assert len({result.revision for result in results}) == 60
    with pytest.raises(ValueError, match="group-commit-max"):
        await make.store(group_commit_max=0)


async def test_one_key_written_by_many_at_once_has_one_winner(make: Making) -> None:
    for store in (await make.store(), await make.store(group_commit_max=1)):
        key = f"/hot/{id(store)}"
        results = await asyncio.gather(*(store.commit(put(key, b"%d" % n)) for n in range(30)), return_exceptions=True)
        winners = [n for n, result in enumerate(results) if isinstance(result, Committed)]
        assert len(winners) == 1
        for result in results:
            if isinstance(result, CompareFailed):
                assert result.current[key].value == b"%d" % winners[0]


async def test_a_compare_in_a_group_never_passes_a_write_of_the_same_group(make: Making) -> None:
    """Two guards, each written by who compares the other: at most one of the two may win (no write skew)."""
    store = await make.store()
    for turn in range(20):
        one, two = f"/guard/{turn}/1", f"/guard/{turn}/2"
        results = await asyncio.gather(
            store.commit(Write([Compare(one, 0), Compare(two, 0)], [Put(one, b"1")])),
            store.commit(Write([Compare(one, 0), Compare(two, 0)], [Put(two, b"2")])),
            store.commit(put(f"/filler/{turn}")),
            return_exceptions=True,
        )
        assert sum(isinstance(result, Committed) for result in results[:2]) == 1
        loser = next(result for result in results if isinstance(result, CompareFailed))
        assert set(loser.current) == {one, two}
        assert sum(kv is not None for kv in loser.current.values()) == 1


async def test_a_key_that_is_only_compared_is_shared_by_a_group(make: Making) -> None:
    store = await make.store()
    fence = await create(store, "/fence")
    writes = [Write([Compare("/fence", fence), Compare(f"/w/{n}", 0)], [Put(f"/w/{n}", b"x")]) for n in range(50)]
    results = await asyncio.gather(*(store.commit(write) for write in writes))
    assert len({result.revision for result in results}) < 15
    await change(store, "/fence", fence, b"next term")
    results = await asyncio.gather(
        *(store.commit(Write([Compare("/fence", fence)], [Put(f"/w/{n}", b"late")])) for n in range(20)),
        return_exceptions=True,
    )
    assert all(isinstance(result, CompareFailed) for result in results)
    assert (await store.get("/w/3")).value == b"x"


async def test_a_write_of_several_keys_is_all_or_nothing(make: Making) -> None:
    store = await make.store()
    old = await create(store, "/m/old")
    done = await store.commit(
        Write([Compare("/m/old", old), Compare("/m/a", 0)], [Put("/m/a", b"1"), Put("/m/b", b"2")], ["/m/old"])
    )
    assert (await store.get("/m/a")).mod_revision == (await store.get("/m/b")).mod_revision == done.revision
    assert await store.get("/m/old") is None
    with pytest.raises(CompareFailed) as failed:
        await store.commit(Write([Compare("/m/a", done.revision), Compare("/m/old", old)], [Put("/m/c", b"3")]))
    assert failed.value.current["/m/old"] is None
    assert await store.get("/m/c") is None


async def test_one_member_too_large_does_not_harm_its_neighbours(make: Making) -> None:
    store = await make.store()
    values = [b"x" * 100] * 10 + [b"y" * 2_000_000] + [b"z" * 900_000] * 3 + [b"x"] * 10
    results = await asyncio.gather(
        *(store.commit(put(f"/s/{n}", value)) for n, value in enumerate(values)), return_exceptions=True
    )
    assert isinstance(results[10], errors.RequestTooLargeError)
    assert all(isinstance(result, Committed) for n, result in enumerate(results) if n != 10)
    with pytest.raises(errors.RequestTooLargeError):
        await store.commit(Write(puts=[Put(f"/many/{n}", b"") for n in range(200)]))


async def test_lazy_writes_go_together(make: Making) -> None:
    store = await make.store(lazy_tick=0.05)
    tasks = []
    for number in range(20):
        tasks.append(asyncio.create_task(store.commit(put(f"/lazy/{number}"), lazy=True)))
        await asyncio.sleep(0)
    assert len({done.revision for done in await asyncio.gather(*tasks)}) == 1


async def test_keys_with_a_time_to_live_share_leases_and_outlive_a_lost_lease(make: Making) -> None:
    store = await make.store()
    for number in range(10):
        await store.commit(put(f"/events/{number}", ttl=3600))
    leases = {(await store.get(f"/events/{number}")).lease for number in range(10)}
    assert len(leases) == 1
    lease = leases.pop()
    shown = await asyncio.to_thread(make.etcd.ctl, "lease", "timetolive", f"{lease:x}")
    assert "granted with TTL(3780s)" in shown
    await asyncio.to_thread(make.etcd.ctl, "lease", "revoke", f"{lease:x}")
    results = await asyncio.gather(
        store.commit(put("/events/after", ttl=3600)), *(store.commit(put(f"/plain/{n}")) for n in range(5))
    )
    assert all(isinstance(result, Committed) for result in results)
    assert (await store.get("/events/after")).lease not in (0, lease)


async def test_a_short_time_to_live_ends(make: Making) -> None:
    store, cache = await make.store(), await make.cache()
    watcher = await cache.watch("/registry/pods/")
    await store.commit(put("/registry/pods/a/brief", b"value", ttl=1))
    events = []
    async with asyncio.timeout(20):
        async for batch in watcher:
            events += [(event.type.name, event.entry.value) for event in batch]
            if len(events) == 2:
                break
    assert events == [("ADDED", b"value"), ("DELETED", b"value")]


async def test_the_space_alarm_is_a_clear_error_and_deletes_still_pass() -> None:
    with Etcd(arguments=("--quota-backend-bytes", str(4 << 20))) as etcd:
        making = Making(etcd)
        try:
            store = await making.store()
            keys: dict[str, int] = {}
            full: list[BaseException] = []
            noise = random.Random(7)
            for turn in range(60):
                batch = {f"/full/{turn}-{n}": noise.randbytes(60_000) for n in range(4)}
                results = await asyncio.gather(
                    *(store.commit(put(key, value)) for key, value in batch.items()), return_exceptions=True
                )
                for key, result in zip(batch, results, strict=True):
                    if isinstance(result, Committed):
                        keys[key] = result.revision
                    else:
                        assert isinstance(result, BaseException)
                        full.append(result)
                if full:
                    break
            assert full, "the quota was never reached"
            for error in full:
                assert isinstance(error, errors.ServiceUnavailableError)
                assert "wharf etcd compact" in str(error)
                assert "wharf etcd disarm" in str(error)
            if etcd.version in ("3.5.0", "3.5.1"):
                pytest.skip(f"etcd {etcd.version} refuses transactions of deletes, too, when it is full")
            # Deletes and puts at once: the deletes pass, whatever they were grouped with.
            doomed = list(keys)[:10]
            results = await asyncio.gather(
                *(store.commit(Write([Compare(key, keys[key])], deletes=[key])) for key in doomed),
                *(store.commit(put(f"/late/{n}")) for n in range(5)),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [Committed] * 10 + [errors.ServiceUnavailableError] * 5
            assert await store.get(doomed[0]) is None
        finally:
            await making.close()


# -- lost answers -----------------------------------------------------------------------------------------------------


async def proxied(proxy: Proxy, *, patience: float = 10.0) -> Store:
    store = Store(EtcdConfig(endpoints=(proxy.address,), timeout=2.0, patience=patience))
    await store.start()
    await store.revision()
    return store


async def happened(direct: Store, key: str, value: bytes) -> int:
    """Wait until another store sees a write, and return its revision."""
    async with asyncio.timeout(20):
        while (found := await direct.get(key)) is None or found.value != value:
            await asyncio.sleep(0.01)
    return found.mod_revision


async def test_a_write_whose_answer_is_lost_has_happened_once(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        await create(store, "/before")
        proxy.set("swallow")
        writes = [asyncio.create_task(store.commit(put(f"/lost/{n}", b"value %d" % n))) for n in range(20)]
        for number in range(20):
            await happened(direct, f"/lost/{number}", b"value %d" % number)
        proxy.set("down")
        proxy.set("forward")
        for number, done in enumerate(await asyncio.gather(*writes)):
            found = await direct.get(f"/lost/{number}")
            assert (found.mod_revision, found.version, found.value) == (done.revision, 1, b"value %d" % number)
        await store.stop()


async def test_a_write_that_never_arrived_is_sent_again(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        first = await create(store, "/again/a")
        proxy.set("cut")
        writes = [
            asyncio.create_task(store.commit(write))
            for write in (put("/again/a", b"new", at=first), put("/again/b"), Write([Compare("/no", 0)], deletes=[]))
        ]
        await proxy.lost.wait()
        proxy.set("forward")
        results = await asyncio.gather(*writes)
        found = await direct.get("/again/a")
        assert (found.mod_revision, found.version, found.value) == (results[0].revision, 2, b"new")
        assert (await direct.get("/again/b")).version == 1
        await store.stop()


@pytest.mark.parametrize("mode", ["swallow", "cut"])
async def test_a_lost_write_with_a_key_that_it_does_not_compare_happens_once(make: Making, mode: str) -> None:
    """As a bind: the pod is compared, its node's guard only moved."""
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        pod = await create(store, "/bind/pod", b"pending")
        proxy.set(mode)
        bind = Write([Compare("/bind/pod", pod)], [Put("/bind/pod", b"bound"), Put("/bind/guard", b"pod")])
        ours = asyncio.create_task(store.commit(bind))
        if mode == "swallow":
            first = await happened(direct, "/bind/pod", b"bound")
            guard = await direct.get("/bind/guard")
            await change(direct, "/bind/guard", guard.mod_revision, b"theirs")
            proxy.set("down")
            proxy.set("forward")
            assert (await ours).revision == first
            assert (await direct.get("/bind/guard")).value == b"theirs"
        else:
            await proxy.lost.wait()
            proxy.set("forward")
            done = await ours
            assert (await direct.get("/bind/guard")).mod_revision == done.revision
        assert (await direct.get("/bind/pod")).version == 2
        await store.stop()


async def test_a_lost_answer_is_found_although_others_wrote_since(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        base = await create(store, "/since/changed", b"first")
        proxy.set("swallow")
        changed = asyncio.create_task(store.commit(put("/since/changed", b"ours", at=base)))
        created = asyncio.create_task(store.commit(put("/since/deleted", b"ours too")))
        first = await happened(direct, "/since/changed", b"ours")
        second = await happened(direct, "/since/deleted", b"ours too")
        await change(direct, "/since/changed", first, b"theirs")
        await delete(direct, "/since/deleted", second)
        proxy.set("down")
        proxy.set("forward")
        assert (await changed).revision == first
        assert (await created).revision == second
        # Not written a second time, although the key was absent again.
        assert await direct.get("/since/deleted") is None
        assert (await direct.get("/since/changed")).value == b"theirs"
        await store.stop()


async def test_a_lost_write_whose_history_is_compacted_is_not_written_again(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        await create(store, "/compacted/before")
        proxy.set("swallow")
        ours = asyncio.create_task(store.commit(put("/compacted/x", b"ours")))
        await delete(direct, "/compacted/x", await happened(direct, "/compacted/x", b"ours"))
        newest = await create(direct, "/compacted/after")
        await direct.client.compact(newest)
        proxy.set("down")
        proxy.set("forward")
        with pytest.raises(errors.TimeoutError_, match="may or may not have happened"):
            await ours
        assert await direct.get("/compacted/x") is None
        await store.stop()


async def test_a_write_that_never_arrived_loses_to_one_that_came_between(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        await create(store, "/before")
        proxy.set("cut")
        ours = asyncio.create_task(store.commit(put("/between", b"ours")))
        await proxy.lost.wait()
        await create(direct, "/between", b"theirs")
        proxy.set("forward")
        with pytest.raises(CompareFailed) as failed:
            await ours
        assert failed.value.current["/between"].value == b"theirs"
        await store.stop()


async def test_a_lost_write_that_compares_nothing_happens_once(make: Making) -> None:
    direct = await make.store()
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy)
        await create(store, "/before")
        proxy.set("cut")
        blind = asyncio.create_task(store.commit(Write(puts=[Put("/blind", b"value")])))
        await proxy.lost.wait()
        proxy.set("forward")
        done = await blind
        found = await store.get("/blind")
        assert (found.mod_revision, found.version) == (done.revision, 1)
        proxy.set("swallow")
        seen = asyncio.create_task(store.commit(Write(puts=[Put("/blind/seen", b"value")])))
        await happened(direct, "/blind/seen", b"value")
        proxy.set("down")
        proxy.set("forward")
        found = await store.get("/blind/seen")
        assert ((await seen).revision, found.version) == (found.mod_revision, 1)
        await store.stop()


@pytest.mark.parametrize("others", [0, 5])
async def test_a_copy_that_arrives_after_all_changes_nothing(
    make: Making, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """A stopped leader may pass on seconds later what it was sent, when the key is absent again as at first."""
    store = await make.store()
    await create(store, "/before")
    endpoint, real, late = store.client.endpoint, store.client.txn, []

    async def lose(request: bytes) -> Any:
        if not late:
            late.append(request)
            raise Unanswered("the leader is gone")
        return await real(request)

    monkeypatch.setattr(store.client, "txn", lose)
    done, *_ = await asyncio.gather(
        store.commit(put("/ghost/x", b"once")), *(store.commit(put(f"/ghost/{n}")) for n in range(others))
    )
    assert (await store.get("/ghost/x")).mod_revision == done.revision
    await delete(store, "/ghost/x", done.revision)
    answer = await endpoint.txn(late[0], timeout=5)
    assert not answer.succeeded
    assert await store.get("/ghost/x") is None
    await create(store, "/after")


async def test_a_guard_whose_own_answer_was_lost_holds_nothing_up(
    make: Making, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    store = await make.store(patience=0.3)
    await create(store, "/before")
    real, lost = store.client.txn, []

    async def lose(request: bytes) -> Any:
        if len(lost) < 2:
            lost.append(request)
            if len(lost) == 2:  # the guard
                await real(request)
                store.client.config = replace(store.client.config, timeout=0.01)
            raise Unanswered("no answer")
        return await real(request)

    monkeypatch.setattr(store.client, "txn", lose)
    monkeypatch.setattr(store.client, "history", stuck)
    with pytest.raises(errors.TimeoutError_, match="may or may not have happened"):
        await store.commit(put("/unknown"))
    monkeypatch.undo()
    store.client.config = replace(store.client.config, timeout=2.0)
    for number in range(3):
        await create(store, f"/after/{number}")


async def stuck(_: int) -> Any:
    raise Unanswered("no history")


async def test_etcd_away_for_too_long_is_503_or_504(make: Making) -> None:
    async with Proxy(make.etcd.endpoint) as proxy:
        store = await proxied(proxy, patience=1.0)
        await create(store, "/before")
        proxy.set("cut")
        sent = asyncio.create_task(store.commit(put("/away/sent")))
        await until(lambda: store.client.lost)
        queued = asyncio.create_task(store.commit(put("/away/queued")))
        with pytest.raises(errors.TimeoutError_):
            await sent
        with pytest.raises(errors.ServiceUnavailableError, match="nothing was written"):
            await queued
        with pytest.raises(errors.ServiceUnavailableError, match="does not answer"):
            await store.get("/before")
        proxy.set("forward")
        await create(store, "/away/after")
        await store.stop()


async def test_callers_that_gave_up_do_not_hold_up_others(make: Making) -> None:
    store = await make.store()
    tasks = [asyncio.create_task(store.commit(put(f"/gone/{n}"))) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, Committed) for result in results[1::2])
    await create(store, "/gone/after")
