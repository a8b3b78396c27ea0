"""A queue of keys that merges repeats, never hands one key to two workers, and backs off per key.

What client-go's workqueue is, for asyncio: a key added while it is being worked on is handed out once more after
``done``; ``retry`` adds it again after a delay that doubles with each failure.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """See the module. `base` and `maximum` are the first and the longest back-off, in seconds."""

    def __init__(self, *, base: float = 0.05, maximum: float = 60.0) -> None:
        self._base = base
        self._maximum = maximum
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Note that a key needs work."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key later; an earlier time that is set already stays."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if (timer := self._timers.get(key)) is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def retry(self, key: K) -> float:
        """Add a key after its back-off, which doubles with each call; return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._base * 2.0 ** min(failures, 32), self._maximum)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """Return how often a key was retried since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Start a key's back-off anew."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key; the caller must call :meth:`done` with it."""
        while not self._ready:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wake.append(future)
            try:
                await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled() and self._ready:
                    self._wake_one()  # hand the wake-up that we cannot use to another worker
                raise
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """End the work on a key; if it was added meanwhile, it is ready again."""
        self._working.discard(key)
        if key in self._dirty:
            self._push(key)

    def close(self) -> None:
        """Cancel the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._wake:
            future = self._wake.popleft()
            if not future.done():
                future.set_result(None)
                return
