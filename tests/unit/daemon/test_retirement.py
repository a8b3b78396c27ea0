"""What has been replaced is closed once: when its time is over, or with everything else."""

from __future__ import annotations

import asyncio

from wharfinger.daemon import Retirement


async def test_each_is_closed_when_its_time_is_over() -> None:
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()

    Retirement("thing").add(close, seconds=0)
    async with asyncio.timeout(10):
        await closed.wait()


async def test_all_are_closed_at_the_end_and_once() -> None:
    closed: list[str] = []

    async def close(name: str) -> None:
        await asyncio.sleep(0)
        closed.append(name)

    retired = Retirement("thing")
    for name in ("a", "b"):
        retired.add(lambda name=name: close(name), seconds=3600)
    await asyncio.sleep(0)
    await retired.close()
    await retired.close()
    assert sorted(closed) == ["a", "b"]


async def test_what_was_added_a_moment_ago_is_closed_too() -> None:
    closed: list[int] = []

    async def close() -> None:
        closed.append(1)

    retired = Retirement("thing")
    retired.add(close, seconds=3600)
    await retired.close()
    assert closed == [1]
