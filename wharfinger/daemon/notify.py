"""systemd's notification protocol (sd_notify(3)): readiness, status and the watchdog.

Without NOTIFY_SOCKET in the environment, as when started by hand, everything here does nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable


def notify(state: str) -> bool:
    """Send a state such as ``READY=1`` or ``STATUS=…``; return whether somebody was there to take it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return False  # the manager is gone or was never there; nothing else can be told to it
    return True


def watchdog_interval() -> float | None:
    """Return the seconds within which systemd wants to hear from this process, or None."""
    microseconds = os.environ.get("WATCHDOG_USEC")
    pid = os.environ.get("WATCHDOG_PID")
    if not microseconds or (pid and int(pid) != os.getpid()):
        return None
    return int(microseconds) / 1_000_000


async def watchdog(healthy: Callable[[], bool] = lambda: True) -> None:
    """Tell systemd at half its interval that the event loop runs; fall silent while `healthy` says no."""
    interval = watchdog_interval()
    if interval is None:
        return
    while True:
        if healthy():
            notify("WATCHDOG=1")
        await asyncio.sleep(interval / 2)
