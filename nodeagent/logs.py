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

from wharfinger.api.times import parse_rfc3339

CHUNK_BYTES = 64 * 1024
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
    current = _Follower(path) if query.follow else None
    if current is None and not any(file.exists() for file in files):
        raise FileNotFoundError(path)
    lines = _last_lines(files, query.tail_lines) if query.tail_lines is not None else _all_lines(files)
    buffer = bytearray()
    for line in lines:
        shown = entry(line, query)
        if shown is None:
            continue
        buffer += shown if left is None else shown[:left]
        left = None if left is None else max(0, left - len(shown))
        if len(buffer) >= CHUNK_BYTES or left == 0:
            yield bytes(buffer)
            buffer.clear()
            await asyncio.sleep(0)  # a long log must not hold up the others
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
        self._file.seek(0, os.SEEK_END)
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


def _all_lines(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        try:
            with file.open("rb") as stream:
                for line in stream:
                    if line.endswith(b"\n"):
                        yield line
        except FileNotFoundError:
            continue  # rotated away meanwhile


def _last_lines(files: list[Path], count: int) -> Iterator[bytes]:
    """Yield the last `count` complete entries, reading the files from behind."""
    if count <= 0:
        return
    found: list[bytes] = []
    for file in reversed(files):
        try:
            block = _tail_of(file, count - len(found))
        except FileNotFoundError:
            continue
        found = block + found
        if len(found) >= count:
            break
    yield from found[-count:]


def _tail_of(file: Path, count: int) -> list[bytes]:
    with file.open("rb") as stream:
        position = stream.seek(0, os.SEEK_END)
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
