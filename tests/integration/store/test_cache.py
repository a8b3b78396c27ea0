"""The watch cache over a real etcd."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.apiserver.store import Compare, EventType, Put, Resource, WindowLimits, Write
from tests.integration.store.helpers import PODS, Making, change, collect, create, delete
from wharfinger.api import errors


async def test_list_get_and_watch_show_what_was_written(make: Making) -> None:
    store = await make.store()
    first = await create(store, PODS + "a/one", b"node=n1")
    cache = await make.cache(store)
    watcher = await cache.watch(PODS, since=cache.revision)
    second = await create(store, PODS + "b/two", b"node=n2")
    third = await change(store, PODS + "a/one", first, b"node=n1 changed")
    fourth = await delete(store, PODS + "b/two", second)
    events = await collect(watcher, lambda events: len(events) == 3)
    assert [(event.type, event.entry.key, event.entry.value, event.revision) for event in events] == [
        (EventType.ADDED, PODS + "b/two", b"node=n2", second),
        (EventType.MODIFIED, PODS + "a/one", b"node=n1 changed", third),
        (EventType.DELETED, PODS + "b/two", b"node=n2", fourth),
    ]
    assert [event.entry.mod_revision for event in events] == [second, third, fourth]
    await cache.fresh()
    listing = cache.list(PODS)
    assert [entry.key for entry in listing.entries] == [PODS + "a/one"]
    assert listing.revision >= fourth
    entry = cache.get(PODS + "a/one")
    assert entry is not None
    assert (entry.namespace, entry.name, entry.decoded) == ("a", "one", "node=n1 changed")


async def test_fresh_sees_a_write_of_another_store(make: Making) -> None:
    cache = await make.cache()
    other = await make.store()
    for number in range(50):
        key = f"{PODS}a/p{number}"
        await create(other, key)
        await cache.fresh()
        assert cache.get(key) is not None


async def test_lists_follow_key_order_namespace_index_and_pages(make: Making) -> None:
    store = await make.store()
    keys = [f"{PODS}{namespace}/p{number}" for namespace in ("a", "a-b", "b") for number in range(4)]
    for number, key in enumerate(keys):
        await create(store, key, b"node=n%d" % (number % 2))
    cache = await make.cache(store)
    assert [entry.key for entry in cache.list(PODS).entries] == sorted(keys)
    assert [entry.key for entry in cache.list(PODS, namespace="a").entries] == sorted(k for k in keys if "/a/" in k)
    found = cache.list(PODS, index=("node", "n1"))
    assert [entry.key for entry in found.entries] == sorted(keys[1::2])
    assert [entry.key for entry in cache.list(PODS, namespace="b", index=("node", "n1")).entries] == sorted(keys[9::2])
    pages, after = [], ""
    while True:
        page = cache.list(PODS, start_after=after, limit=5)
        pages.append([entry.key for entry in page.entries])
        if not page.remaining:
            break
        assert page.remaining == len(keys) - sum(map(len, pages))
        after = page.entries[-1].key
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [key for page in pages for key in page] == sorted(keys)
    with pytest.raises(LookupError):
        cache.list(PODS, index=("nope", "x"))


async def test_reads_at_a_revision_from_the_window_and_from_etcd(make: Making) -> None:
    store = await make.store()
    revision = await create(store, PODS + "a/one", b"1")
    gone = await create(store, PODS + "a/two", b"2")
    await create(store, PODS + "b/three", b"3")
    pinned = await store.revision()
    await change(store, PODS + "a/one", revision, b"1 changed")
    await delete(store, PODS + "a/two", gone)
    await create(store, PODS + "a/four", b"4")
    by_window = await make.cache(store)
    by_etcd = await make.cache(store, history=1)
    for cache in (by_window, by_etcd):
        page = await cache.list_at(PODS, pinned, limit=1)
        assert [(entry.key, entry.value, entry.mod_revision) for entry in page.entries] == [
            (PODS + "a/one", b"1", revision)
        ]
        assert page.remaining == 2
        rest = await cache.list_at(PODS, pinned, start_after=page.entries[-1].key, limit=10)
        assert [(entry.key, entry.value) for entry in rest.entries] == [
            (PODS + "a/two", b"2"),
            (PODS + "b/three", b"3"),
        ]
        assert rest.remaining == 0
        inside = await cache.list_at(PODS, pinned, namespace="a")
        assert [entry.value for entry in inside.entries] == [b"1", b"2"]
    await store.client.compact(await store.revision())
    with pytest.raises(errors.ExpiredError):
        await by_etcd.list_at(PODS, pinned)
    with pytest.raises(errors.TimeoutError_, match="Too large resource version"):
        await by_etcd.wait_for(10**9, timeout=0.1)
    assert 10**9 not in by_etcd._freshness.awaited  # a client that asks for what never comes leaves nothing behind


async def test_watch_resumes_from_the_window_and_older_is_410(make: Making) -> None:
    store = await make.store()
    revisions = [await create(store, f"{PODS}a/p{number}") for number in range(20)]
    cache = await make.cache(store, window=WindowLimits(events=10), history=1000)
    watcher = await cache.watch(PODS, since=revisions[14])
    events = await collect(watcher, lambda events: len(events) == 5)
    assert [event.revision for event in events] == revisions[15:]
    with pytest.raises(errors.ExpiredError, match="too old resource version"):
        await cache.watch(PODS, since=revisions[5])


async def test_a_restarted_cache_resumes_watches_from_before(make: Making) -> None:
    store = await make.store()
    before = await make.cache(store)
    revisions = [await create(store, f"{PODS}a/p{number}") for number in range(20)]
    await delete(store, PODS + "a/p0", revisions[0])
    await before.stop()
    after = await make.cache(await make.store())
    events = await collect(await after.watch(PODS, since=revisions[9]), lambda events: len(events) == 11)
    assert [event.revision for event in events] == [*revisions[10:], revisions[-1] + 1]
    assert events[-1].type is EventType.DELETED
    assert events[-1].entry.value == b"x"


async def test_events_of_a_shared_revision_come_together_and_again_on_resume(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store)
    watcher = await cache.watch(PODS, since=cache.revision)
    done = await asyncio.gather(*(create(store, f"{PODS}a/p{number:02}") for number in range(40)))
    shared = max(set(done), key=done.count)
    assert done.count(shared) > 1
    await collect(watcher, lambda events: len(events) == 40)
    # Another apiserver, whose cache started later, at exactly this revision.
    other = await make.cache(await make.store(), history=1)
    for resumed in (cache, other):
        events = await collect(
            await resumed.watch(PODS, since=shared), lambda events: len(events) == sum(r >= shared for r in done)
        )
        assert sum(event.revision == shared for event in events) == done.count(shared)
    # A revision of one event is not told again.
    single = await create(store, PODS + "a/single")
    later = await create(store, PODS + "a/later")
    events = await collect(await cache.watch(PODS, since=single), bool)
    assert [event.revision for event in events] == [later]


async def test_a_change_into_and_out_of_a_selector_is_added_and_deleted(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store)
    selected = await cache.watch(PODS, matches=lambda entry: "yes" in entry.decoded)
    on_node = await cache.watch(PODS, index=("node", "n1"))
    in_namespace = await cache.watch(PODS, namespace="a")
    named = await cache.watch(PODS, namespace="a", name="one")
    await create(store, PODS + "b/one", b"yes elsewhere")
    revision = await create(store, PODS + "a/one", b"no")
    revision = await change(store, PODS + "a/one", revision, b"yes node=n1")
    left = revision = await change(store, PODS + "a/one", revision, b"no node=n2")
    await delete(store, PODS + "a/one", revision)

    async def kinds(watcher, count):
        events = await collect(watcher, lambda events: len(events) == count)
        return [event.type.name for event in events], events

    names, events = await kinds(selected, 3)
    assert names == ["ADDED", "ADDED", "DELETED"]
    assert events[-1].entry.value == b"yes node=n1"  # the last one that the watcher could see
    assert events[-1].entry.mod_revision == left
    names, events = await kinds(on_node, 2)
    assert names == ["ADDED", "DELETED"]
    for watcher in (in_namespace, named):
        names, _ = await kinds(watcher, 4)
        assert names == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert cache.list(PODS, index=("node", "n1")).entries == []


async def test_initial_events_end_with_a_bookmark(make: Making) -> None:
    store = await make.store()
    for number in range(3):
        await create(store, f"{PODS}a/p{number}")
    cache = await make.cache(store)
    watcher = await cache.watch(PODS, initial=True)
    await create(store, PODS + "a/p3")
    events = await collect(watcher, lambda events: len(events) == 5)
    assert [event.type.name for event in events] == ["ADDED", "ADDED", "ADDED", "BOOKMARK", "ADDED"]
    assert events[3].initial_end
    assert events[3].revision < events[4].revision


async def test_bookmarks_come_after_every_event_up_to_them(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store, bookmark_period=0.05)
    watcher = await cache.watch(PODS, bookmarks=True)
    revision = await create(store, PODS + "a/one")
    events = await collect(
        watcher, lambda events: any(e.type is EventType.BOOKMARK and e.revision >= revision for e in events)
    )
    kinds = [event.type for event in events if event.revision >= revision]
    assert kinds[:2] == [EventType.ADDED, EventType.BOOKMARK]
    assert cache.ready


async def test_a_slow_watcher_ends_with_410_and_holds_up_nobody(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store, queue_limit=50)
    slow = await cache.watch(PODS)
    quick = await cache.watch(PODS)

    async def read() -> int:
        return len(await collect(quick, lambda events: len(events) == 200))

    reading = asyncio.create_task(read())
    for number in range(200):
        await create(store, f"{PODS}a/p{number}")
    assert await reading == 200
    with pytest.raises(errors.ExpiredError, match="too slow"):
        await anext(slow)
    with pytest.raises(StopAsyncIteration):
        await anext(slow)


async def test_other_keys_move_the_revision_and_unclaimed_ones_are_kept(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store)
    await create(store, "/elsewhere/key")
    await create(store, "/wharfinger/nodes/n1", b"guard")
    assert await cache.fresh() == cache.revision
    assert cache.get("/elsewhere/key") is None
    assert cache.get("/wharfinger/nodes/n1").value == b"guard"


async def test_a_resource_registered_while_running_takes_over_its_keys(make: Making) -> None:
    store = await make.store()
    prefix = "/registry/example.org/boats/"
    cache = await make.cache(store)
    revision = await create(store, prefix + "a/one", b"node=n1")
    await create(store, prefix + "a/two", b"node=n2")
    await cache.fresh()
    cache.register(Resource(prefix, "boats.example.org", decode=bytes.decode, indexes={"x": lambda text: [text]}))
    assert [entry.name for entry in cache.list(prefix).entries] == ["one", "two"]
    assert [entry.name for entry in cache.list(prefix, index=("x", "node=n2")).entries] == ["two"]
    events = await collect(await cache.watch(prefix, since=revision), bool)
    assert [event.entry.name for event in events] == ["two"]
    await change(store, prefix + "a/one", revision, b"changed")
    await cache.fresh()
    assert cache.get(prefix + "a/one").decoded == "changed"
    watcher = await cache.watch(prefix)
    cache.unregister(prefix)
    with pytest.raises(errors.ExpiredError):
        await anext(watcher)
    assert cache.get(prefix + "a/one").value == b"changed"


async def test_a_value_that_cannot_be_decoded_is_listed_all_the_same(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store)
    await create(store, PODS + "a/bad", b"\xff\xfe")
    await create(store, PODS + "a/good", b"node=n1")
    await cache.fresh()
    assert [entry.name for entry in cache.list(PODS).entries] == ["bad", "good"]
    assert [entry.name for entry in cache.list(PODS, index=("node", "n1")).entries] == ["good"]


async def test_served_bytes_are_made_once_and_shared(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store)
    watchers = [await cache.watch(PODS) for _ in range(2)]
    await store.commit(Write([Compare(PODS + "a/one", 0)], [Put(PODS + "a/one", b"value")]))
    made: list[str] = []

    def make_bytes(entry) -> bytes:
        made.append(entry.key)
        return b"<" + entry.value + b">"

    events = [(await collect(watcher, bool))[0] for watcher in watchers]
    assert events[0] is events[1]
    entry = cache.get(PODS + "a/one")
    assert {event.entry.served("f", make_bytes) for event in events} | {entry.served("f", make_bytes)} == {b"<value>"}
    assert made == [PODS + "a/one"]


async def test_a_mistake_in_an_extractor_costs_only_the_index(make: Making) -> None:
    store = await make.store()
    cache = await make.cache(store)

    def extract(text: str) -> list[str]:
        return [{"red": "colour"}[text]]

    prefix = "/registry/boats/"
    cache.register(Resource(prefix, "boats", decode=bytes.decode, indexes={"x": extract}))
    watcher = await cache.watch(prefix)
    await create(store, prefix + "a/odd", b"no key of that table")
    await create(store, prefix + "a/red", b"red")
    events = await collect(watcher, lambda events: len(events) == 2)
    assert [event.entry.name for event in events] == ["odd", "red"]
    assert [entry.name for entry in cache.list(prefix).entries] == ["odd", "red"]
    assert [entry.name for entry in cache.list(prefix, index=("x", "colour")).entries] == ["red"]


async def test_a_mistake_while_applying_ends_in_a_new_list(make: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await make.store()
    cache = await make.cache(store)
    watcher = await cache.watch(PODS)
    original = cache.apply
    failures: list[int] = []

    def apply(events) -> None:
        if not failures:
            failures.append(len(events))
            raise RuntimeError("a mistake")
        original(events)

    monkeypatch.setattr(cache, "apply", apply)
    await create(store, PODS + "a/one")
    await cache.fresh()
    assert failures
    assert [entry.name for entry in cache.list(PODS).entries] == ["one"]
    with pytest.raises(errors.ExpiredError):
        await anext(watcher)
