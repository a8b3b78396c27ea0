from __future__ import annotations

import asyncio

import pytest

from nodeagent import logrotation
from nodeagent.hollow import HollowRuntime
from nodeagent.logrotation import LogRotation
from nodeagent.logs import LogQuery, read_log
from nodeagent.runtime import ContainerRecord, ContainerState, PodRecord, RuntimeFailure


def line(second, text, tags="F"):
    return f"2026-01-01T00:00:{second:02d}.000000000Z stdout {tags} {text}\n"


async def shown(path, ended=lambda: True, **query):
    return b"".join([chunk async for chunk in read_log(path, LogQuery(**query), ended)]).decode()


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "0.log"
    (tmp_path / "0.log.20260101-000001").write_text(line(1, "one") + line(2, "two"))
    path.write_text(line(3, "thr", "P") + line(3, "ee") + line(4, "four"))
    return path


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, "one\ntwo\nthree\nfour\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 1}, "four\n"),
        ({"tail_lines": 4}, "two\nthree\nfour\n"),
        ({"tail_lines": 99}, "one\ntwo\nthree\nfour\n"),
        ({"limit_bytes": 6}, "one\ntw"),
        ({"since": (1767225604, 0)}, "four\n"),
        ({"tail_lines": 1, "timestamps": True}, "2026-01-01T00:00:04.000000000Z four\n"),
    ],
)
async def test_query(log, query, text):
    assert await shown(log, **query) == text


async def test_a_long_log_of_which_nothing_is_shown_lets_others_run(tmp_path):
    path = tmp_path / "0.log"
    path.write_text(line(1, "old") * 3000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert await shown(path, since=(1767225604, 0)) == ""
    task.cancel()
    assert turns > 3


async def test_missing_log(tmp_path):
    with pytest.raises(FileNotFoundError):
        await shown(tmp_path / "0.log")


async def test_half_a_line_is_not_shown(tmp_path):
    path = tmp_path / "0.log"
    path.write_text(line(1, "whole") + line(2, "half")[:-4])
    assert await shown(path) == "whole\n"


async def test_follow_reads_on_over_a_rotation_until_the_end(tmp_path):
    path = tmp_path / "0.log"
    path.write_text(line(1, "one"))
    over = asyncio.Event()
    seen = ""

    async def follow():
        nonlocal seen
        async for chunk in read_log(path, LogQuery(follow=True), over.is_set):
            seen += chunk.decode()

    async def until(text):
        async with asyncio.timeout(5):
            while seen != text:
                await asyncio.sleep(0.01)

    task = asyncio.create_task(follow())
    await until("one\n")
    with path.open("a") as file:
        file.write(line(2, "two"))
    await until("one\ntwo\n")
    path.rename(tmp_path / "0.log.20260101-000002")
    path.write_text(line(3, "three"))
    await until("one\ntwo\nthree\n")
    over.set()
    await asyncio.wait_for(task, 5)


async def test_rotation_renames_reopens_and_drops_the_oldest(tmp_path):
    path = tmp_path / "0.log"
    path.write_text("x" * 100)
    for number in range(4):
        (tmp_path / f"0.log.2026010{number}-000000").write_text(str(number))
    record = ContainerRecord("c", "s", "u", "c", 0, ContainerState.RUNNING, 0, log_path=str(path))
    reopened = []

    class Runtime(HollowRuntime):
        async def list_pods(self):
            return {"u": PodRecord("u", containers=(record,))}

        async def inspect(self, uid):
            return PodRecord("u", containers=(record,))

        async def reopen_log(self, container_id):
            reopened.append(container_id)

    await LogRotation(Runtime(), max_size=100, max_files=3).look()
    assert reopened == ["c"]
    assert not path.exists()
    kept = sorted(file.read_text() for file in tmp_path.iterdir())
    assert kept == ["3", "x" * 100]


async def test_a_log_that_cannot_be_rotated_keeps_none_from_its_turn(tmp_path, monkeypatch):
    paths = {name: tmp_path / name / "0.log" for name in ("a", "b", "c")}
    for path in paths.values():
        path.parent.mkdir()
        path.write_text("x" * 100)
    records = tuple(
        ContainerRecord(name, "s", "u", name, 0, ContainerState.RUNNING, 0, log_path=str(path))
        for name, path in paths.items()
    )
    reopened = []

    class Runtime(HollowRuntime):
        async def list_pods(self):
            return {"u": PodRecord("u", containers=records)}

        async def inspect(self, uid):
            return PodRecord("u", containers=records)

        async def reopen_log(self, container_id):
            if container_id == "b":
                raise RuntimeFailure("it has just ended")
            reopened.append(container_id)

    rename = logrotation._rename

    def vanishing(path, name):
        if path == paths["a"]:
            raise FileNotFoundError(path)
        return rename(path, name)

    monkeypatch.setattr(logrotation, "_rename", vanishing)
    await LogRotation(Runtime(), max_size=100, max_files=3).look()
    assert reopened == ["c"]
    assert paths["b"].read_text() == "x" * 100  # put back
    assert not paths["c"].exists()
