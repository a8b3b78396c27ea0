"""mount(2) and umount(2), without a process for each: a node mounts a memory-backed volume for nearly every pod."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_LIBC.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
_MS_BIND = 0x1000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def mount_tmpfs(path: Path, options: str) -> None:
    """Mount a tmpfs with `options` (``mode=1777``, ``size=1048576``). Raises OSError."""
    if _LIBC.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))


def bind(descriptor: int, target: Path) -> None:
    """Mount what a descriptor stands for, wherever its name leads by now, at `target`. Raises OSError."""
    if _LIBC.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(target), None, _MS_BIND, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(target))


def unmount(path: Path) -> bool:
    """Take off what was mounted last at `path`, also while it is in use; False when nothing was. Raises OSError."""
    if _LIBC.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOENT):
        return False
    raise OSError(code, os.strerror(code), str(path))
