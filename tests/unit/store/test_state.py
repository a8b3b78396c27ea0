"""A resource's state, window and watchers against a plain model, for any history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.store import Entry, EventType, Resource, Watcher, WindowLimits
from controlplane.apiserver.store.entry import Memo
from controlplane.apiserver.store.state import ResourceState
from wharfinger.api import errors

PREFIX = "/registry/pods/"
RESOURCE = Resource(PREFIX, "pods", decode=bytes.decode, indexes={"node": lambda text: [text[:1]]})
KEYS = [f"{PREFIX}{namespace}/{name}" for namespace in ("a", "a-b", "b") for name in ("x", "y", "z-")]

# A history is a list of revisions; each changes some keys, once each: to a value, or to nothing.
histories = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.sampled_from([b"1", b"2", b"12"])), min_size=1),
    max_size=15,
)


class Played:
    """A state that a history was applied to, and what it was at each revision."""

    def __init__(self, history: list[dict[str, bytes | None]], limits: WindowLimits | None = None) -> None:
        self.memo = Memo()
        self.state = ResourceState(RESOURCE, limits or WindowLimits(), 1)
        self.models: list[dict[str, tuple[bytes, int]]] = [{}]
        model: dict[str, tuple[bytes, int]] = {}
        for revision, changes in enumerate(history, 1):
            self.apply(revision, changes)
            for key, value in changes.items():
                if value is None:
                    model.pop(key, None)
                else:
                    model[key] = (value, revision)
            self.models.append(dict(model))

    def apply(self, revision: int, changes: dict[str, bytes | None]) -> None:
        for key, value in changes.items():
            entry = None
            if value is not None:
                entry = Entry(
                    key, value, mod_revision=revision, create_revision=revision, resource=RESOURCE, memo=self.memo
                )
            self.state.apply(key, revision, entry, float("inf"))
        self.state.window.trim()

    def watcher(self, limit: int = 1000, matches: Any = None) -> Watcher:
        return Watcher(
            matches=matches, key_prefix=PREFIX, bookmarks=False, limit=limit, memo=self.memo, on_close=lambda _: None
        )


def shown(entries: list[Entry]) -> dict[str, tuple[bytes, int]]:
    assert [entry.key for entry in entries] == sorted(entry.key for entry in entries)
    return {entry.key: (entry.value, entry.mod_revision) for entry in entries}


@given(histories, st.sampled_from(["", "a", "b"]), st.sampled_from(["", *KEYS]), st.integers(0, 4))
def test_lists_now_and_at_every_past_revision(
    history: list[dict[str, bytes | None]], namespace: str, after: str, limit: int
) -> None:
    played = Played(history)
    for revision, model in enumerate(played.models):
        low = f"{PREFIX}{namespace}/" if namespace else PREFIX
        wanted = {key: value for key, value in sorted(model.items()) if key.startswith(low) and key > after}
        cut = dict(list(wanted.items())[: limit or None])
        found = played.state.select_at(revision, namespace=namespace, start_after=after, limit=limit)
        assert found is not None
        assert shown(found[0]) == cut
        assert found[1] == len(wanted) - len(cut)
    for value in ("1", "2", "3"):
        entries, _ = played.state.select(namespace=namespace, index=("node", value), start_after=after, limit=0)
        assert shown(entries) == {key: pair for key, pair in wanted.items() if pair[0].decode()[0] == value}


def replay(watcher: Watcher, known: dict[str, Any], matches: Any) -> dict[str, Any]:
    """Apply what a watcher is told, without waiting for more."""
    while watcher._queue:
        for event in watcher._take():
            if event.type is EventType.DELETED:
                assert event.entry.mod_revision == event.revision
                known.pop(event.entry.key)
            else:
                assert matches(event.entry)
                assert (event.entry.key in known) == (event.type is EventType.MODIFIED)
                known[event.entry.key] = (event.entry.value, event.entry.mod_revision)
    return known


@given(histories, st.sampled_from([lambda _: True, lambda entry: b"1" in entry.value]))
def test_a_watch_from_any_revision_leads_to_the_present(history: list[dict[str, bytes | None]], matches: Any) -> None:
    played = Played(history)

    def visible(model: dict[str, tuple[bytes, int]]) -> dict[str, Any]:
        def entry(key: str) -> Entry:
            value, revision = model[key]
            return Entry(
                key, value, mod_revision=revision, create_revision=revision, resource=RESOURCE, memo=played.memo
            )

        return {key: pair for key, pair in model.items() if matches(entry(key))}

    for revision in range(1, len(played.models)):
        watcher = played.watcher(matches=matches)
        watcher.begin([change for change in played.state.window.since(revision) if change.revision > revision])
        assert replay(watcher, visible(played.models[revision]), matches) == visible(played.models[-1])


@given(histories, st.integers(1, 12), st.integers(0, 40))
def test_a_window_holds_whole_revisions_within_its_limits(
    history: list[dict[str, bytes | None]], events: int, size: int
) -> None:
    played = Played(history, WindowLimits(events=events, size=size))
    everything = Played(history).state.window.since(1)
    window = played.state.window
    assert len(window) <= events
    kept = window.since(window.first)
    assert [(c.key, c.revision) for c in kept] == [
        (c.key, c.revision) for c in everything if c.revision >= window.first
    ]
    assert sum(change.size for change in kept) <= size
    with pytest.raises(errors.ExpiredError):
        window.since(window.first - 1)
    assert (window.after(window.first - 2) is None) == (window.first > 0)


async def test_batches_end_with_whole_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    from controlplane.apiserver.store import watcher as module

    monkeypatch.setattr(module, "BATCH", 4)
    played = Played([dict.fromkeys(KEYS[:3], b"1"), dict.fromkeys(KEYS[3:6], b"1"), dict.fromkeys(KEYS[6:9], b"1")])
    watcher = played.watcher()
    watcher.begin(played.state.window.since(1))
    assert [event.revision for event in await anext(watcher)] == [1, 1, 1, 2, 2, 2]
    assert [event.revision for event in await anext(watcher)] == [3, 3, 3]


async def test_a_full_queue_ends_a_watcher_but_never_because_of_its_backlog() -> None:
    played = Played([{key: b"1"} for key in KEYS])
    changes = played.state.window.since(1)
    watcher = played.watcher(limit=2)
    watcher.begin(changes)
    assert watcher.push(changes[0])
    assert watcher.push(changes[0])
    assert not watcher.push(changes[0])
    watcher.overrun()
    with pytest.raises(errors.ExpiredError, match=f"{len(KEYS) + 2} events behind"):
        await anext(watcher)


async def test_a_queue_is_full_by_bytes_too_and_empties_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.apiserver.store.watcher.QUEUED_BYTES", 100)
    played = Played([{KEYS[0]: b"x" * 60}, {KEYS[1]: b"y" * 60}])
    backlog = played.state.window.since(1)
    watcher = played.watcher()
    watcher.begin(backlog)
    for _ in range(3):
        for change in backlog:
            assert watcher.push(change)
        assert not watcher.push(backlog[0])
        assert [event.revision for event in await anext(watcher)][-2:] == [1, 2]
        watcher = played.watcher()  # without a backlog from now on
    watcher.push(backlog[0])
    watcher.push(backlog[1])
    assert not watcher.push(backlog[0])
    await anext(watcher)
    assert watcher.push(backlog[0])


async def test_closing_ends_a_reader_that_waits() -> None:
    watcher = Played([]).watcher()
    reading = asyncio.ensure_future(anext(watcher))
    await asyncio.sleep(0)
    watcher.close()
    with pytest.raises(StopAsyncIteration):
        await reading


def test_what_is_derived_is_bounded_and_made_again() -> None:
    memo = Memo(objects=2, size=10)
    made: list[str] = []

    def decode(value: bytes) -> str:
        made.append(value.decode())
        return value.decode()

    resource = Resource(PREFIX, "pods", decode=decode)
    entries = [
        Entry(f"{PREFIX}a/{n}", b"%d" % n, mod_revision=1, create_revision=1, resource=resource, memo=memo)
        for n in range(4)
    ]
    for entry in [*entries, entries[3], entries[0]]:
        assert entry.decoded == entry.value.decode()
    assert made == ["0", "1", "2", "3", "0"]
    forms: list[str] = []

    def form(entry: Entry) -> bytes:
        forms.append(entry.name)
        return b"123456"

    for entry in [entries[0], entries[0], entries[1], entries[0]]:
        assert entry.served("f", form) == b"123456"
    assert forms == ["0", "1", "0"]
