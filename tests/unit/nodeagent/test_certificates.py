"""Renewal of the node's own certificates: what is of no use never becomes the file, and no trouble ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent import certificates as own
from wharfinger import pki

WANTED = own.Wanted(own.SERVING_SIGNER, "n1", ("n1",), ("192.0.2.1",))


class Signer:
    """Gives what it is told to, the last again and again."""

    def __init__(self, *given: bytes) -> None:
        self.given = list(given)
        self.asked = 0

    async def obtain(self, client: object, wanted: own.Wanted) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        return self.given.pop(0) if len(self.given) > 1 else self.given[0]


@pytest.fixture
def good(tmp_path: Path) -> bytes:
    return _pair(tmp_path, "n1", "192.0.2.1")


def _pair(folder: Path, *names: str) -> bytes:
    ca = pki.ensure_ca(folder / "ca", "ca")
    dns = [name for name in names if not name[0].isdigit()]
    pair = pki.issue_server(ca, "system:node:n1", dns, [name for name in names if name not in dns])
    return pair.cert + pair.key


async def _renew(path: Path, until: Callable[[], bool]) -> int:
    """Run a renewer until a condition holds; returns how often a new certificate was taken over."""
    taken = 0

    async def renewed() -> None:
        nonlocal taken
        taken += 1

    client: object = None
    renewer = own.Renewer(path, lambda: WANTED, client=client, renewed=renewed)  # type: ignore[arg-type]
    task = asyncio.create_task(renewer.run())
    try:
        async with asyncio.timeout(20):
            while not until() and not task.done():
                await asyncio.sleep(0.01)
        assert not task.done(), task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return taken


async def test_what_nobody_can_read_is_asked_for_again(
    tmp_path: Path, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = Signer(b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", good)
    monkeypatch.setattr(own, "obtain", signer.obtain)
    monkeypatch.setattr(own, "_RETRY_SECONDS", (0.01,))
    path = tmp_path / "pki" / own.SERVING_FILE
    assert await _renew(path, path.exists) <= 1
    assert (signer.asked, path.read_bytes()) == (3, good)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_a_full_disk_ends_nothing(tmp_path: Path, good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    signer, keep, failures = Signer(good), own.keep, [OSError(28, "No space left on device")]

    def full(path: Path, content: bytes) -> None:
        if failures:
            raise failures.pop()
        keep(path, content)

    monkeypatch.setattr(own, "obtain", signer.obtain)
    monkeypatch.setattr(own, "keep", full)
    monkeypatch.setattr(own, "_RETRY_SECONDS", (0.01,))
    path = tmp_path / own.SERVING_FILE
    await _renew(path, path.exists)
    assert signer.asked == 2


async def test_a_signer_that_leaves_names_out_is_not_asked_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = Signer(_pair(tmp_path, "n1"))
    monkeypatch.setattr(own, "obtain", signer.obtain)
    monkeypatch.setattr(own, "_RETRY_SECONDS", (1000.0,))
    path = tmp_path / own.SERVING_FILE
    turns = iter(range(10))
    assert await _renew(path, lambda: path.exists() and next(turns, None) is None) == 1
    assert signer.asked == 1
