"""The load of `./dev bench http` in small: watches that idle, watches that follow, one client that never reads.

``WHARFINGER_WATCH_LOAD=full`` runs it as the benchmark does: 1,000 watches, 200 writes a second, a minute.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from benchmarks import watchload
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd

FULL = os.environ.get("WHARFINGER_WATCH_LOAD") == "full"


@pytest.fixture
def server() -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd, Apiserver(etcd.endpoint, "--request-timeout", "3") as running:
        yield running


@pytest.fixture
async def session(server: Apiserver) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
    async with aiohttp.ClientSession(
        f"https://127.0.0.1:{server.secure_port}",
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        headers={"Authorization": "Bearer admin-token"},
    ) as made:
        yield made


async def test_no_event_is_lost_and_nobody_is_hurt(server: Apiserver, session: aiohttp.ClientSession) -> None:
    async with server.client() as client:
        load = await watchload.run(
            client,
            session,
            watches=1000 if FULL else 120,
            rate=200 if FULL else 100,
            seconds=60 if FULL else 4,
            pid=server.pid,
            fill=watchload.FILL if FULL else 400,
        )
    assert load.written > 100
    assert (load.lost, load.repeated, load.disorder) == (0, 0, 0)
    assert (load.noise, load.broken) == (0, 0)
    assert load.cut_after is not None
    assert "a watcher that does not read is cut off" in server.log.read_text()
    if FULL:
        assert load.growth <= watchload.GROWTH
