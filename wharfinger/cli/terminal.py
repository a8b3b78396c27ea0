"""The terminal on this side: raw while a remote one is used, and as it was afterwards, whatever happens.

In raw mode every key goes to the process: Ctrl-C interrupts it, not us. What ends us then are signals, so those that
can be caught end the command in order, and the terminal is put back before it exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from typing import Any

from wharfinger.cli.failures import SilentExit

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def size(descriptor: int) -> tuple[int, int] | None:
    """Return a terminal's columns and lines; None for what is no terminal or does not know."""
    try:
        columns, lines = os.get_terminal_size(descriptor)
    except OSError:
        return None
    return (columns, lines) if columns and lines else None


@contextlib.contextmanager
def raw(descriptor: int) -> Iterator[None]:
    """Put a terminal into raw mode; within a running event loop, whose main task catchable signals cancel."""
    before = termios.tcgetattr(descriptor)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        if task is not None:
            task.cancel()

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    except asyncio.CancelledError:
        if ended:
            raise SilentExit(128 + ended[0]) from None
        raise
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number in _ENDING:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def resizes(changed: Callable[[], Any]) -> Iterator[None]:
    """Call a function whenever the terminal's size changes."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
