"""Get, list and watch, all from the watch cache, with Kubernetes' meaning of resourceVersion.

No version means: as new as etcd is now; ``0``: whatever the cache has; N: at least as new as N, or exactly N. Pages of
one list all show the revision of the first. Nothing here copies objects: a list is a slice of entries that never
change, and bytes are made once an entry.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.apiserver.registry import listoptions, paging
from controlplane.apiserver.registry.selection import select
from controlplane.apiserver.request import Answer
from wharfinger.api import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.registry.selection import Selection
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache, Entry, Listing, Watcher
    from wharfinger.api.types import meta

_PAGE = 1000
_SLICE = 500
"""Entries that are decoded and matched in one go."""


class TooLargeVersionError(errors.TimeoutError_):
    """Raised when a client asks for a version that etcd has not reached; its cause is what clients look for."""

    def to_status(self) -> meta.Status:
        """Return the Status."""
        status = super().to_status()
        status.details.causes.add(reason="ResourceVersionTooLarge", message="Too large resource version")
        return status


@dataclass(slots=True)
class Page:
    """A list's answer, or one page of it."""

    entries: list[Entry]
    revision: int
    continue_: str = ""
    remaining: int = 0
    """0: nothing remains, or nobody counted (selectors)."""


@dataclass(slots=True)
class Watching:
    """An open watch and how to show its events."""

    watcher: Watcher
    resource: StoredResource
    timeout: float | None
    """Seconds after which the stream is to end; None: never."""
    mark_initial_end: bool
    """Whether the bookmark that ends the initial events was asked for."""


class Reader:
    """Reads one resource."""

    def __init__(self, resource: StoredResource, cache: Cache) -> None:
        self.resource = resource
        self._cache = cache

    async def entry(self, namespace: str, name: str, version: str = "") -> Entry:
        """Return an object's entry, fresh or as new as `version` demands. Raises NotFoundError."""
        wanted = listoptions.parse_version(version)
        if not version:
            await self._cache.fresh()
        elif wanted:
            await self._reach(wanted)
        found = self._cache.get(self.resource.key(namespace, name))
        if found is None:
            raise errors.not_found(self.resource.kind.group_resource, name)
        return found

    async def _reach(self, revision: int) -> None:
        """Wait until the cache is as new as a client says that it has seen."""
        try:
            await self._cache.wait_for(revision)
        except errors.TimeoutError_ as error:
            raise TooLargeVersionError(error.message, retry_after=1) from error

    async def get(self, request: Request, version: str = "") -> Answer:
        """Return one object."""
        entry = await self.entry(request.namespace, request.name, version)
        return Answer(self.resource.kind, self.resource.raw(entry), entry.mod_revision)

    def _select(self, request: Request, options: meta.ListOptions) -> Selection:
        return select(
            self.resource.kind,
            request.namespace,
            label_selector=options.labelSelector,
            field_selector=options.fieldSelector,
            view=self.resource.view,
        )

    async def list_page(self, request: Request, options: meta.ListOptions) -> Page:
        """Return the objects that the selectors choose, in the order of their keys.

        Raises InvalidError for contradicting options, ExpiredError when the revision is no longer known.
        """
        listoptions.check(options, watching=False)
        selection = self._select(request, options)
        limit = max(options.limit, 0)
        token = getattr(options, "continue")
        version = options.resourceVersion
        if token:
            if version not in ("", "0"):
                raise errors.BadRequestError("resourceVersion: it may not be given together with continue")
            position = paging.decode(token)
            base = self._base(request.namespace)
            if position.revision == -1:
                await self._cache.fresh()
                return await self._page(selection, request, limit, self._now(selection, base + position.after))
            return await self._page_at(selection, request, limit, position.revision, base + position.after)
        wanted = listoptions.parse_version(version)
        exact = options.resourceVersionMatch == "Exact" or (not options.resourceVersionMatch and limit and wanted)
        if exact:
            return await self._page_at(selection, request, limit, wanted, "")
        if not version:
            await self._cache.fresh()
        elif wanted:
            await self._reach(wanted)
        return await self._page(selection, request, limit, self._now(selection, ""))

    def _base(self, namespace: str) -> str:
        """Return what the keys of tokens are relative to: the collection that was asked for."""
        return f"{self.resource.prefix}{namespace}/" if namespace else self.resource.prefix

    def _now(self, selection: Selection, after: str) -> Listing:
        return self._cache.list(
            self.resource.prefix, namespace=selection.namespace, index=selection.index, start_after=after
        )

    async def _page(self, selection: Selection, request: Request, limit: int, listing: Listing) -> Page:
        """Cut a page out of all entries that follow."""
        entries = await self._chosen(selection, listing.entries, limit)
        if not limit or len(entries) <= limit:
            return Page(entries, listing.revision)
        remaining = 0 if selection.selective else len(listing.entries) - limit
        return self._cut(request, entries[:limit], listing.revision, remaining)

    def _cut(self, request: Request, entries: list[Entry], revision: int, remaining: int) -> Page:
        after = entries[-1].key[len(self._base(request.namespace)) :]
        return Page(entries, revision, paging.encode(paging.Position(revision, after)), remaining)

    async def _page_at(self, selection: Selection, request: Request, limit: int, revision: int, after: str) -> Page:
        """Read a page as it was at a revision, from memory or etcd."""
        chosen: list[Entry] = []
        size = max(limit, _PAGE) if limit and selection.selective else limit
        while True:
            part = await self._cache.list_at(
                self.resource.prefix, revision, namespace=selection.namespace, start_after=after, limit=size
            )
            chosen += await self._chosen(selection, part.entries, 0, indexed=False)
            if limit and len(chosen) > limit:
                return self._cut(request, chosen[:limit], revision, 0)
            if not part.remaining:
                return Page(chosen, revision)
            if not selection.selective:
                return self._cut(request, chosen, revision, part.remaining)
            after = part.entries[-1].key

    async def _chosen(
        self, selection: Selection, entries: list[Entry], limit: int, *, indexed: bool = True
    ) -> list[Entry]:
        """Return the first `limit` + 1 entries that match (all when `limit` is 0)."""
        if selection.empty:
            return []
        tests: list[Callable[[Entry], bool]] = []
        if selection.name:
            tests.append(lambda entry: entry.name == selection.name)
        if selection.index is not None and not indexed:
            path, value = selection.index
            tests.append(lambda entry: _index_value(self.resource.view(entry), path) == value)
        if selection.matches is not None:
            tests.append(selection.matches)
        if not tests:
            return entries[: limit + 1] if limit else entries
        chosen: list[Entry] = []
        for number, entry in enumerate(entries):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)  # others want to be served, too
            if all(test(entry) for test in tests):
                chosen.append(entry)
                if limit and len(chosen) > limit:
                    break
        return chosen

    async def watch(self, request: Request, options: meta.ListOptions) -> Watching:
        """Open a watch.

        Raises InvalidError for contradicting options, ExpiredError when the version is too old to resume from.
        """
        listoptions.check(options, watching=True)
        selection = self._select(request, options)
        version = options.resourceVersion
        wanted = listoptions.parse_version(version)
        asked = options.HasField("sendInitialEvents")
        initial = options.sendInitialEvents if asked else not wanted
        if not version:
            await self._cache.fresh()
        elif wanted and initial:
            await self._reach(wanted)
        watcher = await self._cache.watch(
            self.resource.prefix,
            namespace=selection.namespace,
            name=request.name or selection.name,
            index=selection.index,
            since=None if initial or not wanted else wanted,
            initial=initial,
            matches=_nothing if selection.empty else selection.matches,
            bookmarks=options.allowWatchBookmarks,
        )
        return Watching(
            watcher,
            self.resource,
            float(options.timeoutSeconds) if options.timeoutSeconds > 0 else None,
            mark_initial_end=asked and initial and options.allowWatchBookmarks,
        )


def _nothing(_: Entry) -> bool:
    return False


def _index_value(message: object, path: str) -> str:
    value: object = message
    for name in path.split("."):
        value = getattr(value, name)
    return str(value)
