"""What a hostile client sends: the right 4xx as a Status, nothing above, and nothing hangs."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.integration.httpfront.conftest import Http

HOST = b"Host: x\r\nAuthorization: Bearer admin-token\r\n"


async def _raw(http: Http, data: bytes) -> tuple[int, bytes]:
    """Send bytes; return the code and body of the answer, code 0 when the connection was just closed."""
    port = int(http.base.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=http.context, server_hostname="localhost")
    try:
        writer.write(data)
        async with asyncio.timeout(15):
            answer = await reader.read(1 << 20)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /api/v1/namespaces HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /api/v1/namespaces/..%2f..%2fx HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /api/v1/namespaces/%ff%fe HTTP/1.1\r\n" + HOST + b"\r\n",
        b"FROB /api/v1/pods HTTP/1.1\r\n" + HOST + b"\r\n",
    ],
)
async def test_malformed_requests_are_refused(http: Http, request_bytes: bytes) -> None:
    code, body = await _raw(http, request_bytes)
    assert code == 0 or 400 <= code < 500
    if code:
        assert json.loads(body.partition(b"\n")[0])["kind"] == "Status"


@pytest.mark.parametrize(
    "body",
    [
        b"{" * 100_000,
        b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"metadata":{"name":"\xff\xfe"}}',
        b"[1,2,3]",
        b"null",
        b"",
        b'"text"',
    ],
)
async def test_bodies_that_are_no_objects_are_refused(http: Http, namespace: str, body: bytes) -> None:
    reply = await http.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert (reply.status // 100, reply.json["kind"]) == (4, "Status")


async def test_huge_bodies_are_cut_off(http: Http, namespace: str) -> None:
    head = f"POST /api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\n".encode() + HOST
    code, _ = await _raw(http, head + b"Content-Length: 104857600\r\n\r\n" + b"x" * 1000)
    assert code == 413
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    code, _ = await _raw(http, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 40)
    assert code in (0, 413)


async def test_bombs_do_not_unfold(http: Http, namespace: str) -> None:
    import gzip

    bomb = gzip.compress(b" " * 50_000_000)
    reply = await http.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", bomb, Content_Encoding="gzip")
    assert reply.status in (400, 413, 415)


async def test_unknown_paths_and_methods(http: Http) -> None:
    assert (await http.ask("GET", "/nonsense")).body == b"404 page not found\n"
    assert (await http.ask("GET", "/apis/apps/v1/sprockets")).status == 404
    assert (await http.ask("GET", "/api/v1/pods/x/y/z/w")).status == 404
    for method, path in (("PUT", "/api/v1/pods"), ("PATCH", "/api/v1/namespaces"), ("POST", "/version")):
        reply = await http.ask(method, path, {})
        assert (reply.status, reply.json["reason"]) == (405, "MethodNotAllowed")
