"""Where the lines of the audit log go: a file that is rotated, or standard output.

Requests do not wait for the disk. A line is put into a buffer; a thread of its own writes what has come together, after
a tenth of a second at the latest. When the file cannot be written (a full disk), lines wait in the buffer, up to
:data:`BUFFER_BYTES`; what comes then is lost, counted, and the log says so when it begins and when it is over. A line
that was written in part is finished before anything else. ``kill -9`` loses the last tenth of a second.

Rotation and the names of old files are those of kube-apiserver's logger: ``audit.log`` becomes
``audit-2026-12-01T05-00-00.000.log`` (UTC). A file that somebody else has moved away is opened anew under its name.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import stat
import threading
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

BUFFER_BYTES = 32 << 20
PAUSE = 0.1
"""Seconds for which lines are gathered."""
RETRY = 1.0
"""Seconds between attempts to write a file that cannot be written."""
_EAGER = 1 << 20
"""Bytes in the buffer that are written at once."""
_BATCH = 1 << 20
_DAY = 86_400


class LogFile:
    """One audit log.

    `path` None: standard output. `max_size` in bytes, `max_age` in seconds, `max_backups` in files; 0: without limit.
    Lines are appended from the event loop's thread alone.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        max_size: int = 0,
        max_age: float = 0,
        max_backups: int = 0,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.path = path
        self._max_size = max_size
        self._max_age = max_age
        self._max_backups = max_backups
        self._limit = buffer_bytes
        self._lines: deque[bytes] = deque()
        # Each of the two is changed by one thread only, so neither needs a lock.
        self._appended = self._taken = 0
        self.lost = 0
        """Lines that were not written and will not be."""
        self.failures = 0
        """Attempts to write that failed."""
        self._failing = False
        self._fd = -1
        self._size = 0
        self._rotated = datetime.min.replace(tzinfo=UTC)
        self._rest = memoryview(b"")
        self._rest_lines = 0
        self._wake = threading.Event()
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # --- the event loop's side ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file and begin to write. Raises OSError, but not for a disk that is full: that may pass."""
        try:
            self._open()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._fail(error)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Write what is left, as far as that is possible now."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._stopping = True
        self._wake.set()
        await asyncio.to_thread(thread.join, 10.0)

    def append(self, line: bytes) -> None:
        """Take a line, with its end of line. Never waits, never raises."""
        size = self._appended - self._taken + len(line)
        if size > self._limit:
            self.lost += 1
            if self.lost == 1 or self.lost % 100_000 == 0:
                log.error("the audit log's buffer is full: events are lost", extra={"lost": self.lost})
            return
        self._lines.append(line)
        self._appended += len(line)
        if size > _EAGER:
            self._wake.set()
        elif self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(PAUSE, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._wake.set()

    @property
    def buffered(self) -> int:
        """Bytes that wait to be written."""
        return self._appended - self._taken

    # --- the thread's side ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.wait(RETRY if self._failing else None)
            self._wake.clear()
            last = self._stopping
            try:
                self._write_all()
            except OSError as error:
                self._fail(error)
                if last:
                    lost = len(self._lines) + self._rest_lines
                    self.lost += lost
                    log.error("events of the audit log are lost with the end of the server", extra={"lost": lost})
            if last:
                self._close()
                return

    def _write_all(self) -> None:
        """Write until nothing is left. Raises OSError."""
        while self._rest or self._lines:
            if self._fd < 0:
                self._open()
            if not self._rest:
                self._gather()
            while self._rest:
                written = os.write(self._fd, self._rest)
                self._size += written
                self._taken += written
                self._rest = self._rest[written:]
            self._rest_lines = 0
            if self._failing:
                self._failing = False
                log.warning("the audit log can be written again", extra={"file": self._name, "lost": self.lost})

    def _gather(self) -> None:
        """Take the next lines out of the buffer, and see to it that there is a file for them."""
        self._see_to_file(len(self._lines[0]))
        room = self._max_size - self._size if self._max_size else _BATCH
        parts = [self._lines.popleft()]
        size = len(parts[0])
        while self._lines and size + len(self._lines[0]) <= min(room, _BATCH):
            size += len(self._lines[0])
            parts.append(self._lines.popleft())
        self._rest, self._rest_lines = memoryview(b"".join(parts)), len(parts)

    def _see_to_file(self, wanted: int) -> None:
        if self.path is None:
            return
        try:
            there, own = os.stat(self.path), os.fstat(self._fd)
            moved = (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino)
        except FileNotFoundError:
            moved = True
        if moved:
            self._close()
            self._open()
        elif self._max_size and self._size and self._size + wanted > self._max_size:
            self._rotate()

    def _rotate(self) -> None:
        assert self.path is not None
        moment = max(datetime.now(UTC), self._rotated + timedelta(milliseconds=1))
        while (backup := self._backup(moment)).exists():
            moment += timedelta(milliseconds=1)
        self._rotated = moment  # names sort as the files came, however many come within a millisecond
        os.rename(self.path, backup)
        self._close()
        self._open()
        self._remove_old()

    def _backup(self, moment: datetime) -> Path:
        assert self.path is not None
        stamp = f"{moment:%Y-%m-%dT%H-%M-%S}.{moment.microsecond // 1000:03d}"
        return self.path.with_name(f"{self.path.stem}-{stamp}{self.path.suffix}")

    def _remove_old(self) -> None:
        """Remove backups that are too many or too old."""
        assert self.path is not None
        pattern = re.compile(
            re.escape(self.path.stem) + r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}" + re.escape(self.path.suffix)
        )
        found = sorted((one for one in self.path.parent.iterdir() if pattern.fullmatch(one.name)), reverse=True)
        oldest = time.time() - self._max_age
        for number, one in enumerate(found):
            many = self._max_backups and number >= self._max_backups
            try:
                if many or (self._max_age and one.stat().st_mtime < oldest):
                    one.unlink()
            except OSError as error:
                log.warning("an old audit log cannot be removed", extra={"file": str(one), "error": str(error)})

    @property
    def _name(self) -> str:
        return "standard output" if self.path is None else str(self.path)

    def _open(self) -> None:
        if self.path is None:
            self._fd = os.dup(1)
            return
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = os.fstat(self._fd)
        self._size = found.st_size
        regular = stat.S_ISREG(found.st_mode)
        if regular and not self._rest and self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self._size += os.write(self._fd, b"\n")  # a server before us was ended in the middle of a line
        if regular and found.st_mode & 0o007:
            log.warning("others may read the audit log", extra={"file": self._name, "mode": oct(found.st_mode & 0o777)})

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _fail(self, error: OSError) -> None:
        self.failures += 1
        if not self._failing:
            self._failing = True
            log.error(
                "the audit log cannot be written; events are kept for a while",
                extra={"file": self._name, "error": error.strerror or str(error)},
            )
