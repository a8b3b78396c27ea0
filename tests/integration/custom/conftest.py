"""Two apiservers over one etcd, and definitions of custom resources to try on them."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd

_numbers = itertools.count(1)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass
class Pair:
    etcd: Etcd
    one: Apiserver
    two: Apiserver


@pytest.fixture(scope="package")
def pair() -> Iterator[Pair]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with (
        Etcd() as etcd,
        Apiserver(etcd.endpoint) as one,
        Apiserver(etcd.endpoint, folder=one.folder) as two,
    ):
        yield Pair(etcd, one, two)


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def causes(self) -> dict[str, str]:
        return {cause["field"]: cause["reason"] for cause in self.json["details"]["causes"]}


class Http:
    """Requests to one apiserver as an administrator."""

    def __init__(self, session: aiohttp.ClientSession, server: Apiserver) -> None:
        self.session = session
        self.base = f"https://127.0.0.1:{server.secure_port}"
        self.context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        async with self.session.request(
            method, self.base + path, data=data, headers=sent, ssl=self.context
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, **headers: str) -> Any:
        reply = await self.ask("GET", path, **headers)
        assert reply.status == 200, (path, reply.body)
        return reply.json

    async def create(self, path: str, body: Any) -> Any:
        reply = await self.ask("POST", path, body)
        assert reply.status == 201, (path, reply.body)
        return reply.json

    async def watch(self, path: str) -> AsyncIterator[Any]:
        headers = {"Authorization": "Bearer admin-token"}
        async with self.session.get(self.base + path, headers=headers, ssl=self.context) as response:
            assert response.status == 200
            async for line in response.content:
                yield json.loads(line)


@pytest.fixture
async def http(pair: Pair) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30), skip_auto_headers=["Accept"]) as session:
        yield Http(session, pair.one)


@pytest.fixture
async def other(pair: Pair) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30), skip_auto_headers=["Accept"]) as session:
        yield Http(session, pair.two)


@pytest.fixture
async def group() -> str:
    return f"g{next(_numbers)}.example.com"


def version(name: str = "v1", schema: Any = None, *, storage: bool = True, **more: Any) -> dict[str, Any]:
    """One version of a definition; without a schema it keeps everything."""
    whole = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": whole}, **more}


def definition(
    group: str, *versions: dict[str, Any], plural: str = "lamps", kind: str = "Lamp", scope: str = "Namespaced",
    **names: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions or (version(),)),
        },
    }


def spec(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A schema with these properties of the spec, and a status that may hold anything."""
    return {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties, **more},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }


def lamp(group: str, name: str, version: str = "v1", kind: str = "Lamp", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, **fields}


async def until(holds: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Wait for something that may take a moment."""
    async with asyncio.timeout(20):
        while not (found := await holds()):
            await asyncio.sleep(0.02)
        return found
    raise AssertionError(what)
