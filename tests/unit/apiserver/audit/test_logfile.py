"""The file: private, rotated, and nothing lost without being counted."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.apiserver.audit.logfile import LogFile


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_lines_come_in_order_into_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = LogFile(path)
    log.start()
    for number in range(1000):
        log.append(b"%d\n" % number)
    await log.stop()
    assert path.read_bytes() == b"".join(b"%d\n" % number for number in range(1000))
    assert path.stat().st_mode & 0o777 == 0o600
    assert (log.buffered, log.lost) == (0, 0)


async def test_lines_are_written_without_a_stop(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = LogFile(path)
    log.start()
    log.append(b"one\n")
    await until(lambda: path.read_bytes() == b"one\n")
    await log.stop()


async def test_rotation_keeps_so_many_files_and_cuts_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = LogFile(path, max_size=100, max_backups=2)
    log.start()
    for number in range(60):
        log.append(b"%09d\n" % number)
    await log.stop()
    backups = sorted(one for one in tmp_path.iterdir() if one != path)
    assert len(backups) == 2
    assert all(one.name.startswith("audit-2") and one.suffix == ".log" for one in backups)
    text = b"".join(one.read_bytes() for one in [*backups, path])
    lines = text.splitlines()
    assert lines == [b"%09d" % number for number in range(60 - len(lines), 60)]
    assert all(one.stat().st_size <= 100 for one in [*backups, path])
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in backups)


async def test_a_file_that_was_moved_away_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = LogFile(path)
    log.start()
    log.append(b"one\n")
    await until(lambda: path.read_bytes() == b"one\n")
    path.rename(tmp_path / "old")
    log.append(b"two\n")
    await log.stop()
    assert path.read_bytes() == b"two\n"


async def test_a_disk_that_is_full_loses_what_does_not_fit_the_buffer_and_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.log"
    full, write = threading.Event(), os.write
    full.set()

    def fake(fd: int, data: bytes) -> int:
        if full.is_set():
            raise OSError(28, "No space left on device")
        return write(fd, data[:7])  # and then it takes only a part

    log = LogFile(path, buffer_bytes=50)
    log.start()
    monkeypatch.setattr(os, "write", fake)
    for number in range(10):
        log.append(b"%09d\n" % number)
    assert log.lost == 5
    await until(lambda: log.failures > 0)
    full.clear()
    await until(lambda: log.buffered == 0)
    log.append(b"after\n")
    await log.stop()
    assert path.read_bytes() == b"".join(b"%09d\n" % number for number in range(5)) + b"after\n"
    assert log.lost == 5


async def test_what_cannot_be_written_at_the_end_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogFile(tmp_path / "audit.log")
    log.start()

    def fail(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    for _ in range(3):
        log.append(b"x\n")
    await log.stop()
    assert log.lost == 3


async def test_a_line_that_was_cut_off_gets_its_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"half a li")
    log = LogFile(path)
    log.start()
    log.append(b"whole\n")
    await log.stop()
    assert path.read_bytes() == b"half a li\nwhole\n"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "no" / "audit.log").start()


async def test_a_device_that_is_always_full(caplog: pytest.LogCaptureFixture) -> None:
    log = LogFile(Path("/dev/full"))
    log.start()
    log.append(b"x\n")
    await until(lambda: log.failures > 0)
    log.append(b"y\n")
    await log.stop()
    assert log.lost == 2
    told = [record.message for record in caplog.records]
    assert told.count("the audit log cannot be written; events are kept for a while") == 1
    assert "events of the audit log are lost with the end of the server" in told
