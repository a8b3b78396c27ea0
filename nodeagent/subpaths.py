"""subPath: a part of a volume, held fast from the moment it was checked.

Whoever writes to a volume could put a link in the place of a folder after the agent has looked and before the runtime
mounts, and so get any file of the node into a container (CVE-2017-1002101). So the way down is walked one name at a
time without following links, and what it ends at is bound, by its open descriptor, to a place below the pod's own
folder that no container reaches; the runtime gets that place. Links that were there before are followed as long as they
stay within the volume.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from nodeagent.mounting import bind, unmount

_NOFOLLOW = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o2777
"""Of the volume's own mode, what folders made in it get."""


class SubPathError(Exception):
    """Raised when a subPath cannot be used."""


def pin(volume: Path, below: str, target: Path) -> Path:
    """Bind a part of a volume, made as a folder when missing, to `target`; return that.

    What was bound there for an earlier run is unmounted first. Raises SubPathError, OSError.
    """
    descriptor = open_below(volume, below)
    try:
        while unmount(target):
            pass
        _prepare(target, folder=stat.S_ISDIR(os.fstat(descriptor).st_mode))
        bind(descriptor, target)
    finally:
        os.close(descriptor)
    return target


def open_below(volume: Path, below: str) -> int:
    """Return a descriptor (O_PATH) of a part of a volume. Raises SubPathError."""
    if below.startswith("/") or ".." in below.split("/"):
        raise SubPathError(f"subPath {below!r} must be relative and must not contain '..'")
    try:
        base = volume.resolve()
        wanted = (base / below).resolve()
        if base not in (wanted, *wanted.parents):
            raise SubPathError(f"subPath {below!r} leads out of the volume")
        return _walk(base, wanted.relative_to(base).parts)
    except (OSError, RuntimeError) as error:  # RuntimeError: resolve() says so of links that go round
        raise SubPathError(f"subPath {below!r} cannot be opened: {error}") from error


def _walk(base: Path, parts: tuple[str, ...]) -> int:
    at = os.open(base, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(at).st_mode & _MODE
        for part in parts:
            step = _step(at, part, mode)
            os.close(at)
            at = step
            if stat.S_ISLNK(os.fstat(at).st_mode):
                raise SubPathError(f"{part!r} has become a link while it was looked at")
    except BaseException:
        os.close(at)
        raise
    return at


def _step(at: int, part: str, mode: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.open(part, _NOFOLLOW, dir_fd=at)
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=at)
        made = os.open(part, _NOFOLLOW | os.O_DIRECTORY, dir_fd=at)
        os.chmod(f"/proc/self/fd/{made}", mode)  # whatever the umask is
        return made
    return os.open(part, _NOFOLLOW, dir_fd=at)


def _prepare(target: Path, *, folder: bool) -> None:
    """Make the place to bind to be there, as a folder or a file: both empty, nothing but what is mounted over."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not folder:
        target.rmdir()
    elif target.exists() and not target.is_dir() and folder:
        target.unlink()
    if folder:
        target.mkdir(mode=0o700, exist_ok=True)
    else:
        target.touch(mode=0o600)
