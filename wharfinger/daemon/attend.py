"""The middle of a daemon's life: its work runs, systemd knows, and it ends in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from wharfinger.daemon.notify import notify, watchdog
from wharfinger.daemon.settle import settle
from wharfinger.daemon.tasks import spawn


async def attend(work: Coroutine[Any, Any, None], stop: asyncio.Event, *, name: str) -> None:
    """Run the work of a daemon until `stop` is set or it ends; raises what it ended with.

    Tells systemd that the daemon is ready, alive, and stopping.
    """
    working = spawn(work, name=name)
    beat = spawn(watchdog(lambda: not working.done()), name="watchdog")
    stopping = asyncio.ensure_future(stop.wait())
    settle()
    notify("READY=1")
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        notify("STOPPING=1")
        for task in (stopping, beat, working):
            task.cancel()
        await asyncio.gather(stopping, beat, working, return_exceptions=True)
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error
