"""Running a daemon: uvloop, and an orderly end on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable

import uvloop

log = logging.getLogger(__name__)

GC_THRESHOLDS = (100_000, 50, 100)
"""The cycle collector's, in objects and in collections. Daemons hold many objects that live long and make few cycles:
with Python's own (700, 10, 10) an apiserver with 5,000 open streams spent half of its time looking for garbage."""


def run(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main(stop)` until it returns. `stop` is set by SIGTERM or SIGINT; a second signal cancels `main`.

    `main` must return soon after `stop` is set. Its errors pass through, except that an OSError (an address that is
    taken, a file that cannot be read) ends the process with code 1 and one line in the log.
    """

    async def outer() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main(stop))

        def on_signal(number: signal.Signals) -> None:
            if stop.is_set():
                task.cancel()
            log.info("stopping", extra={"signal": number.name})
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)
        try:
            await task
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            log.warning("stopped before everything was done")

    gc.set_threshold(*GC_THRESHOLDS)
    try:
        uvloop.run(outer())
    except OSError as error:  # an address in use, an unreadable file: what to do stands in the text
        log.critical("ended", extra={"error": str(error)})
        raise SystemExit(1) from error
