"""SIGTERM: whoever watches or keeps a write stream open is told at once, and nobody is waited for.

The servers here have a grace of ten minutes, which is for calls that do something.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Iterator

import aiohttp
import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger.api.errors import StatusError
from wharfinger.api.types import core

SECONDS = 20.0


@pytest.fixture
def patient() -> Iterator[Apiserver]:
    with Etcd() as etcd, Apiserver(etcd.endpoint, "--shutdown-grace", "600") as server:
        yield server


async def _stopped(server: Apiserver) -> None:
    process = server._process
    assert process is not None
    os.kill(server.pid, signal.SIGTERM)
    async with asyncio.timeout(SECONDS):
        while process.poll() is None:
            await asyncio.sleep(0.02)


async def test_watches_end_in_order(patient: Apiserver) -> None:
    context = ssl.create_default_context(cafile=str(patient.folder / "ca.crt"))
    url = f"https://127.0.0.1:{patient.secure_port}/api/v1/namespaces?watch=true"
    headers = {"Authorization": "Bearer admin-token"}
    begun = asyncio.Event()
    async with patient.client() as client, aiohttp.ClientSession(headers=headers) as session:

        async def follow() -> None:
            async for _ in client.resource(core.Namespace).watch():
                begun.set()

        following = asyncio.ensure_future(follow())
        response = await session.get(url, ssl=context)
        assert b'"ADDED"' in await response.content.readline()
        async with asyncio.timeout(SECONDS):
            await begun.wait()
        rest = asyncio.ensure_future(response.content.read())
        await _stopped(patient)
        assert b"ERROR" not in await rest  # the end of the body came, too, or this would raise
        await asyncio.wait([following], timeout=SECONDS)
        assert following.done()
        assert following.exception() is None


async def test_write_streams_end_with_an_error_for_what_comes_later(patient: Apiserver) -> None:
    async with patient.client() as client:
        writer = client.writer()
        made = core.Namespace()
        made.metadata.name = "a"
        await writer.create(made)
        await _stopped(patient)
        made.metadata.name = "b"
        with pytest.raises(StatusError):
            await writer.create(made)
