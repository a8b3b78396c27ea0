"""systemd's notification socket, with a socket of our own in its place."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from wharfinger.daemon import notify, watchdog


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
        yield listening


async def heard(manager: socket.socket) -> str:
    async with asyncio.timeout(5):
        return (await asyncio.get_running_loop().sock_recv(manager, 100)).decode()


async def test_states_reach_the_manager(manager: socket.socket) -> None:
    assert notify("READY=1")
    assert await heard(manager) == "READY=1"


def test_without_a_manager_nobody_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify("READY=1")


async def test_the_watchdog_is_fed_while_all_is_well(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    well, asked = [True], [0]

    def healthy() -> bool:
        asked[0] += 1
        return well[0]

    feeding = asyncio.create_task(watchdog(healthy))
    assert [await heard(manager), await heard(manager)] == ["WATCHDOG=1"] * 2
    well[0] = False
    while True:  # what was on its way
        try:
            manager.recv(100)
        except BlockingIOError:
            break
    seen = asked[0]
    async with asyncio.timeout(5):
        while asked[0] < seen + 3:
            await asyncio.sleep(0.005)
    with pytest.raises(BlockingIOError):
        manager.recv(100)
    feeding.cancel()


async def test_the_watchdog_of_another_process_is_not_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    async with asyncio.timeout(5):
        await watchdog()  # returns at once
