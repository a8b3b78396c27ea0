"""One apiserver for the tests of this folder, spoken to by HTTP."""

from __future__ import annotations

import itertools
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def server() -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd, Apiserver(etcd.endpoint) as running:
        yield running


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Http:
    """A client with a token; `ask` sends one request and reads all of the answer."""

    def __init__(self, session: aiohttp.ClientSession, base: str, context: ssl.SSLContext) -> None:
        self.session = session
        self.base = base
        self.context = context

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = "admin-token", **headers: str
    ) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token}")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.session.request(
            method, self.base + path, data=data, headers=sent, ssl=self.context
        ) as response:
            return Reply(response.status, response.headers, await response.read())


@pytest.fixture
async def http(server: Apiserver) -> AsyncIterator[Http]:
    context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20), skip_auto_headers=["Accept"]) as session:
        yield Http(session, f"https://127.0.0.1:{server.secure_port}", context)


@pytest.fixture
async def namespace(http: Http) -> str:
    name = f"t{next(_numbers)}"
    made = await http.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == 201, made.body
    return name
