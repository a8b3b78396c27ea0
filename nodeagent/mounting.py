"""mount(2) for memory-backed volumes, without a process for each: a node mounts one for nearly every pod."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def mount_tmpfs(path: Path, options: str) -> None:
    """Mount a tmpfs with `options` (``mode=1777``, ``size=1048576``). Raises OSError."""
    if _LIBC.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))
