"""Fixtures: one etcd and apiserver for all tests of this folder that do not break anything, and fresh namespaces."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger.api.types import core
from wharfinger.client import Client

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_etcd() -> Iterator[Etcd]:
    """An etcd that tests leave alone."""
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd:
        yield etcd


@pytest.fixture(scope="session")
def server(shared_etcd: Etcd) -> Iterator[Apiserver]:
    """An apiserver that tests leave alone."""
    with Apiserver(shared_etcd.endpoint) as apiserver:
        yield apiserver


@pytest_asyncio.fixture
async def client(server: Apiserver) -> AsyncIterator[Client]:
    """A master's client."""
    async with server.client() as client:
        yield client


@pytest_asyncio.fixture
async def namespace(client: Client) -> str:
    """A namespace of the test's own."""
    made = core.Namespace()
    made.metadata.name = f"test-{next(_numbers)}"
    await client.resource(core.Namespace).create(made)
    return made.metadata.name
