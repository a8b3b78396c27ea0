"""A command in a container with this process's stdin, stdout and stderr.

Standard input is read by a thread of its own: it may be a file, a pipe or a terminal, and no event loop waits for all
of these. The thread hands over one piece and reads the next when the stream has taken it. It dies with the process, so
a read that never returns (a terminal where nobody types) keeps nothing alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
from typing import TYPE_CHECKING

from wharfinger.cli import terminal
from wharfinger.cli.failures import CommandError, complain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from wharfinger.client.streams import RemoteCommand

_PIECE = 32 << 10


class Stdin:
    """Pieces of standard input, as they come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(2)

    def __aiter__(self) -> AsyncIterator[bytes]:
        threading.Thread(target=self._read, name="stdin", daemon=True).start()
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece
            self._room.release()

    def _read(self) -> None:
        piece = b"-"
        while piece:
            self._room.acquire()
            try:
                piece = os.read(self._descriptor, _PIECE)
            except OSError:
                piece = b""  # a terminal that has hung up
            try:
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
            except RuntimeError:
                return  # the command has ended meanwhile


def write_out(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises BrokenPipeError when nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # somebody has made the shared terminal or pipe non-blocking
            select.select([], [descriptor], [])


async def run(stream: RemoteCommand, *, stdin: bool, tty: bool, redraw: bool = False) -> int:
    """Join a stream with this process until it ends; returns the exit code. `redraw` makes the process paint anew."""
    from wharfinger.client.streams import exit_code

    sys.stdout.flush()
    sys.stderr.flush()
    status = b""
    descriptor = 0
    with contextlib.ExitStack() as stack:
        if tty:
            stack.enter_context(terminal.raw(descriptor))
        inputs = asyncio.create_task(_inputs(stream, descriptor)) if stdin else None
        resizing = asyncio.create_task(_resize(stream, stack, redraw=redraw)) if tty else None
        try:
            async for output in stream.outputs():
                match output.WhichOneof("output"):
                    case "stdout":
                        write_out(1, output.stdout)
                    case "stderr":
                        write_out(2, output.stderr)
                    case "status":
                        status = output.status
        finally:
            for task in filter(None, (inputs, resizing)):
                task.cancel()
    code, message = exit_code(status)
    if code < 0:
        raise CommandError(message)
    return code


def say_exit(code: int) -> int:
    """Say how a command ended, unless it ended well."""
    if code:
        complain(f"command terminated with exit code {code}")
    return code


async def _inputs(stream: RemoteCommand, descriptor: int) -> None:
    async for piece in Stdin(descriptor):
        if not await stream.stdin(piece):
            return
    await stream.close_stdin()


async def _resize(stream: RemoteCommand, stack: contextlib.ExitStack, *, redraw: bool) -> None:
    changed = asyncio.Event()
    stack.enter_context(terminal.resizes(changed.set))
    if redraw and (now := terminal.size(1)) is not None:
        await stream.resize(now[0] + 1, now[1] + 1)  # a size that differs makes full-screen programs paint anew
    last = None
    while True:
        now = terminal.size(1) or terminal.size(0)
        if now is not None and now != last:
            await stream.resize(*now)
            last = now
        await changed.wait()
        changed.clear()
