"""Reading containers' logs in the CRI format: ``time stream tags text``, one line an entry.

A line whose tag is P is continued by the next one of its stream. Rotated files (``0.log.20261130-221500``) come before
the current one. https://kubernetes.io/docs/concepts/cluster-administration/logging/
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wharfinger.api.times import parse_rfc3339

CHUNK_BYTES = 64 * 1024
SLICE_LINES = 500
"""Lines looked at in one go."""
POLL_SECONDS = 0.1
"""Between looks for more while following."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What is asked of a log."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: tuple[int, int] | None = None
    """Seconds and nanoseconds since the epoch."""
    limit_bytes: int | None = None


def files_of(path: Path) -> list[Path]:
    """Return the files of a log, oldest first."""
    rotated = sorted(file for file in path.parent.glob(f"{path.name}.*") if not file.name.endswith((".tmp", ".gz")))
    return [*rotated, path]


def entry(line: bytes, query: LogQuery) -> bytes | None:
    """Return what is shown of one line of the file; None when it is left out or malformed."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) < 3:
        return None
    stamp, tags = parts[0], parts[2]
    text = parts[3] if len(parts) == 4 else b""
    if query.since is not None:
        try:
            if parse_rfc3339(stamp.decode()) < query.since:
                return None
        except ValueError:
            return None
    if not tags.startswith(b"P"):
        text += b"\n"
    return stamp + b" " + text if query.timestamps else text


async def read_log(path: Path, query: LogQuery, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield a log in chunks; with follow until `ended()` says that nothing more comes, and all has been read.

    Raises FileNotFoundError when there is no log.
    """
    left = query.limit_bytes
    files = files_of(path)
    # What is there now is read up to where following begins: no line twice, none lost.
    current = _Follower(path) if query.follow else None
    until = current.begin if current is not None else None
    if current is None and not any(file.exists() for file in files):
        raise FileNotFoundError(path)
    lines = _all_lines(files, until) if query.tail_lines is None else _last_lines(files, query.tail_lines, until)
    buffer = bytearray()
    for number, line in enumerate(lines, 1):
        if number % SLICE_LINES == 0:
            await asyncio.sleep(0)  # a long log must not hold up the others, also when nothing of it is shown
        shown = entry(line, query)
        if shown is None:
            continue
        buffer += shown if left is None else shown[:left]
        left = None if left is None else max(0, left - len(shown))
        if len(buffer) >= CHUNK_BYTES or left == 0:
            yield bytes(buffer)
            buffer.clear()
        if left == 0:
            return
    if buffer:
        yield bytes(buffer)
    if current is None:
        return
    try:
        while True:
            done = ended()
            shown_all = b"".join(shown for line in current.more() if (shown := entry(line, query)) is not None)
            if left is not None:
                shown_all = shown_all[:left]
                left -= len(shown_all)
            if shown_all:
                yield shown_all
            if done or left == 0:
                return
            await asyncio.sleep(POLL_SECONDS)
    finally:
        current.close()


class _Follower:
    """Reads what is added to a log, also over its rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self.begin = _after_last_line(self._file)
        self._file.seek(self.begin)
        self._rest = b""

    def more(self) -> Iterator[bytes]:
        data = self._rest + self._file.read()
        complete, newline, self._rest = data.rpartition(b"\n")
        if newline:
            yield from complete.split(b"\n")
        try:
            if self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino:
                self._file.close()
                self._file = self._path.open("rb")
                yield from self.more()
        except FileNotFoundError:
            return  # between two files of a rotation

    def close(self) -> None:
        self._file.close()


def _after_last_line(stream: BinaryIO) -> int:
    """Return the position behind the last complete line."""
    position = stream.seek(0, os.SEEK_END)
    while position > 0:
        step = min(CHUNK_BYTES, position)
        stream.seek(position - step)
        found = stream.read(step).rfind(b"\n")
        if found >= 0:
            return position - step + found + 1
        position -= step
    return 0


def _all_lines(files: list[Path], until: int | None) -> Iterator[bytes]:
    """Yield all complete lines; of the last file only those before position `until`."""
    for file in files:
        left = until if file is files[-1] else None
        try:
            with file.open("rb") as stream:
                for line in stream:
                    if left is not None and (left := left - len(line)) < 0:
                        break
                    if line.endswith(b"\n"):
                        yield line
        except FileNotFoundError:
            continue  # rotated away meanwhile


def _last_lines(files: list[Path], count: int, until: int | None) -> Iterator[bytes]:
    """Yield the last `count` complete lines, reading the files from behind."""
    if count <= 0:
        return
    found: list[bytes] = []
    for file in reversed(files):
        try:
            block = _tail_of(file, count - len(found), until if file is files[-1] else None)
        except FileNotFoundError:
            continue
        found = block + found
        if len(found) >= count:
            break
    yield from found[-count:]


def _tail_of(file: Path, count: int, until: int | None) -> list[bytes]:
    with file.open("rb") as stream:
        position = stream.seek(0, os.SEEK_END) if until is None else until
        data = b""
        while position > 0 and data.count(b"\n") <= count:
            step = min(CHUNK_BYTES, position)
            position -= step
            stream.seek(position)
            data = stream.read(step) + data
    lines = data.split(b"\n")
    if position > 0:
        lines = lines[1:]
    return [line + b"\n" for line in lines[:-1]][-count:]
