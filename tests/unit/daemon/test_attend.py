"""The work of a daemon ends with the daemon, and the daemon with its work."""

from __future__ import annotations

import asyncio

import pytest

from wharfinger.daemon import attend


async def test_it_stops_when_told_to_and_lets_the_work_clean_up() -> None:
    stop, cleaned = asyncio.Event(), []

    async def work() -> None:
        try:
            stop.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    await attend(work(), stop, name="work")
    assert cleaned


async def test_a_failure_of_the_work_ends_the_daemon() -> None:
    async def work() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await attend(work(), asyncio.Event(), name="work")
