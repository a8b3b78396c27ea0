"""Files that others only ever see whole: written aside, and put in their place by a rename."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write a file in one step, never with more rights than `mode`, not even for a moment.

    `durable`: wait until the content is on the disk, so that after a loss of power there is the old file or the new
    one. The folder is made if need be. Raises OSError; then the file is what it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600 from the first moment
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
