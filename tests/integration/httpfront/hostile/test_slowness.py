"""Who is slow, and who never takes an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.integration.httpfront.conftest import Http
from tests.integration.httpfront.hostile.wire import (
    BODY,
    CHUNKED,
    GET,
    HEAD,
    HOST,
    LENGTH,
    POST,
    SECONDS,
    connect,
    raw,
    read_answer,
)
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd


@pytest.fixture(scope="module")
def impatient() -> Iterator[Apiserver]:
    with Etcd() as etcd, Apiserver(etcd.endpoint, "--request-timeout", "1.5") as running:
        yield running


@pytest.fixture
def hasty(impatient: Apiserver, http: Http) -> Http:
    """The same client, but of the server that waits for nobody."""
    import ssl

    context = ssl.create_default_context(cafile=str(impatient.folder / "ca.crt"))
    return Http(http.session, f"https://127.0.0.1:{impatient.secure_port}", context)


@pytest.mark.parametrize("first", [b"", b"GET /ver", GET + HOST + b"X-Slow: "])
async def test_heads_that_never_end_are_cut_off(hasty: Http, first: bytes) -> None:
    """A byte now and then does not help; and a hundred of such clients hold up nobody."""
    connections = [await connect(hasty) for _ in range(25)]
    for _, writer in connections:
        writer.write(first)

    async def drip(writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            if first:
                writer.write(b"a")
            await asyncio.sleep(0.2)

    async def until_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        dripping = asyncio.ensure_future(drip(writer))
        try:
            async with asyncio.timeout(SECONDS):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            dripping.cancel()
            writer.transport.abort()

    cut = asyncio.gather(*(until_cut(*connection) for connection in connections))
    assert (await hasty.ask("GET", "/version")).status == 200
    assert set(await cut) == {b""}


async def test_bodies_that_never_end_are_refused(hasty: Http) -> None:
    for head in (LENGTH + b"\r\n" + BODY[:5], CHUNKED + b"\r\n5\r\n{\r\n"):
        answer = await raw(hasty, POST + head)
        assert (answer.code, answer.status["reason"]) == (400, "BadRequest")
        assert answer.closed


async def test_connections_at_rest_are_kept(hasty: Http) -> None:
    reader, writer = await connect(hasty)
    for pause in (0.0, 2.5, 0.0):
        await asyncio.sleep(pause)
        writer.write(b"GET /version HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert (await read_answer(reader)).code == 200
    writer.transport.abort()


async def test_who_does_not_take_the_answer_is_cut_off(hasty: Http, impatient: Apiserver) -> None:
    """Thirty lists of a megabyte are asked for and not read."""
    for number in range(10):
        data = {"metadata": {"name": f"large-{number}"}, "data": {"k": "x" * 100_000}}
        assert (await hasty.ask("POST", "/api/v1/namespaces/default/configmaps", data)).status == 201
    reader, writer = await connect(hasty)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    request = b"GET /api/v1/namespaces/default/configmaps HTTP/1.1\r\n" + HEAD + b"\r\n"
    writer.write(request * 30)
    deadline = time.monotonic() + SECONDS
    while "does not take its answer" not in impatient.log.read_text():
        assert time.monotonic() < deadline
        assert (await hasty.ask("GET", "/api/v1/namespaces/default")).status == 200
        await asyncio.sleep(0.1)
    writer.transport.abort()
    assert reader is not None
