"""Ends containers: preStop hook, SIGTERM, and SIGKILL when the grace is over; never twice at once.

Each end runs in a task of its own, because it takes as long as the container likes, up to its grace. A second request
with a shorter grace (the user deletes with --grace-period=1 after all) goes to the runtime, too, and wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from nodeagent.context import NodeContext
from nodeagent.hooks import HookError, run_hook
from nodeagent.lifecycle import Kill
from nodeagent.podspec import all_containers, pod_key
from nodeagent.runtime import RuntimeFailure
from wharfinger.api.types import core

log = logging.getLogger(__name__)

LEAST_GRACE_SECONDS = 2
"""What is left for SIGTERM when the preStop hook has used up the grace."""
_RETRY_SECONDS = 1.0


@dataclass(slots=True)
class _Ending:
    task: asyncio.Task[None]
    deadline: float


class Killer:
    """The ends under way in one pod."""

    def __init__(self, context: NodeContext, done: Callable[[], None]) -> None:
        """`done` is called when a container has ended."""
        self._context = context
        self._done = done
        self._endings: dict[str, _Ending] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def kill(self, pod: core.Pod, kill: Kill) -> None:
        """End a container; does nothing when that is under way with no longer a grace."""
        record = kill.record
        loop = asyncio.get_running_loop()
        deadline = loop.time() + kill.grace_seconds
        current = self._endings.get(record.id)
        if current is not None and current.deadline <= deadline + 0.5:
            return
        path, container = next(
            ((path, one) for path, one in all_containers(pod) if one.name == record.name), (None, None)
        )
        if current is None:
            self._context.events.event(pod, "Normal", "Killing", kill.message, field_path=path or "")
        hook = container if current is None and container is not None else None
        task = loop.create_task(self._end(pod, kill, hook), name=f"end {record.id}")
        self._endings[record.id] = _Ending(task, deadline)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait until all that is under way has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop waiting; the runtime goes on by itself with what it was asked."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end(self, pod: core.Pod, kill: Kill, container: core.Container | None) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        record = kill.record
        try:
            if container is not None and container.lifecycle.HasField("preStop"):
                await self._pre_stop(pod, kill, container)
            spent = int(loop.time() - began)
            grace = max(kill.grace_seconds - spent, LEAST_GRACE_SECONDS if spent else kill.grace_seconds)
            await self._context.runtime.stop_container(record.id, grace)
        except RuntimeFailure as error:
            log.warning(
                "container not ended yet",
                extra={"pod": pod_key(pod), "container": record.name, "error": str(error)},
            )
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            ending = self._endings.get(record.id)
            if ending is not None and ending.task is asyncio.current_task():
                del self._endings[record.id]
            self._done()

    async def _pre_stop(self, pod: core.Pod, kill: Kill, container: core.Container) -> None:
        hook = container.lifecycle.preStop
        try:
            async with asyncio.timeout(kill.grace_seconds):
                await run_hook(self._context, pod, container, hook, kill.record.id)
        except TimeoutError:
            log.info("preStop hook took all of the grace", extra={"pod": pod_key(pod), "container": container.name})
        except (HookError, RuntimeFailure) as error:
            path = next((path for path, one in all_containers(pod) if one.name == container.name), "")
            self._context.events.event(pod, "Warning", "FailedPreStopHook", str(error), field_path=path)
