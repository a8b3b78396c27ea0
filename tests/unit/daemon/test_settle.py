"""Memory that a burst has left behind is given back, once."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import Any

import pytest

settle: Any = importlib.import_module("wharfinger.daemon.settle")  # the package's name for it is the function


async def test_memory_is_given_back_when_much_has_become_free(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter([10, 10, 12, 300, 290, 290, 5, 80, 150, 140])
    trimmed: list[int] = []
    seen: list[int] = []

    def free() -> int:
        try:
            seen.append(next(figures))
        except StopIteration:
            raise asyncio.CancelledError from None
        return seen[-1]

    monkeypatch.setattr(settle, "free_bytes", free)
    monkeypatch.setattr(settle, "trim", lambda: trimmed.append(seen[-1]))
    with contextlib.suppress(asyncio.CancelledError):
        await settle.stay_settled(period=0, much=100)
    assert trimmed == [300, 150]


def test_the_allocator_tells_what_is_free() -> None:
    if not settle.free_bytes():
        pytest.skip("this C library does not tell")
    blocks = [bytes(40_000) for _ in range(500)]
    between = [bytes(40_000) for _ in range(2)]
    before = settle.free_bytes()
    del blocks
    assert settle.free_bytes() > before + 5_000_000
    settle.trim()
    assert between
