"""What the compactor does with its own faults."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.apiserver.store.maintenance import Compactor


async def test_a_fault_does_not_end_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = SimpleNamespace(client=SimpleNamespace(endpoints=[]))
    compactor = Compactor(store, period=0.001)
    looks, again = [0], asyncio.Event()

    async def look() -> int:
        looks[0] += 1
        if looks[0] == 1:
            raise ValueError("a fault")
        again.set()
        return 0

    monkeypatch.setattr(compactor, "look", look)
    running = asyncio.create_task(compactor.run())
    async with asyncio.timeout(5):
        await again.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
