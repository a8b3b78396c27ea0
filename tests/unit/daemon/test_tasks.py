"""Background tasks do not die silently."""

from __future__ import annotations

import asyncio
import logging

import pytest

from wharfinger.daemon import spawn


async def test_a_failure_is_logged_with_its_name_and_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ValueError("a fault")

    with caplog.at_level(logging.ERROR):
        task = spawn(fails(), name="worker of web")
        await asyncio.wait([task])
        await asyncio.sleep(0)
    (entry,) = caplog.records
    assert entry.__dict__["task"] == "worker of web"
    assert entry.exc_info is not None
    assert isinstance(entry.exc_info[1], ValueError)


async def test_a_cancelled_task_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        task = spawn(asyncio.Event().wait(), name="waits")
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert caplog.records == []
