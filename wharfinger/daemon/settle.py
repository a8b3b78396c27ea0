"""What a daemon does with memory that it does not need: that of its start, and that of a burst which is over.

glibc keeps freed memory for later. What the start left over an idle daemon never uses again; and after a burst (a
thousand clients that list everything at once, a hostile one with megabytes of headers) it would stay as large as it had
to be for a moment. Without glibc nothing of this happens.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging

log = logging.getLogger(__name__)

PERIOD = 30.0
MUCH = 64 << 20
"""Bytes that must have become free since the last time before giving them back pays: allocation stops meanwhile."""


class _Information(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def settle() -> None:
    """Give what the start left over back to the system, and keep the cycle collector from looking at what stays.

    Modules, descriptors and compiled codecs live as long as the process.
    """
    gc.collect()
    gc.freeze()
    trim()


def trim() -> None:
    """Give free memory back to the system."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


def free_bytes() -> int:
    """Return how many bytes the allocator keeps that nobody uses; 0 where nobody can tell."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return 0
    ask.restype = _Information
    return int(ask().fordblks)


async def stay_settled(*, period: float = PERIOD, much: int = MUCH) -> None:
    """Look every `period` seconds whether a burst has left `much` memory behind, and give it back. Runs for ever."""
    left = free_bytes()
    while True:
        await asyncio.sleep(period)
        free = free_bytes()
        if free - left < much:
            left = min(left, free)
            continue
        await asyncio.to_thread(trim)
        left = free_bytes()  # much of it still counts as free, but has no pages any more
        log.debug("free memory was given back", extra={"bytes": free})
