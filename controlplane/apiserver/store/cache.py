"""The watch cache: everything in etcd, in memory, with what happened lately; reads and watches are served from it.

:class:`Feed` brings every change of etcd in order; :class:`ResourceState` keeps a resource; this class ties them
together and answers the one question that a cache must answer honestly: *how new are you?*

* :meth:`fresh` asks etcd for its revision and waits until that revision is applied; see
  :class:`~controlplane.apiserver.store.freshness.Freshness`.
* Every `bookmark_period` the cache proves itself the same way, and tells watchers so by a bookmark. If etcd's
  revision is not reached and nothing arrives for `progress_timeout`, the stream to etcd is opened again.
* History with a gap (compacted beyond our position, another etcd) ends all watches with 410: what lay in the gap
  cannot be told any more.

Keys that no registered resource claims are kept too (:meth:`get` finds them).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.apiserver.store import metrics
from controlplane.apiserver.store.entry import Entry, EventType, Memo, WatchEvent
from controlplane.apiserver.store.feed import Feed
from controlplane.apiserver.store.freshness import Freshness
from controlplane.apiserver.store.state import Listing, ResourceState
from controlplane.apiserver.store.store import Store
from controlplane.apiserver.store.types import KeyValue, Resource, WindowLimits
from controlplane.apiserver.store.watcher import Watcher
from wharfinger.api import errors
from wharfinger.daemon import spawn

log = logging.getLogger(__name__)

BOOKMARK_SLICE = 250
"""Watchers told of a bookmark in one go; each of them wakes a task."""

__all__ = ["Cache", "Listing"]


class Cache:
    """The watch cache over one store; see the module and the package for examples.

    `window` bounds what each resource keeps for resuming watches, `queue_limit` how many changes a watcher may lag
    behind, `history` how many revisions of the past are replayed at start. Periods are seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        window: WindowLimits | None = None,
        queue_limit: int = 10_000,
        bookmark_period: float = 5.0,
        progress_timeout: float = 5.0,
        history: int = 10_000,
        memo: Memo | None = None,
    ) -> None:
        self._store = store
        self._limits = window or WindowLimits()
        self._queue_limit = queue_limit
        self._bookmark_period = bookmark_period
        self._progress_timeout = progress_timeout
        self._memo = memo or Memo()
        self._feed = Feed(store.client, self, history=history)
        self._rest = ResourceState(Resource("/", "other", namespaced=False), self._limits, 0)
        self._states: dict[str, ResourceState] = {}
        self._freshness = Freshness(store.revision, went_back=self._feed.start_over)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False
        metrics.CACHE_REVISION.set_function(lambda: self.revision)
        metrics.STREAM_LOST_SECONDS.set_function(lambda: self.stale_seconds)

    # -- life ---------------------------------------------------------------------------------------------------

    def register(self, resource: Resource) -> None:
        """Give the keys below a prefix a state of their own; also while running (custom resources)."""
        if not resource.prefix.startswith("/") or not resource.prefix.endswith("/"):
            raise ValueError(f"prefix {resource.prefix!r}: must begin and end with a slash")
        if resource.prefix in self._states:
            raise ValueError(
                f"prefix {resource.prefix!r}: is registered already, as {self._states[resource.prefix].resource.name}"
            )
        state = ResourceState(resource, self._limits, self._rest.window.first)
        self._move(self._rest, state, lambda key: key.startswith(resource.prefix))
        self._states[resource.prefix] = state

    def unregister(self, prefix: str) -> None:
        """Forget a prefix: its watches end with 410, its keys are kept as those of nobody."""
        state = self._states.pop(prefix)
        for watcher in tuple(state.watchers):
            watcher.fail(errors.ExpiredError(f"{state.resource.name} is not served any more"))
        self._move(state, self._rest, lambda key: True)

    def _move(self, source: ResourceState, target: ResourceState, wanted: Callable[[str], bool]) -> None:
        """Hand over entries and changes; the target's window begins where the source's does."""
        moved = [entry for key, entry in source.entries.items() if wanted(key)]
        changes = [change for change in source.window.since(source.window.first) if wanted(change.key)]
        for entry in itertools.chain(moved, *((change.entry, change.previous) for change in changes)):
            if entry is not None:
                entry.adopt(target.resource)
        kept = [entry for key, entry in source.entries.items() if not wanted(key)]
        rest = [change for change in source.window.since(source.window.first) if not wanted(change.key)]
        staying = target.window.since(target.window.first)
        first = max(source.window.first, target.window.first)
        for state, entries, history in (
            (source, kept, rest),
            (target, [*target.entries.values(), *moved], sorted(changes + staying, key=lambda change: change.revision)),
        ):
            state.load(entries, first=first)
            for change in history:
                if change.revision >= first:
                    state.fill(change.entry)
                    state.fill(change.previous)
                    state.window.add(change)

    async def start(self) -> None:
        """Load all keys and follow etcd from then on; returns when loaded, however long etcd is away."""
        self._tasks = [spawn(self._feed.run(), name="store-feed"), spawn(self._prove_for_ever(), name="store-proof")]
        loaded = asyncio.ensure_future(self._freshness.loaded.wait())
        try:
            await asyncio.wait([loaded, self._tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        finally:
            loaded.cancel()
        if self._tasks[0].done():
            self._tasks[0].result()
        while True:
            try:
                await self.fresh(timeout=float("inf"))
            except errors.ServiceUnavailableError:
                continue  # the client has logged it, and has waited
            break

    def end_watches(self) -> None:
        """End all watchers, and refuse new ones from now on: the server stops."""
        self._ending = True
        for state in (*self._states.values(), self._rest):
            for watcher in tuple(state.watchers):
                watcher.close()

    async def stop(self) -> None:
        """End the watch and all watchers."""
        self.end_watches()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._freshness.stop()

    @property
    def revision(self) -> int:
        """Every event up to it has been applied."""
        return self._freshness.revision

    @property
    def ready(self) -> bool:
        """Whether it is loaded, and has proven itself current within three bookmark periods."""
        current = self.stale_seconds < 3 * self._bookmark_period + self._progress_timeout
        return current and self._freshness.loaded.is_set()

    @property
    def stale_seconds(self) -> float:
        """Monotonic seconds since the cache last proved itself current; infinite before the first time."""
        return self._freshness.stale_seconds

    # -- what the feed brings -----------------------------------------------------------------------------------

    def load(self, kvs: Sequence[KeyValue], *, revision: int, first: int) -> None:
        """Replace everything; see :class:`Sink`."""
        by_state: dict[int, list[Entry]] = {}
        for kv in kvs:
            state = self._state_of(kv.key)
            value = self._store.transformer.open(kv.key, kv.value)
            by_state.setdefault(id(state), []).append(self._entry(kv.key, value, kv, state.resource))
        for state in (*self._states.values(), self._rest):
            for watcher in tuple(state.watchers):  # of before, when this is not the first time
                watcher.fail(errors.ExpiredError("too old resource version: the store's history has a gap; list again"))
            metrics.CACHE_INIT.labels(state.resource.name).inc()
            state.load(by_state.get(id(state), ()), first=first)
        self._freshness.load(revision)

    def apply(self, events: Sequence[Any]) -> None:
        """Take over events; see :class:`Sink`."""
        now = time.monotonic()
        applied = self.revision
        touched: set[ResourceState] = set()
        opened = self._store.transformer.open
        for event in events:
            kv = event.kv
            revision = kv.mod_revision
            if revision <= applied:
                continue
            key = kv.key.decode("utf-8", "surrogateescape")
            if not key.startswith(("/registry/", "/wharfinger/")):
                continue
            state = self._state_of(key)
            entry = None
            if event.type == 0:  # a put; else a delete
                entry = self._entry(key, opened(key, kv.value), kv, state.resource)
            state.apply(key, revision, entry, now)
            touched.add(state)
        for state in touched:
            state.window.trim()
        if events:
            self._freshness.advance(max(applied, events[-1].kv.mod_revision))

    def _entry(self, key: str, value: bytes, kv: Any, resource: Resource) -> Entry:
        """Return what is kept of a key and its value, decrypted; `kv` is ours or etcd's own message."""
        return Entry(
            key,
            value,
            mod_revision=kv.mod_revision,
            create_revision=kv.create_revision,
            resource=resource,
            memo=self._memo,
        )

    def _state_of(self, key: str) -> ResourceState:
        """Find the resource with the longest prefix; they have two to four parts."""
        states, found = self._states, self._rest
        position = key.find("/", 1)
        for _ in range(3):
            position = key.find("/", position + 1)
            if position < 0:
                break
            if (state := states.get(key[: position + 1])) is not None:
                found = state
        return found

    def read_anew(self, reason: str) -> None:
        """List everything again: what was read before may read otherwise now (another encryption configuration)."""
        self._feed.start_over(reason)

    # -- how new is it ------------------------------------------------------------------------------------------

    async def wait_for(self, revision: int, *, timeout: float = 3.0) -> None:
        """Wait until `revision` is reached. Raises TimeoutError_ (504) after `timeout` seconds, as Kubernetes does."""
        await self._freshness.wait_for(revision, timeout=timeout)

    async def fresh(self, *, timeout: float = 10.0) -> int:
        """Wait until the cache is as new as etcd was when this was called; return the revision that etcd named.

        Raises ServiceUnavailableError when etcd does not answer, TimeoutError_ when the cache does not get there in
        time.
        """
        return await self._freshness.prove(timeout=timeout)

    async def _prove_for_ever(self) -> None:
        await self._freshness.loaded.wait()
        while True:
            await asyncio.sleep(self._bookmark_period)
            try:
                before = self.revision
                await self.fresh(timeout=self._progress_timeout)
            except errors.TimeoutError_ as error:
                if self.revision == before and not self._store.client.lost:
                    self._feed.reopen(self._progress_timeout, str(error))
                continue
            except errors.StatusError as error:
                log.debug("no proof of being current", extra={"error": str(error)})
                continue
            await self._bookmark()

    async def _bookmark(self) -> None:
        """Tell those who asked for bookmarks; in slices, each with a revision that is true when it is told."""
        listening = [
            (state, watcher) for state in self._states.values() for watcher in state.watchers if watcher.bookmarks
        ]
        bookmark: WatchEvent | None = None
        for position, (state, watcher) in enumerate(listening):
            if position and position % BOOKMARK_SLICE == 0:
                await asyncio.sleep(0)
            if bookmark is None or bookmark.revision != self.revision:
                bookmark = WatchEvent(EventType.BOOKMARK, None, self.revision, self._memo)
            if watcher in state.watchers:
                watcher.push(bookmark)

    def listen(self, prefix: str, changed: Callable[[str], None]) -> None:
        """Call `changed` with the key of each change below a registered prefix, as soon as reads show it.

        It is called with the prefix itself now, and whenever everything was replaced. It must be quick: it is part of
        taking over events. Raises LookupError for an unknown prefix.
        """
        self._registered(prefix).listeners.append(changed)
        changed(prefix)

    # -- reading ------------------------------------------------------------------------------------------------

    def _registered(self, prefix: str) -> ResourceState:
        state = self._states.get(prefix)
        if state is None:
            raise LookupError(f"no resource is registered for the prefix {prefix!r}")
        return state

    def get(self, key: str) -> Entry | None:
        """Return one entry as the cache has it now; any key, registered or not."""
        return self._state_of(key).entries.get(key)

    def list(
        self,
        prefix: str,
        *,
        namespace: str = "",
        index: tuple[str, str] | None = None,
        start_after: str = "",
        limit: int = 0,
    ) -> Listing:
        """Return a snapshot of a registered prefix as the cache has it now.

        `index` is (name of the index, value); `start_after` a key. Raises LookupError for an unknown prefix or index.
        """
        entries, remaining = self._registered(prefix).select(
            namespace=namespace, index=index, start_after=start_after, limit=limit
        )
        return Listing(entries, self.revision, remaining)

    async def list_at(
        self, prefix: str, revision: int, *, namespace: str = "", start_after: str = "", limit: int = 0
    ) -> Listing:
        """Return what a registered prefix was at `revision`, from memory or from etcd.

        Raises ExpiredError (410) when etcd has compacted it, TimeoutError_ (504) when it is not reached soon.
        """
        if revision > self.revision:
            await self.wait_for(revision)
        state = self._registered(prefix)
        found = state.select_at(revision, namespace=namespace, start_after=start_after, limit=limit)
        if found is not None:
            return Listing(found[0], revision, found[1])
        low = f"{prefix}{namespace}/" if namespace else prefix
        start = start_after + "\0" if start_after > low else low
        end = low[:-1] + "0"  # the character after the slash
        answer = await self._store.range(start, end, limit=limit, revision=revision)
        entries = [self._entry(kv.key, kv.value, kv, state.resource) for kv in answer.kvs]
        return Listing(entries, revision, answer.total - len(entries))

    async def watch(
        self,
        prefix: str,
        *,
        namespace: str = "",
        name: str = "",
        index: tuple[str, str] | None = None,
        since: int | None = None,
        initial: bool = False,
        matches: Callable[[Entry], bool] | None = None,
        bookmarks: bool = False,
    ) -> Watcher:
        """Follow a registered prefix: all events after the revision `since` (None: from now on).

        When the revision `since` itself brought several events that this watch would tell, those are told again: the
        client may have got only some of them. `initial` tells what is there as ADDED first, then a bookmark with
        `initial_end` (`since` is then only how new that must be). `matches` is the selector, on an entry; a change
        that moves an object into or out of it is told as ADDED or DELETED. `bookmarks` asks for a BOOKMARK every few
        seconds.

        Raises ExpiredError (410) when `since` is older than the window, TimeoutError_ (504) when it lies in the future,
        ServiceUnavailableError (503) when the server is stopping.
        """
        if since is not None and since > self.revision:
            await self.wait_for(since)
        if self._ending:
            raise errors.ServiceUnavailableError("the server is stopping", retry_after=1)
        state = self._registered(prefix)
        selects = matches
        pair: tuple[int, str] | None = None
        if index is not None:
            pair = (state.position(index[0]), index[1])
            selects = _indexed(pair[0], pair[1], matches)
        if name and state.resource.namespaced and not namespace:
            # A name in any namespace is no key: a selector like others.
            selects, name = _named(name, selects), ""
        bucket = state.bucket(namespace=namespace, name=name, index=pair)
        key_prefix = f"{prefix}{namespace}/" if namespace else prefix
        watcher = Watcher(
            matches=selects,
            key_prefix=key_prefix,
            bookmarks=bookmarks,
            limit=self._queue_limit,
            memo=self._memo,
            on_close=lambda closed: state.remove(closed, bucket),
        )
        if initial:
            entries, _ = state.select(namespace=namespace, index=index, start_after="", limit=0)
            if name:
                entries = [entry for entry in entries if entry.name == name]
            watcher.begin_with(entries, self.revision)
        elif since is not None:
            backlog = [change for change in state.window.since(since) if change.key.startswith(key_prefix)]
            if name:
                backlog = [change for change in backlog if change.key == bucket[1]]
            again = list(itertools.takewhile(lambda change: change.revision == since, backlog))
            told = sum(change.event(selects) is not None for change in again)
            watcher.begin(backlog if told > 1 else backlog[len(again) :])
        state.add(watcher, bucket)
        return watcher


def _named(name: str, matches: Callable[[Entry], bool] | None) -> Callable[[Entry], bool]:
    return lambda entry: entry.name == name and (matches is None or matches(entry))


def _indexed(position: int, value: str, matches: Callable[[Entry], bool] | None) -> Callable[[Entry], bool]:
    def selects(entry: Entry) -> bool:
        values = entry.index_values
        return values is not None and value in values[position] and (matches is None or matches(entry))

    return selects
