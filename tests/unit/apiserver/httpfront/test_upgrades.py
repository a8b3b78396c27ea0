"""Connections that leave HTTP, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from controlplane.apiserver.httpfront import upgrades

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: %s\r\nUpgrade: %s\r\n\r\n"
SPDY = REQUEST % (b"Upgrade", b"SPDY/3.1")
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


async def serving(handler: Handler) -> tuple[web.ServerRunner, int]:
    runner = web.ServerRunner(web.Server(handler), handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, runner.addresses[0][1]


async def test_what_is_asked_for() -> None:
    found: list[str] = []

    async def handler(http: web.BaseRequest) -> web.StreamResponse:
        found.append(upgrades.wanted(http))
        response = web.Response()
        response.force_close()
        return response

    runner, port = await serving(handler)
    for connection, name in (
        (b"Upgrade", b"SPDY/3.1"),
        (b"keep-alive, upgrade", b"WebSocket"),
        (b"upgrade", b"h2c"),
        (b"keep-alive", b"websocket"),
        (b"upgrade", b""),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST % (connection, name))
        await reader.read()
        writer.close()
    await runner.cleanup()
    assert found == ["spdy", "websocket", "unknown", "", ""]


async def test_bytes_go_both_ways_until_the_client_ends() -> None:
    async def handler(http: web.BaseRequest) -> web.StreamResponse:
        upgraded = await upgrades.Upgraded.start(http, {"Upgrade": "SPDY/3.1", "X-Thing": "1"})
        while data := await upgraded.read():
            await upgraded.write(data.upper())
        return upgraded.response

    runner, port = await serving(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(SPDY)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert head.startswith("http/1.1 101 ")
    assert "upgrade: spdy/3.1" in head
    assert "connection: upgrade" in head
    assert "x-thing: 1" in head
    assert "content-length" not in head
    assert "chunked" not in head
    sent = b"get / http/1.1\r\n\r\n" * 50_000  # what looks like requests is bytes like any other now
    writing = asyncio.create_task(_send(writer, sent))
    assert await reader.readexactly(len(sent)) == sent.upper()
    await writing
    writer.write_eof()
    assert await reader.read() == b"", "the server ends, too"
    writer.close()
    await runner.cleanup()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), 1 << 16):
        writer.write(data[start : start + (1 << 16)])
        await writer.drain()


async def test_what_is_not_taken_is_not_read() -> None:
    taken = asyncio.Event()
    sizes: list[int] = []

    async def handler(http: web.BaseRequest) -> web.StreamResponse:
        upgraded = await upgrades.Upgraded.start(http, {"Upgrade": "SPDY/3.1"})
        await taken.wait()
        while data := await upgraded.read():
            sizes.append(len(data))
        return upgraded.response

    runner, port = await serving(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(SPDY)
    await reader.readuntil(b"\r\n\r\n")
    writing = asyncio.create_task(_send(writer, bytes(64 << 20)))
    done, _ = await asyncio.wait([writing], timeout=0.5)
    assert not done
    taken.set()
    await writing
    writer.close()
    while sum(sizes) < 64 << 20:
        await asyncio.sleep(0.01)
    assert max(sizes) < 2 << 20
    await runner.cleanup()


async def test_a_client_that_left_is_noticed_while_nothing_is_read() -> None:
    noticed = asyncio.Event()

    async def handler(http: web.BaseRequest) -> web.StreamResponse:
        upgraded = await upgrades.Upgraded.start(http, {"Upgrade": "SPDY/3.1"})
        upgrades.keep_alive(http)
        await upgrades.gone(http)
        noticed.set()
        return upgraded.response

    runner, port = await serving(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(SPDY)
    await reader.readuntil(b"\r\n\r\n")
    await _send(writer, bytes(512 << 10))
    writer.close()
    async with asyncio.timeout(10):
        await noticed.wait()
    await runner.cleanup()


async def test_it_is_known_whether_an_answer_has_begun() -> None:
    found: list[bool] = []

    async def handler(http: web.BaseRequest) -> web.StreamResponse:
        found.append(upgrades.answered(http))
        upgraded = await upgrades.Upgraded.start(http, {"Upgrade": "SPDY/3.1"})
        found.append(upgrades.answered(http))
        return upgraded.response

    runner, port = await serving(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(SPDY)
    await reader.read()
    writer.close()
    await runner.cleanup()
    assert found == [False, True]
