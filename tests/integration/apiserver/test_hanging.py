"""An apiserver that holds its connections and answers nothing: clients that know another one go there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client, Informer, LeaderElector, transport

SECONDS = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[Apiserver]:
    with Etcd() as etcd, Apiserver(etcd.endpoint) as made:
        yield made


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SILENT_SECONDS", "LASTING_SILENT_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(transport, name, 0.3)
    monkeypatch.setattr(transport, "PROBE_SECONDS", 1.5)


class Hanging(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs alone
    """Takes every call and answers none."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        self.seen.append(str(details.method))

        async def hang(_: Any, context: Any) -> None:
            await asyncio.Event().wait()

        return grpc.stream_stream_rpc_method_handler(hang)


class Slow(Hanging):
    """Answers nothing but who it is."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        if not str(details.method).endswith("/Version"):
            return super().service(details)
        self.seen.append(str(details.method))

        async def answer(_: Any, context: Any) -> bytes:
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def hanging(folder: Any, kind: type[Hanging] = Hanging) -> AsyncIterator[tuple[str, Hanging]]:
    handler = kind()
    made = grpc.aio.server()
    made.add_generic_rpc_handlers((handler,))
    pair = ((folder / "apiserver.key").read_bytes(), (folder / "apiserver.crt").read_bytes())
    port = made.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    await made.start()
    try:
        yield f"127.0.0.1:{port}", handler
    finally:
        await made.stop(None)


@asynccontextmanager
async def client_of(server: Apiserver) -> AsyncIterator[tuple[Client, Hanging]]:
    """A client that tries the hanging one first."""
    config = server.config()
    async with (
        hanging(server.folder) as (address, handler),
        Client(replace(config, endpoints=[address, *config.endpoints])) as client,
    ):
        yield client, handler


async def test_a_read_is_answered_by_the_other(server: Apiserver) -> None:
    async with client_of(server) as (client, handler), asyncio.timeout(SECONDS):
        namespaces = client.resource(core.Namespace)
        assert (await namespaces.get("default")).metadata.name == "default"
        assert any(method.endswith("/Get") for method in handler.seen)


async def test_a_write_is_told_that_it_may_have_happened_and_the_next_one_happens(server: Apiserver) -> None:
    config_map = core.ConfigMap()
    config_map.metadata.namespace, config_map.metadata.name = "default", "written"
    async with client_of(server) as (client, _), asyncio.timeout(SECONDS):
        config_maps = client.resource(core.ConfigMap)
        with pytest.raises(errors.ServiceUnavailableError, match="does not answer"):
            await config_maps.create(config_map)
        await config_maps.create(config_map)


async def test_watches_and_write_streams_are_broken_off(server: Apiserver) -> None:
    async with client_of(server) as (client, _), asyncio.timeout(SECONDS):
        with pytest.raises(errors.ServiceUnavailableError):
            async for _batch in client.resource(core.ConfigMap).watch():
                pass
    config_map = core.ConfigMap()
    config_map.metadata.namespace, config_map.metadata.name = "default", "streamed"
    async with client_of(server) as (client, _), asyncio.timeout(SECONDS):
        writer = client.writer()
        with pytest.raises(errors.ServiceUnavailableError):
            await writer.create(config_map)
        await writer.create(config_map)
        await writer.close()


async def test_informers_and_leaders_go_on(server: Apiserver) -> None:
    async with client_of(server) as (client, _), asyncio.timeout(SECONDS):
        informer = Informer(client.resource(core.Namespace))
        await informer.start()
        await informer.wait_synced()
        led = asyncio.Event()

        async def lead(_: Any) -> None:
            led.set()
            await asyncio.Event().wait()

        elector = LeaderElector(client, namespace="default", name="hanging", identity="me")
        work = asyncio.create_task(elector.run(on_started=lead))
        await led.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await informer.stop()


async def test_who_is_cancelled_is_cancelled(server: Apiserver) -> None:
    """Not every call that is broken off hangs: its caller may have given up."""
    async with client_of(server) as (client, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.resource(core.Namespace).get("default")


async def test_who_is_merely_slow_is_not_left(server: Apiserver) -> None:
    config = server.config()
    async with (
        asyncio.timeout(SECONDS),
        hanging(server.folder, Slow) as (address, handler),
        Client(replace(config, endpoints=[address, *config.endpoints])) as client,
    ):
        waiting = asyncio.create_task(client.resource(core.Namespace).get("default"))
        while sum(method.endswith("/Version") for method in handler.seen) < 4:
            assert not waiting.done()
            await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()


async def test_where_nobody_answers_a_read_fails_in_the_end(server: Apiserver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PROBE_SECONDS", 0.2)
    async with (
        asyncio.timeout(SECONDS),
        hanging(server.folder) as (one, _),
        hanging(server.folder) as (two, _),
        Client(replace(server.config(), endpoints=[one, two])) as client,
    ):
        with pytest.raises(errors.ServiceUnavailableError, match="does not answer"):
            await client.resource(core.Namespace).get("default")
