"""Background tasks that have a name and never die silently."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

_running: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start a task; its failure is logged with the traceback when it happens, whoever awaits it or not."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)  # the event loop itself only holds weak references
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if task.cancelled():
        log.debug("task cancelled", extra={"task": task.get_name()})
    elif (error := task.exception()) is not None:
        log.error("task failed", exc_info=error, extra={"task": task.get_name()})
    else:
        log.debug("task ended", extra={"task": task.get_name()})
