"""One watch of a client: a bounded queue of changes, filtered when they are taken out.

The selector runs in the watcher's own task and not where events arrive, so that a thousand watchers with expensive
selectors do not hold up the cache. Batches consist of whole revisions: whoever got a batch knows all that its last
revision brought. A watcher whose queue is full, by number or by bytes, is closed with 410; what it had queued is freed
at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Self

from controlplane.apiserver.store.entry import Change, Entry, EventType, Memo, WatchEvent
from wharfinger.api import errors

QUEUED_BYTES = 64 << 20
"""How many bytes of values a watcher may lag behind: ten thousand changes of large objects would be gigabytes."""
BATCH = 500
"""Changes looked at in one go; a batch may be longer by the rest of its last revision."""


class Watcher:
    """``async with`` closes it, ``async for`` gives batches of events; made by :meth:`Cache.watch`."""

    __slots__ = (
        "_ended",
        "_error",
        "_initial",
        "_initial_revision",
        "_lag",
        "_limit",
        "_limit_bytes",
        "_matches",
        "_memo",
        "_on_close",
        "_queue",
        "_waiter",
        "bookmarks",
        "key_prefix",
    )

    def __init__(
        self,
        *,
        matches: Callable[[Entry], bool] | None,
        key_prefix: str,
        bookmarks: bool,
        limit: int,
        memo: Memo,
        on_close: Callable[[Watcher], None],
    ) -> None:
        self.bookmarks = bookmarks
        """Whether it gets BOOKMARK events."""
        self.key_prefix = key_prefix
        """What the keys of its changes begin with (a namespace within an index)."""
        self._matches = matches
        self._limit = limit
        self._memo = memo
        self._on_close = on_close
        self._queue: deque[Change | WatchEvent] = deque()
        self._lag = 0
        """Bytes of the values in the queue."""
        self._limit_bytes = QUEUED_BYTES
        self._initial: deque[Entry] | None = None
        self._initial_revision = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._ended = False

    # -- the cache's side ---------------------------------------------------------------------------------------

    def begin(self, backlog: Sequence[Change]) -> None:
        """Queue what happened before it was made, however much that is: it lives in the window anyway."""
        self._queue.extend(backlog)
        self._limit += len(backlog)
        size = sum(change.size for change in backlog)
        self._lag += size
        self._limit_bytes += size

    def begin_with(self, entries: Sequence[Entry], revision: int) -> None:
        """Hand out `entries` as ADDED first, then a bookmark at `revision` that ends them."""
        self._initial = deque(entries)
        self._initial_revision = revision

    def push(self, item: Change | WatchEvent) -> bool:
        """Queue a change or a bookmark; False when there is no room."""
        queue = self._queue
        if len(queue) >= self._limit or self._lag > self._limit_bytes:
            return False
        queue.append(item)
        if isinstance(item, Change):
            self._lag += item.size
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        return True

    def overrun(self) -> None:
        """End it with 410, because it is too slow."""
        behind = len(self._queue)
        self.fail(errors.ExpiredError(f"the watch was too slow: {behind} events behind; list and watch again"))

    def fail(self, error: Exception | None) -> None:
        """End it: the reader gets `error`, or the end of the iteration."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        self._queue.clear()
        self._initial = None
        self._on_close(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the reader's side --------------------------------------------------------------------------------------

    def close(self) -> None:
        """End it; a pending ``__anext__`` stops the iteration."""
        self.fail(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        """Return the next events, at least one.

        Raises ExpiredError when the watcher was too slow or history is gone; ends when it or the cache is closed.
        """
        while True:
            if self._ended:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                raise StopAsyncIteration
            if self._initial is not None:
                if batch := self._take_initial():
                    return batch
            elif self._queue:
                if batch := self._take():
                    return batch
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
                continue
            await asyncio.sleep(0)  # a selector that matches nothing must not hold the loop

    def _take_initial(self) -> list[WatchEvent]:
        assert self._initial is not None
        batch: list[WatchEvent] = []
        for _ in range(BATCH):
            if not self._initial:
                self._initial = None
                batch.append(WatchEvent(EventType.BOOKMARK, None, self._initial_revision, self._memo, initial_end=True))
                break
            entry = self._initial.popleft()
            if self._matches is None or self._matches(entry):
                batch.append(WatchEvent(EventType.ADDED, entry, entry.mod_revision, self._memo))
        return batch

    def _take(self) -> list[WatchEvent]:
        queue, matches = self._queue, self._matches
        batch: list[WatchEvent] = []
        looked = revision = 0
        while queue:
            item = queue[0]
            if looked >= BATCH and item.revision != revision:
                break
            queue.popleft()
            looked += 1
            revision = item.revision
            if isinstance(item, WatchEvent):
                batch.append(item)
                continue
            self._lag -= item.size
            event = item.event(matches)
            if event is not None:
                batch.append(event)
        return batch
