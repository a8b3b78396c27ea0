"""What has been replaced while it was in use: closed when those who used it have had their time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from wharfinger.daemon.tasks import spawn


class Retirement:
    """Connections that take nothing new, each until its time is over or everything is closed."""

    def __init__(self, what: str) -> None:
        """`what` they are, for the names of tasks."""
        self._what = what
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    def add(self, close: Callable[[], Awaitable[object]], *, seconds: float) -> None:
        """Call `close` after so many seconds, or when :meth:`close` is called if that is sooner."""
        task = spawn(self._close_later(close, seconds), name=f"retire {self._what}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_later(self, close: Callable[[], Awaitable[object]], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        await close()

    async def close(self) -> None:
        """Close all of them now; failures are logged."""
        # Not by cancelling: a task that has not begun yet would never close anything.
        self._over.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
