"""What is no HTTP, or more than anybody needs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json

import pytest

from tests.integration.httpfront.conftest import Http
from tests.integration.httpfront.hostile.wire import (
    ADMIN,
    BODY,
    CHUNKED,
    GET,
    HEAD,
    JSON_TYPE,
    LENGTH,
    POST,
    SECONDS,
    connect,
    raw,
    read_answer,
)

MALFORMED = {
    "no request": b"GARBAGE\r\n\r\n",
    "TLS inside of TLS": b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    "two kinds of length": POST + LENGTH + CHUNKED + b"\r\n" + BODY,
    "two kinds of length, other order": POST + CHUNKED + LENGTH + b"\r\n0\r\n\r\n",
    "two lengths": POST + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY,
    "twice the same length": POST + LENGTH + LENGTH + b"\r\n" + BODY,
    "a list of lengths": POST + b"Content-Length: 25, 25\r\n\r\n" + BODY,
    "a length with sign": POST + b"Content-Length: +25\r\n\r\n" + BODY,
    "a negative length": POST + b"Content-Length: -1\r\n\r\n" + BODY,
    "a hexadecimal length": POST + b"Content-Length: 0x19\r\n\r\n" + BODY,
    "an underscore in a length": POST + b"Content-Length: 2_5\r\n\r\n" + BODY,
    "a length beyond all numbers": POST + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY,
    "a space after a header's name": POST + b"Content-Length : 25\r\n\r\n" + BODY,
    "a folded header": GET + HEAD + b"X-A: b\r\n  folded\r\n\r\n",
    "a folded request line": GET + b" X: folded\r\n" + HEAD + b"\r\n",
    "bare line feeds": (GET + HEAD + b"\r\n").replace(b"\r\n", b"\n"),
    "a bare carriage return": GET + HEAD + b"X: a\rb\r\n\r\n",
    "NUL in a header": GET + HEAD + b"X: a\0b\r\n\r\n",
    "no header's name": GET + HEAD + b"X@{}: a\r\n\r\n",
    "no colon": GET + HEAD + b"nocolon\r\n\r\n",
    "two hosts": GET + HEAD + b"Host: y\r\n\r\n",
    "no host": GET + ADMIN + b"\r\n",
    "an encoding that is none": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity as encoding": POST + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
    "chunked not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked below gzip": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "a vertical tab before chunked": POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a chunk's size is no number": POST + CHUNKED + b"\r\nZZ\r\nabc\r\n0\r\n\r\n",
    "a negative chunk": POST + CHUNKED + b"\r\n-1\r\nabc\r\n0\r\n\r\n",
    "0x before a chunk's size": POST + CHUNKED + b"\r\n0x19\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk beyond all numbers": POST + CHUNKED + b"\r\nfffffffffffffffff\r\nabc",
    "line feeds between chunks": POST + CHUNKED + b"\r\n19\n" + BODY + b"\n0\n\n",
    "a chunk longer than it says": POST + CHUNKED + b"\r\n19\r\n" + BODY + b"xx0\r\n\r\n",
    "trailers without end": POST + CHUNKED + b"\r\n0\r\n" + b"X-T: y\r\n" * 5000 + b"\r\n",
    "HTTP/0.9": b"GET /version\r\n\r\n",
    "HTTP/2 as a version": b"GET /version HTTP/2.0\r\n" + HEAD + b"\r\n",
    "HTTP/3.7": b"GET /version HTTP/3.7\r\n" + HEAD + b"\r\n",
    "HTTP/11": b"GET /version HTTP/11\r\n" + HEAD + b"\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "an absolute target without port": b"GET http://[::1/version HTTP/1.1\r\n" + HEAD + b"\r\n",
    "CONNECT": b"CONNECT x:443 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a target without slash": b"GET version HTTP/1.1\r\n" + HEAD + b"\r\n",
    "no target": b"GET  HTTP/1.1\r\n" + HEAD + b"\r\n",
    "bytes in the target": b"GET /api/v1/pods/\xff HTTP/1.1\r\n" + HEAD + b"\r\n",
    "bytes in the query": b"GET /api/v1/pods?labelSelector=\xff HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a method that is none": b"FROB /api/v1/pods HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a method in small letters": b"get /api/v1/pods HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a method of 10,000 letters": b"A" * 10_000 + b" /api/v1/pods HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a header of a megabyte": GET + HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "a query of a megabyte": b"GET /api/v1/pods?x=" + b"a" * 1_000_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "3,000 headers": GET + HEAD + b"".join(b"X-%d: a\r\n" % number for number in range(3000)) + b"\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_no_http_is_refused(http: Http, data: bytes) -> None:
    """And what follows on the connection is never taken for another request."""
    answer = await raw(http, data + GET + HEAD + b"\r\n")
    assert answer.code in (400, 405, 415, 431)
    assert answer.status["reason"]
    assert answer.closed or answer.code == 400


async def test_garbage_instead_of_tls_is_cut_off(http: Http) -> None:
    port = int(http.base.rpartition(":")[2])
    for data in (b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 300, b"\xff" * 2000):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                assert not (await reader.read(1 << 16)).startswith(b"HTTP/1.1 200")
        writer.transport.abort()


async def test_what_looks_odd_but_is_right_is_taken(http: Http, namespace: str) -> None:
    head = f"POST /api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\n".encode() + HEAD + JSON_TYPE
    one, two, three = (BODY.replace(b'"x"', b'"%s"' % name) for name in (b"a", b"b", b"c"))
    extended = await raw(http, head + CHUNKED + b"\r\n19;a=b;c\r\n" + one + b"\r\n0\r\nX-Trailer: y\r\n\r\n")
    assert extended.code == 201
    split = b"".join(b"1\r\n%c\r\n" % byte for byte in two)
    assert (await raw(http, head + CHUNKED + b"\r\n" + split + b"0\r\n\r\n")).code == 201
    expecting = await raw(http, head + LENGTH + b"Expect: 100-continue\r\n\r\n" + three)
    assert expecting.code == 100
    absolute = await raw(http, b"GET http://x/version HTTP/1.1\r\n" + HEAD + b"\r\n")
    assert (absolute.code, json.loads(absolute.body)["major"]) == (200, "1")
    assert (await raw(http, b"GET /version HTTP/1.0\r\n\r\n")).code == 200
    assert (await raw(http, b"GET /version?x=" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n")).code == 200
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    assert (await raw(http, GET + HEAD + upgrade)).code == 200


async def test_pipelined_requests_are_answered_in_order(http: Http) -> None:
    reader, writer = await connect(http)
    writer.write(b"".join(b"GET /api/v1/namespaces/n%d HTTP/1.1\r\n" % n + HEAD + b"\r\n" for n in range(20)))
    names = [(await read_answer(reader)).status["details"]["name"] for _ in range(20)]  # type: ignore[index]
    writer.transport.abort()
    assert names == [f"n{number}" for number in range(20)]


async def test_a_refused_body_does_not_become_a_request(http: Http) -> None:
    """The body of the first request looks like a second one; its connection is closed instead."""
    inner = b"GET /version HTTP/1.1\r\n" + HEAD + b"\r\n"
    reader, writer = await connect(http)
    writer.write(b"POST /nonsense HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
    assert (await read_answer(reader)).code == 404
    assert (await read_answer(reader)).code == 0
    writer.transport.abort()


# --- sizes ------------------------------------------------------------------------------------------------------------


async def test_huge_bodies_are_refused_before_they_are_sent(http: Http) -> None:
    refused = await raw(http, POST + b"Content-Length: 104857600\r\n\r\n" + b"x" * 1000)
    assert (refused.code, refused.status["reason"]) == (413, "RequestEntityTooLarge")
    waiting = await raw(http, POST + b"Expect: 100-continue\r\nContent-Length: 104857600\r\n\r\n")
    assert waiting.code == 413


async def test_huge_bodies_in_chunks_are_cut_off(http: Http) -> None:
    """A client that would send 100 MB is answered long before."""
    reader, writer = await connect(http)
    writer.write(POST + CHUNKED + b"\r\n")
    chunk, sent = b"10000\r\n" + b"x" * 65536 + b"\r\n", 0
    answer = asyncio.ensure_future(read_answer(reader))
    async with asyncio.timeout(SECONDS):
        while not answer.done():
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)  # drain alone lets nobody else run while the socket takes everything
            sent += 1
    assert sent < 400
    assert answer.result().code == 413
    assert answer.result().closed
    writer.transport.abort()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "frobnicate"])
async def test_compressed_bodies_do_not_unfold(http: Http, encoding: str) -> None:
    bomb = gzip.compress(b" " * 20_000_000)
    path = "/api/v1/namespaces/default/configmaps"
    assert (await http.ask("POST", path, bomb, Content_Encoding=encoding)).status == 415
