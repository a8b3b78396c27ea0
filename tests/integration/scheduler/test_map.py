"""``wharf map -w`` in a terminal: it draws, draws anew as things change, and ends on Ctrl-C."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

from tests.integration.scheduler.conftest import World

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_CTRL_C = b"\x03"


class Terminal:
    """A program in a pseudo terminal of 120 x 40, and all that it has printed."""

    def __init__(self, arguments: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # the child
            os.environ["TERM"] = "xterm"
            os.execv(arguments[0], arguments)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(self.fd, False)
        self.printed = b""

    async def until(self, text: str, *, seconds: float = 20.0) -> None:
        """Wait until the program has printed a text."""
        async with asyncio.timeout(seconds):
            while text.encode() not in _ESCAPES.sub(b"", self.printed):
                self._read()
                await asyncio.sleep(0.02)

    def _read(self) -> None:
        try:
            self.printed += os.read(self.fd, 65536)
        except (BlockingIOError, OSError):
            return  # nothing there, or (EIO) the program has ended

    async def ended(self, *, seconds: float = 20.0) -> int:
        """Wait for the program's end; returns its exit status."""
        async with asyncio.timeout(seconds):
            while True:
                self._read()
                pid, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 - it does not block
                if pid:
                    os.close(self.fd)
                    return os.waitstatus_to_exitcode(status)
                await asyncio.sleep(0.02)


async def test_a_live_picture(world: World) -> None:
    await world.node("m-1", cpu="4")
    program = str(Path(sys.executable).parent / "wharf")
    terminal = Terminal([program, "--kubeconfig", str(world.cluster.kubeconfig), "map", "-w", "--width", "20"])
    try:
        await terminal.until("m-1")
        await terminal.until("0/110")
        before = len(terminal.printed)
        await world.pod("half", "2")
        await world.bound("half")
        await terminal.until("50%")
        await terminal.until("██████████··········")
        await terminal.until("1/110")
        assert b"\x1b[1A" in terminal.printed[before:], "drawn over the last picture, not below it"
        await world.node("m-2", cpu="1")
        await terminal.until("m-2")
    finally:
        os.write(terminal.fd, _CTRL_C)
        code = await terminal.ended()
    assert code in (0, 130, -2)
    assert b"Traceback" not in terminal.printed
