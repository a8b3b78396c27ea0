"""One agent a root folder: two of them would start every pod twice, each taking the other's containers for its own.

The kernel lets go of the lock when the process ends, however it ends, so a killed agent never stands in the way of the
next one; one that is only stopped (SIGSTOP) does, as it should.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

NAME = "agent.lock"


class RootTakenError(Exception):
    """Raised when another agent works in the folder."""


def take(root: Path) -> int:
    """Lock a root folder until this process ends; return the open file. Raises RootTakenError, OSError."""
    root.mkdir(parents=True, exist_ok=True)
    file = os.open(root / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(file)
        raise RootTakenError(
            f"--root-dir: {root}: another agent (pid {holder}) works in it; stop that one, or give this one a folder, "
            "a node name and a container runtime of its own"
        ) from None
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file
