"""List, watch, resume, relist: a local copy of a resource that follows the server.

The vocabulary is client-go's. Differences worth knowing: a stream that brings neither event nor bookmark for
`progress_deadline` seconds (by default what suits the server) is given up and opened again (a watch that ends quietly
must not leave a zombie), and :attr:`Informer.idle_seconds` tells how long ago the server last proved itself current,
so that controllers can refuse to act on what may be stale. Handlers are plain functions, called in order of events on
the event loop; they should only note what changed (put a key into a work queue).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from wharfinger.api import errors
from wharfinger.client.options import SelectOptions
from wharfinger.client.verbs import Event, ResourceClient

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

PROGRESS_DEADLINE = 30.0
"""Seconds; for clients that name none."""
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)


def object_key(obj: Any) -> str:
    """Return ``namespace/name``, or the name alone for cluster-scoped objects."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


class Informer(Generic[M]):
    """Keeps every object of a resource (or of a selection of it) by key, and tells handlers of changes."""

    def __init__(
        self,
        client: ResourceClient[M],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        transform: Callable[[M], M] | None = None,
        progress_deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._selectors: SelectOptions = {"label_selector": label_selector, "field_selector": field_selector}
        self._transform = transform
        if progress_deadline is None:
            progress_deadline = getattr(client, "progress_deadline", PROGRESS_DEADLINE)
        self._progress_deadline = progress_deadline
        self._clock = clock
        self._objects: dict[str, M] = {}
        self._indexes: dict[str, tuple[Callable[[M], Iterable[str]], dict[str, dict[str, M]]]] = {}
        self._added: list[Callable[[M], None]] = []
        self._updated: list[Callable[[M, M], None]] = []
        self._deleted: list[Callable[[M], None]] = []
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_proof = -float("inf")
        self._trouble = False
        self._failures = 0
        """Attempts in a row that brought no event and no bookmark."""
        self.resource_version = ""
        self.generation = 0
        """Counts relists: what was derived from a continuous watch starts anew when it changes."""

    # --- set-up

    def add_handler(
        self,
        *,
        on_add: Callable[[M], None] | None = None,
        on_update: Callable[[M, M], None] | None = None,
        on_delete: Callable[[M], None] | None = None,
    ) -> None:
        """Register functions; objects that are known already are announced to `on_add` at once."""
        if on_add:
            self._added.append(on_add)
            for obj in self._objects.values():
                on_add(obj)
        if on_update:
            self._updated.append(on_update)
        if on_delete:
            self._deleted.append(on_delete)

    def add_index(self, name: str, values: Callable[[M], Iterable[str]]) -> None:
        """Keep objects findable by what `values` returns for them."""
        table: dict[str, dict[str, M]] = {}
        self._indexes[name] = (values, table)
        for key, obj in self._objects.items():
            for value in values(obj):
                table.setdefault(value, {})[key] = obj

    async def start(self) -> None:
        """Begin to follow the server in the background."""
        if self._task is None:
            name = f"informer {self._client.kind.group_resource}"
            self._task = asyncio.get_running_loop().create_task(self._run(), name=name)
            self._task.add_done_callback(_report)

    async def stop(self) -> None:
        """Stop following; what is known stays readable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def wait_synced(self) -> None:
        """Return when the first list has been taken in."""
        await self._synced.wait()

    # --- reading

    @property
    def synced(self) -> bool:
        """Whether the first list has been taken in."""
        return self._synced.is_set()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the server last proved, by a list, an event or a bookmark, that it is current."""
        return self._clock() - self._last_proof

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> M | None:
        """Return an object by ``namespace/name`` (or name). Do not change it: it is shared."""
        return self._objects.get(key)

    def items(self) -> list[M]:
        """Return all objects, in no particular order."""
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[M]:
        """Return the objects that an index holds under a value."""
        return list(self._indexes[name][1].get(value, {}).values())

    # --- following

    async def _run(self) -> None:
        while True:
            try:
                if not self.resource_version:
                    await self._relist()
                await self._follow()
            except errors.GoneError as error:
                log.info("watch is too old, listing again", extra={**self._fields(), "reason": str(error)})
                self.resource_version = ""
            except errors.TimeoutError_ as error:
                if any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes):
                    # The server, or the store below it, is older than what was seen of it (an etcd restored from a
                    # snapshot): what is known here may never have happened there.
                    log.warning("the apiserver is behind, listing again", extra={**self._fields(), "error": str(error)})
                    self.resource_version = ""
                self._trouble = True
            except errors.StatusError as error:
                if not self._trouble:
                    log.warning("cannot follow the apiserver, trying on", extra={**self._fields(), "error": str(error)})
                self._trouble = True
            except TimeoutError:
                log.warning("watch stood still, opening it again", extra=self._fields())
                continue
            except Exception:  # a fault of ours must not leave a copy that stands still: begin anew, and say why
                log.exception("following failed on a fault of ours, listing again", extra=self._fields())
                self.resource_version = ""
                self._failures += 1  # at once would be a busy loop
            # A watch that brought something goes on at once; one that ends or is refused time and again does not.
            if self._failures:
                pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS)) - 1]
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # thousands must not come back as one
            self._failures += 1

    def _fields(self) -> dict[str, str]:
        return {"resource": self._client.kind.group_resource}

    async def _relist(self) -> None:
        listed = await self._client.list(namespace=self._namespace, **self._selectors)
        seen: set[str] = set()
        for obj in listed.items:
            key = object_key(obj)
            seen.add(key)
            known = self._objects.get(key)
            if known is not None and known.metadata.uid != obj.metadata.uid:  # type: ignore[attr-defined]
                self._remove(known)  # deleted and made anew while nobody looked
            self._store(obj)
        for key in [key for key in self._objects if key not in seen]:
            self._remove(self._objects[key])
        self.resource_version = listed.resource_version
        self.generation += 1
        self._prove()
        self._synced.set()

    async def _follow(self) -> None:
        stream = self._client.watch(
            namespace=self._namespace, resource_version=self.resource_version, **self._selectors
        )
        try:
            while True:
                async with asyncio.timeout(self._progress_deadline):
                    batch = await anext(stream, None)
                if batch is None:
                    return
                for event in batch:
                    self._take(event)
                self._failures = 0
                self._prove()
        finally:
            await stream.aclose()

    def _prove(self) -> None:
        self._last_proof = self._clock()
        if self._trouble:
            log.info("following the apiserver again", extra=self._fields())
            self._trouble = False

    def _take(self, event: Event[M]) -> None:
        if event.type == "DELETED":
            if object_key(event.object) in self._objects:
                gone = event.object
                self._remove(gone if self._transform is None else self._transform(gone))
        elif event.type != "BOOKMARK":
            self._store(event.object)
        self.resource_version = event.resource_version

    def _store(self, obj: M) -> None:
        if self._transform is not None:
            obj = self._transform(obj)
        key = object_key(obj)
        old = self._objects.get(key)
        if old is not None:
            # A resumed watch may send the events of one revision again: at least once, never lost.
            if old.metadata.resourceVersion == obj.metadata.resourceVersion:  # type: ignore[attr-defined]
                return
            self._unindex(key, old)
        self._objects[key] = obj
        for values, table in self._indexes.values():
            for value in values(obj):
                table.setdefault(value, {})[key] = obj
        if old is None:
            for added in self._added:
                self._call(added, obj)
        else:
            for updated in self._updated:
                self._call(updated, old, obj)

    def _remove(self, obj: M) -> None:
        key = object_key(obj)
        old = self._objects.pop(key)
        self._unindex(key, old)
        for deleted in self._deleted:
            self._call(deleted, obj)

    def _unindex(self, key: str, obj: M) -> None:
        for values, table in self._indexes.values():
            for value in values(obj):
                bucket = table.get(value)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del table[value]

    def _call(self, handler: Callable[..., None], *objects: M) -> None:
        try:
            handler(*objects)
        except Exception:  # a handler's bug must not end the stream of the others; it is logged whole
            log.exception("handler failed", extra={**self._fields(), "object": object_key(objects[-1])})


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("informer ended", exc_info=error, extra={"task": task.get_name()})
