"""What the cache knows of one resource: its entries in order, its indexes, its window, its watchers."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from controlplane.apiserver.store import metrics
from controlplane.apiserver.store.entry import Change, Entry
from controlplane.apiserver.store.types import Resource, WindowLimits
from controlplane.apiserver.store.watcher import Watcher
from controlplane.apiserver.store.window import Window

log = logging.getLogger(__name__)

END = "\U0010ffff"
"""Sorts after whatever a name may hold."""


class Listing(NamedTuple):
    """A list as of one revision; the entries never change."""

    entries: list[Entry]
    """In the order of their keys."""
    revision: int
    remaining: int
    """How many entries `limit` cut off (all of them counted, whatever a selector would say)."""


class ResourceState:
    """One resource of the cache. All methods are plain calls: within one of them nothing else happens."""

    def __init__(self, resource: Resource, limits: WindowLimits, first: int) -> None:
        self.resource = resource
        self.limits = limits
        self.window = Window(limits, first)
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self._extractors = tuple(resource.indexes.values())
        self._positions = {name: position for position, name in enumerate(resource.indexes)}
        self._indexes: tuple[dict[str, set[str]], ...] = tuple({} for _ in self._extractors)
        self._values_memo: dict[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]] = {}
        self.watchers: set[Watcher] = set()
        self._by_key: dict[str, set[Watcher]] = {}
        self._by_namespace: dict[str, set[Watcher]] = {}
        self._by_index: dict[tuple[int, str], set[Watcher]] = {}
        self._by_all: set[Watcher] = set()
        self.listeners: list[Callable[[str], None]] = []
        """Told the key of each change, and the prefix when everything was replaced."""
        self._received = metrics.CACHE_EVENTS.labels(resource.name)
        self._watching = metrics.WATCHERS.labels("WATCH", resource.name)
        metrics.OBJECTS.labels(resource.name).set_function(lambda: len(self.entries))
        metrics.CACHE_WINDOW.labels(resource.name).set_function(lambda: len(self.window))

    # -- state --------------------------------------------------------------------------------------------------

    def load(self, entries: Iterable[Entry], *, first: int) -> None:
        """Replace everything by `entries`; the window begins anew at revision `first`."""
        self.entries = {entry.key: entry for entry in entries}
        self.keys = sorted(self.entries)
        self._indexes = tuple({} for _ in self._extractors)
        self.window = Window(self.limits, first)
        if self._extractors:
            for entry in self.entries.values():
                self.index(entry)
        for listener in self.listeners:
            listener(self.resource.prefix)

    def index(self, entry: Entry) -> None:
        """Fill `entry.index_values`, and let the indexes find it."""
        for table, found in zip(self._indexes, self.fill(entry), strict=True):
            for value in found:
                table.setdefault(value, set()).add(entry.key)

    def fill(self, entry: Entry | None) -> tuple[tuple[str, ...], ...]:
        """Fill `entry.index_values` if that is not done yet."""
        if entry is None or not self._extractors:
            return ()
        if (values := entry.index_values) is None:
            values = self._extract(entry)
            if len(self._values_memo) > 50_000:
                self._values_memo.clear()
            # Thousands of pods share a few nodes: hold each combination once.
            entry.index_values = values = self._values_memo.setdefault(values, values)
        return values

    def _extract(self, entry: Entry) -> tuple[tuple[str, ...], ...]:
        try:
            decoded = entry.decoded
            return tuple(tuple(extract(decoded)) for extract in self._extractors)
        except Exception:  # one odd object must not keep all others from being served
            log.exception("a stored value cannot be read; no index finds it", extra={"key": entry.key})
            return tuple(() for _ in self._extractors)

    def _unindex(self, entry: Entry) -> None:
        if entry.index_values is None:
            return
        for table, found in zip(self._indexes, entry.index_values, strict=True):
            for value in found:
                if (keys := table.get(value)) is not None:
                    keys.discard(entry.key)
                    if not keys:
                        del table[value]

    def apply(self, key: str, revision: int, entry: Entry | None, now: float) -> None:
        """Take over one change, and queue it for the watchers that it concerns."""
        previous = self.entries.get(key)
        if entry is None:
            if previous is None:
                return
            del self.entries[key]
            del self.keys[bisect_left(self.keys, key)]
            self._unindex(previous)
        else:
            self.entries[key] = entry
            if previous is None:
                if not self.keys or key > self.keys[-1]:
                    self.keys.append(key)
                else:
                    insort(self.keys, key)
            if self._extractors:
                # Equal combinations are one object: most changes leave the indexes alone.
                if previous is None:
                    self.index(entry)
                elif self.fill(entry) is not previous.index_values:
                    self._unindex(previous)
                    self.index(entry)
        change = Change(key, revision, entry=entry, previous=previous)
        change.seen = now
        self.window.add(change)
        self._received.inc()
        for listener in self.listeners:
            listener(key)
        if self.watchers:
            self._dispatch(change)

    # -- reading ------------------------------------------------------------------------------------------------

    def _bounds(self, namespace: str, start_after: str) -> tuple[str, str]:
        low = f"{self.resource.prefix}{namespace}/" if namespace else self.resource.prefix
        return (max(low, start_after), low + END)

    def select(
        self, *, namespace: str, index: tuple[str, str] | None, start_after: str, limit: int
    ) -> tuple[list[Entry], int]:
        """Return entries in the order of keys, and how many `limit` cut off."""
        low, high = self._bounds(namespace, start_after)
        if index is not None:
            found = self._indexes[self.position(index[0])].get(index[1], ())
            keys = sorted(key for key in found if low < key < high)
            end = len(keys)
            start = 0
        else:
            keys = self.keys
            start, end = bisect_right(keys, low), bisect_left(keys, high)
        stop = min(end, start + limit) if limit > 0 else end
        entries = self.entries
        return [entries[key] for key in keys[start:stop]], max(0, end - stop)

    def select_at(
        self, revision: int, *, namespace: str, start_after: str, limit: int
    ) -> tuple[list[Entry], int] | None:
        """Return what :meth:`select` would have at a past revision; None when the window does not reach back so far."""
        changes = self.window.after(revision)
        if changes is None:
            return None
        low, high = self._bounds(namespace, start_after)
        past: dict[str, Entry | None] = {}
        for change in reversed(changes):
            if low < change.key < high:
                past[change.key] = change.previous
        if not past:
            return self.select(namespace=namespace, index=None, start_after=start_after, limit=limit)
        keys = self.keys[bisect_right(self.keys, low) : bisect_left(self.keys, high)]
        present = set(keys)
        merged = [key for key in keys if past.get(key, self) is not None]
        merged += [key for key, entry in past.items() if entry is not None and key not in present]
        merged.sort()
        stop = limit if 0 < limit < len(merged) else len(merged)
        entries = [past.get(key) or self.entries[key] for key in merged[:stop]]
        return entries, len(merged) - stop

    def position(self, name: str) -> int:
        """Return an index's place in `Entry.index_values`. Raises LookupError when the resource has none of that
        name."""
        if name not in self._positions:
            raise LookupError(f"{self.resource.name}: no index {name!r}; it has {sorted(self._positions)}")
        return self._positions[name]

    # -- watchers -----------------------------------------------------------------------------------------------

    def bucket(
        self, *, namespace: str, name: str, index: tuple[int, str] | None
    ) -> tuple[dict[object, set[Watcher]], object]:
        """Return the table and the key in it under which a watcher with these filters is found."""
        table: dict[object, set[Watcher]]
        if name:
            full = (
                f"{self.resource.prefix}{namespace}/{name}" if self.resource.namespaced else self.resource.prefix + name
            )
            return self._by_key, full  # type: ignore[return-value]
        if index is not None:
            return self._by_index, index  # type: ignore[return-value]
        if namespace:
            return self._by_namespace, namespace  # type: ignore[return-value]
        table = {None: self._by_all}
        return table, None

    def add(self, watcher: Watcher, bucket: tuple[dict[object, set[Watcher]], object]) -> None:
        """Let a watcher have the changes of its bucket from now on."""
        table, key = bucket
        table.setdefault(key, set()).add(watcher)
        self.watchers.add(watcher)
        self._watching.inc()

    def remove(self, watcher: Watcher, bucket: tuple[dict[object, set[Watcher]], object]) -> None:
        """Forget a watcher."""
        table, key = bucket
        if watcher in self.watchers:
            self.watchers.discard(watcher)
            self._watching.dec()
            if (found := table.get(key)) is not None:
                found.discard(watcher)
                if not found and key is not None:
                    del table[key]

    def _concerned(self, change: Change) -> Iterator[set[Watcher]]:
        if self._by_all:
            yield self._by_all
        if self._by_key and (found := self._by_key.get(change.key)):
            yield found
        if self._by_namespace:
            namespace = change.key[len(self.resource.prefix) :].partition("/")[0]
            if found := self._by_namespace.get(namespace):
                yield found
        if self._by_index:
            wanted: set[tuple[int, str]] = set()
            for entry in (change.entry, change.previous):
                if entry is not None and entry.index_values is not None:
                    for position, values in enumerate(entry.index_values):
                        wanted.update((position, value) for value in values)
            for pair in wanted:
                if found := self._by_index.get(pair):
                    yield found

    def _dispatch(self, change: Change) -> None:
        for watchers in self._concerned(change):
            full = None
            for watcher in watchers:
                if change.key.startswith(watcher.key_prefix) and not watcher.push(change):
                    full = [*(full or ()), watcher]
            for watcher in full or ():
                metrics.WATCHERS_ENDED.labels(self.resource.name).inc()
                log.info("closing a watch that is too slow", extra={"resource": self.resource.name})
                watcher.overrun()
