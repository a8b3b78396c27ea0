"""What a hostile client sends: the right 4xx as a Status, nothing above, nothing hangs, nobody else is hurt.

Afterwards the server is asked something plain, and its log must hold no stack: what a client can bring about is no
mistake of the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from tests.integration.httpfront.conftest import Http
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd

SECONDS = 15.0
"""How long an answer may take before it counts as hanging."""
HOST = b"Host: x\r\n"
ADMIN = b"Authorization: Bearer admin-token\r\n"
HEAD = HOST + ADMIN
JSON_TYPE = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"metadata":{"name":"x"}}'
LENGTH = b"Content-Length: 25\r\n"
GET = b"GET /api/v1/pods HTTP/1.1\r\n"
ACCOUNT = {"metadata": {"name": "default"}}
MAPS = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n"
POST = MAPS + HEAD + JSON_TYPE


@dataclass
class Raw:
    """What came back for raw bytes: code 0 when the connection was just closed."""

    code: int
    headers: bytes
    body: bytes
    closed: bool

    @property
    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.body)
        assert (found["kind"], found["status"], found["code"]) == ("Status", "Failure", self.code)
        return found


async def _connect(http: Http) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(http.base.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=http.context, server_hostname="localhost")


async def _answer(reader: asyncio.StreamReader) -> Raw:
    """Read one answer whole."""
    async with asyncio.timeout(SECONDS):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return Raw(0, b"", b"", True)
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        body = await reader.readexactly(length)
    return Raw(int(head.split()[1]), head, body, b"connection: close" in head.lower() or b"HTTP/1.0" in head[:9])


async def _raw(http: Http, data: bytes) -> Raw:
    reader, writer = await _connect(http)
    try:
        writer.write(data)
        return await _answer(reader)
    finally:
        writer.transport.abort()


@pytest.fixture(autouse=True)
async def unhurt(http: Http, server: Apiserver) -> AsyncIterator[None]:
    """Whatever was sent: the next request is answered, and the log shows no stack."""
    seen = server.log.stat().st_size
    yield
    assert (await http.ask("GET", "/api/v1/namespaces/default")).status == 200
    with server.log.open() as log:
        log.seek(seen)
        written = log.read()
    assert "Traceback" not in written, written


# --- what is no HTTP --------------------------------------------------------------------------------------------------

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
    answer = await _raw(http, data + GET + HEAD + b"\r\n")
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
    extended = await _raw(http, head + CHUNKED + b"\r\n19;a=b;c\r\n" + one + b"\r\n0\r\nX-Trailer: y\r\n\r\n")
    assert extended.code == 201
    split = b"".join(b"1\r\n%c\r\n" % byte for byte in two)
    assert (await _raw(http, head + CHUNKED + b"\r\n" + split + b"0\r\n\r\n")).code == 201
    expecting = await _raw(http, head + LENGTH + b"Expect: 100-continue\r\n\r\n" + three)
    assert expecting.code == 100
    absolute = await _raw(http, b"GET http://x/version HTTP/1.1\r\n" + HEAD + b"\r\n")
    assert (absolute.code, json.loads(absolute.body)["major"]) == (200, "1")
    assert (await _raw(http, b"GET /version HTTP/1.0\r\n\r\n")).code == 200
    assert (await _raw(http, b"GET /version?x=" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n")).code == 200
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    assert (await _raw(http, GET + HEAD + upgrade)).code == 200


async def test_pipelined_requests_are_answered_in_order(http: Http) -> None:
    reader, writer = await _connect(http)
    writer.write(b"".join(b"GET /api/v1/namespaces/n%d HTTP/1.1\r\n" % n + HEAD + b"\r\n" for n in range(20)))
    names = [(await _answer(reader)).status["details"]["name"] for _ in range(20)]  # type: ignore[index]
    writer.transport.abort()
    assert names == [f"n{number}" for number in range(20)]


async def test_a_refused_body_does_not_become_a_request(http: Http) -> None:
    """The body of the first request looks like a second one; its connection is closed instead."""
    inner = b"GET /version HTTP/1.1\r\n" + HEAD + b"\r\n"
    reader, writer = await _connect(http)
    writer.write(b"POST /nonsense HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
    assert (await _answer(reader)).code == 404
    assert (await _answer(reader)).code == 0
    writer.transport.abort()


# --- sizes ------------------------------------------------------------------------------------------------------------


async def test_huge_bodies_are_refused_before_they_are_sent(http: Http) -> None:
    refused = await _raw(http, POST + b"Content-Length: 104857600\r\n\r\n" + b"x" * 1000)
    assert (refused.code, refused.status["reason"]) == (413, "RequestEntityTooLarge")
    waiting = await _raw(http, POST + b"Expect: 100-continue\r\nContent-Length: 104857600\r\n\r\n")
    assert waiting.code == 413


async def test_huge_bodies_in_chunks_are_cut_off(http: Http) -> None:
    """A client that would send 100 MB is answered long before."""
    reader, writer = await _connect(http)
    writer.write(POST + CHUNKED + b"\r\n")
    chunk, sent = b"10000\r\n" + b"x" * 65536 + b"\r\n", 0
    answer = asyncio.ensure_future(_answer(reader))
    async with asyncio.timeout(SECONDS):
        while not answer.done():
            writer.write(chunk)
            await writer.drain()
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


# --- bodies -----------------------------------------------------------------------------------------------------------

BODIES = {
    "100,000 braces": b"{" * 100_000,
    "100,000 brackets": b"[" * 100_000,
    "5,000 objects deep": b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
    "5,000 lists deep": b'{"metadata":{"name":"x"},"data":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "bytes that are no text": b'{"metadata":{"name":"\xff\xfe"}}',
    "half a surrogate": b'{"metadata":{"name":"\\ud800"}}',
    "NUL in a name": b'{"metadata":{"name":"a\\u0000b"}}',
    "a list": b"[1,2,3]",
    "null": b"null",
    "nothing": b"",
    "a text": b'"text"',
    "a number": b"1e400",
    "NaN": b'{"metadata":{"name":"x","generation":NaN}}',
    "a number beyond all": b'{"metadata":{"name":"x","generation":' + b"9" * 5000 + b"}}",
    "a fraction": b'{"metadata":{"name":"x","generation":1.5}}',
    "two documents": b'{"metadata":{"name":"x"}}{"metadata":{"name":"y"}}',
    "a mark before": b"\xef\xbb\xbf{" + b'"metadata":{"name":1}}',
    "UTF-16": '{"metadata":{"name":"x"}}'.encode("utf-16"),
    "another kind": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}',
    "a kind that is no text": b'{"kind":{},"apiVersion":[],"metadata":{"name":"x"}}',
    "metadata as a list": b'{"metadata":[{"name":"x"}]}',
    "10,000 wrong labels": b'{"metadata":{"name":"x","labels":{' + b",".join([b'"!":"?"'] * 10_000) + b"}}}",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_bodies_that_are_no_such_object_are_refused(http: Http, namespace: str, body: bytes) -> None:
    reply = await http.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert (reply.status in (400, 413, 422), reply.json["kind"]) == (True, "Status"), reply.body[:300]


@pytest.mark.parametrize(
    "body",
    [
        b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
        + b"".join(b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(ord("c"), ord("m"))),
        b"[" * 10_000,
        b"- " * 10_000,
        b"metadata: !!python/object/apply:os.system [true]",
        b"metadata: {name: x}\n---\nmetadata: {name: y}\n",
        b"\xff\xfe\x00",
        b"*nobody",
        b"? {a: b}\n: c",
    ],
    ids=["billion laughs", "deep", "deep in dashes", "python", "two", "bytes", "alias", "complex key"],
)
async def test_yaml_that_is_no_such_object_is_refused(http: Http, namespace: str, body: bytes) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    reply = await http.ask("POST", path, body, Content_Type="application/yaml")
    assert 400 <= reply.status < 500, reply.body[:300]
    patched = await http.ask("PATCH", f"{path}/x?fieldManager=m", body, Content_Type="application/apply-patch+yaml")
    assert 400 <= patched.status < 500, patched.body[:300]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"k8s\0",
        b"k8s\0\xff\xff\xff\xff",
        b"k8s\0\x12\x05\x0a\xff\xff\xff\x7f",
        b"k8s\0\x12\xff\xff\xff\xff\x0f",
        b"k9s\0\x0a\x00",
        b"k8s\0" + b"\x13" * 10_000,
        b"k8s\0\x0a\x08\x0a\x02v1\x12\x02Po\x12\x04\x0a\x02\x0a\x00",
    ],
)
async def test_protobuf_that_is_no_such_object_is_refused(http: Http, namespace: str, body: bytes) -> None:
    kind = "application/vnd.kubernetes.protobuf"
    reply = await http.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body, Content_Type=kind)
    assert 400 <= reply.status < 500, reply.body[:300]


PATCHES = {
    "application/json-patch+json": [
        b"{}", b"[{}]", b"[1]", b'[{"op":"frob","path":"/data"}]', b'[{"op":"add","path":"data","value":1}]',
        b'[{"op":"add","path":"/data/~2","value":"x"}]', b'[{"op":"move","from":"/data","path":"/data/a/b"}]',
        b'[{"op":"copy","from":"","path":"/data/a"}]', b'[{"op":"remove","path":""}]',
        b'[{"op":"add","path":"/metadata/finalizers/99999999999999999999","value":"x"}]',
        b"[" + b",".join([b'{"op":"test","path":"/kind","value":"ConfigMap"}'] * 20_000) + b"]",
    ],
    "application/merge-patch+json": [b"[]", b"1", b'{"data":[]}', b'{"metadata":null}', b"{" * 10_000, b"\xff"],
    "application/strategic-merge-patch+json": [
        b"[]", b'{"data":{"$retainKeys":1}}', b'{"metadata":{"$retainKeys":[1]}}',
        b'{"data":[]}',
    ],
    "application/apply-patch+yaml": [b"", b"[]", b"x", b'{"apiVersion":"v1","kind":"Pod"}', b"a: *b"],
    "application/json": [b"{}"],
    "text/plain": [b"{}"],
}  # fmt: skip


@pytest.mark.parametrize("kind", PATCHES)
async def test_patches_that_are_none_are_refused(http: Http, namespace: str, kind: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert (await http.ask("POST", path, {"metadata": {"name": "m"}, "data": {"a": "b"}})).status == 201
    for body in PATCHES[kind]:
        reply = await http.ask("PATCH", f"{path}/m?fieldManager=me", body, Content_Type=kind)
        assert (400 <= reply.status < 500, reply.json["kind"]) == (True, "Status"), (body[:80], reply.body[:300])
    assert (await http.ask("GET", f"{path}/m")).json["data"] == {"a": "b"}


MANY = 30_000
HEAVY = {
    "elements that are merged": {"spec": {"containers": [{"name": f"c{n}", "image": "i"} for n in range(MANY)]}},
    "elements that are deleted": {"spec": {"containers": [{"name": f"c{n}", "$patch": "delete"} for n in range(MANY)]}},
    "values that are added": {"metadata": {"finalizers": [f"example.com/{n}" for n in range(MANY)]}},
    "values that are deleted": {
        "metadata": {"$deleteFromPrimitiveList/finalizers": [f"example.com/{n}" for n in range(MANY)]}
    },
    "an order": {
        "spec": {
            "$setElementOrder/containers": [{"name": f"c{n}"} for n in range(MANY)],
            "containers": [{"name": f"c{n}", "image": "i"} for n in range(MANY // 2)],
        }
    },
    "copies that double": [{"op": "copy", "from": "/metadata", "path": f"/metadata/c{n}"} for n in range(40)],
}


@pytest.mark.parametrize("patch", HEAVY.values(), ids=HEAVY.keys())
async def test_patches_that_are_much_work_hold_up_nobody(http: Http, namespace: str, patch: object) -> None:
    """With work that grows by the square each of these would be half a minute in which nobody else is served."""
    assert (await http.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", ACCOUNT)).status == 201
    path = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"metadata": {"name": "p", "finalizers": [f"example.com/{n}" for n in range(MANY)]}, "spec": {
        "containers": [{"name": f"c{n}", "image": "i"} for n in range(3)],
    }}  # fmt: skip
    assert (await http.ask("POST", path, pod)).status == 201
    kind = "application/json-patch+json" if isinstance(patch, list) else "application/strategic-merge-patch+json"
    async with asyncio.timeout(SECONDS):
        patched = asyncio.ensure_future(http.ask("PATCH", f"{path}/p", patch, Content_Type=kind))
        assert (await http.ask("GET", "/version")).status == 200
        assert (await patched).status in (200, 413, 422)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", ";;;=", "application/xml", "json"])
async def test_other_types_of_bodies_are_refused(http: Http, kind: str) -> None:
    reply = await http.ask("POST", "/api/v1/namespaces/default/configmaps", {}, Content_Type=kind)
    assert (reply.status, reply.json["reason"]) == (415, "UnsupportedMediaType")


async def test_objects_that_could_not_be_read_again_are_not_stored(http: Http) -> None:
    """JSON may lie deeper than protobuf can be read."""
    schema: dict[str, object] = {"type": "object"}
    for _ in range(80):
        schema = {"type": "object", "properties": {"a": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "deeps", "kind": "Deep"}
    body = {
        "metadata": {"name": "deeps.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await http.ask("POST", path, body)).status == 400
    assert (await http.ask("GET", f"{path}/deeps.example.com")).status == 404


async def test_warnings_are_not_more_than_clients_take(http: Http, namespace: str) -> None:
    """Python's own client refuses an answer of more than 100 headers."""
    body = {"metadata": {"name": "w"}, **{f"unknown{number}": "x" for number in range(1000)}}
    reply = await http.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    told = reply.headers.getall("Warning")
    assert (reply.status, told[0]) == (201, '299 - "unknown field \\"unknown0\\""')
    assert len(told) < 90
    assert sum(map(len, told)) < 8192


# --- paths, methods, headers, queries ---------------------------------------------------------------------------------

PATHS = {
    "/api/v1/namespaces/..%2f..%2fx": 400,
    "/api/v1/namespaces/default/pods/a%2fb": 400,
    "/api/v1/namespaces/default/pods/a%00b": 400,
    "/api/v1/namespaces/%ff%fe": 400,
    "/api/v1/namespaces/default/pods/%ED%A0%80": 400,
    "/api/v1/namespaces/../../../etc/passwd": 404,
    "/api/v1/namespaces/default/pods/..": 404,
    "/api/v1/namespaces/default/pods/a%0d%0aX:%20b": 404,
    "/api/v1/namespaces/default/pods/%zz": 404,
    "/api/v1/namespaces/default/pods/%25%32%66": 404,
    "/api/v1/namespaces/default/pods/%F0%9F%92%A9": 404,
    "/api/v1/namespaces/default/pods/" + "a" * 50_000: 404,
    "/api/v1/pods/x/y/z/w": 404,
    "/api/v1//pods": 404,
    "/apis//v1/deployments": 404,
    "/apis/apps/v1/sprockets": 404,
    "/apis/apps/v99/deployments": 404,
    "/api/v2/pods": 404,
    "/api/v1/watch/watch/pods": 404,
    "/openapi/v3/api/v1/../x": 404,
    "/nonsense": 404,
    "//": 404,
}


@pytest.mark.parametrize("path", PATHS)
async def test_unknown_and_tricky_paths(http: Http, path: str) -> None:
    answer = await _raw(http, f"GET {path} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
    assert answer.code == PATHS[path]


async def test_names_that_are_paths_are_no_names(http: Http) -> None:
    for name in ("..", ".", "a/b", "a%2fb", "x\0y", "é", "a b", "A", "-", "a" * 254, ""):
        reply = await http.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
        assert reply.status == 422, name
    head = b"PUT /api/v1/namespaces/default/configmaps/.. HTTP/1.1\r\n" + HEAD + JSON_TYPE
    assert (await _raw(http, head + b'Content-Length: 26\r\n\r\n{"metadata":{"name":".."}}')).code in (404, 422)


async def test_methods_that_a_path_does_not_know(http: Http) -> None:
    for method, path in (
        ("PUT", "/api/v1/pods"), ("PATCH", "/api/v1/namespaces"), ("POST", "/version"), ("POST", "/apis"),
        ("DELETE", "/openapi/v3"), ("OPTIONS", "/api/v1/pods"), ("TRACE", "/api/v1/pods"), ("POST", "/api/v1/nodes/x"),
        ("PUT", "/api/v1/namespaces/default/pods/x/log"), ("DELETE", "/api/v1/namespaces/default/pods/x/status"),
    ):  # fmt: skip
        reply = await http.ask(method, path, {})
        assert (reply.status, reply.json["reason"]) == (405, "MethodNotAllowed"), (method, path)
    for path in ("/api/v1/pods", "/version", "/api/v1/namespaces/default"):
        reply = await http.ask("HEAD", path)
        assert (reply.status, reply.body) == (405, b"")
    assert (await http.ask("HEAD", "/healthz")).status == 200


@pytest.mark.parametrize("accept", [";;,,=;q=x", "a/b," * 1500, "application/json;q=nan", "text/html", "\xe9/\xff"])
async def test_accept_headers_that_ask_for_nothing_known(http: Http, accept: str) -> None:
    reply = await _raw(http, GET + HEAD + b"Accept: " + accept.encode("latin-1") + b"\r\n\r\n")
    assert (reply.code, reply.status["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    "value",
    [b"Bearer \xff\xfe", b"Bearer a.\xff.b", b"Bearer nobody", "Bearer é".encode(), b"Bearer " + b"a" * 30_000],
)
async def test_tokens_that_are_nobodys(http: Http, value: bytes) -> None:
    reply = await _raw(http, GET + HOST + b"Authorization: " + value + b"\r\n\r\n")
    assert (reply.code, reply.status["reason"]) == (401, "Unauthorized")


UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        ADMIN + b"Impersonate-User: b\xffb\r\n",
        ADMIN + b"Impersonate-Extra-x: \xed\xa0\x80\r\n",
        ADMIN + UPGRADE + b"Sec-WebSocket-Protocol: \xff\r\n", ADMIN + UPGRADE + b"Sec-WebSocket-Key: \xc3\xa9\r\n",
        UPGRADE + b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.\xc3\xa9\r\n",
    ],
    ids=lambda headers: headers.splitlines()[-1].decode("latin-1")[:30],
)  # fmt: skip
async def test_headers_that_are_no_text(http: Http, namespace: str, headers: bytes) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/x/exec?command=a&stdout=true".encode()
    answer = await _raw(http, b"GET " + path + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n")
    assert 400 <= answer.code < 500
    assert answer.status["message"]


async def test_bodies_of_strangers_are_not_waited_for(http: Http) -> None:
    """Nor are heads without end, which need no user at all."""
    answer = await _raw(http, MAPS + HOST + JSON_TYPE + LENGTH + b"\r\n{")
    assert (answer.code, answer.status["reason"], answer.closed) == (403, "Forbidden", True)
    endless = GET + HOST + b"".join(b"X-%d: " % number + b"a" * 30_000 + b"\r\n" for number in range(120))
    answer = await _raw(http, endless)
    assert (answer.code, answer.status["reason"]) == (431, "BadRequest")


async def test_expectations_that_cannot_be_met(http: Http) -> None:
    assert (await _raw(http, POST + LENGTH + b"Expect: 200-ok\r\n\r\n" + BODY)).code == 417


QUERIES = [
    "limit=99999999999999999999",
    "limit=" + "9" * 5000,
    "limit=%D9%A3",
    "limit=%C2%B2",
    "limit=1e3",
    "limit=0x10",
    "limit=",
    "limit=5&continue=AAAA",
    "limit=5&continue=%ff",
    "limit=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTUsInN0YXJ0IjoiLi4vLi4vIn0",
    "watch=true&timeoutSeconds=9223372036854775808",
    "watch=true&timeoutSeconds=x",
    "labelSelector=" + "a," * 3000,
    "labelSelector=a%20in%20(" + "((" * 1000,
    "labelSelector=%ED%A0%80",
    "labelSelector=%ff",
    "fieldSelector=a%3D%3D%3Db,,%3D",
    "fieldSelector=" + "metadata.name%3Dx," * 2000 + "%3D",
    "fieldSelector=spec.nobody%3Dx",
    "resourceVersionMatch=Frob&resourceVersion=1",
    "resourceVersionMatch=Exact",
    "sendInitialEvents=true",
    "watch=true&sendInitialEvents=true",
    "includeObject=frob",
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda text: text[:40])
async def test_absurd_queries(http: Http, query: str) -> None:
    answer = await _raw(http, f"GET /api/v1/pods?{query} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
    assert (answer.code in (400, 422), answer.status["kind"]) == (True, "Status"), answer


@pytest.mark.parametrize("query", ["a;b;c", "&&&=&=", "%", "limit=-5", "x=" + "a" * 60_000, "limit=1&limit=x"])
async def test_odd_queries_that_mean_nothing_are_ignored(http: Http, query: str) -> None:
    assert (await _raw(http, f"GET /api/v1/pods?{query} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")).code == 200


@pytest.mark.parametrize("version", [2**64 - 1])
async def test_versions_that_etcd_never_reaches(http: Http, version: int) -> None:
    """Kubernetes' own answer to these is 504 with a cause; clients wait and list anew."""
    reply = await http.ask("GET", f"/api/v1/pods?resourceVersion={version}")
    causes = [cause["reason"] for cause in reply.json["details"]["causes"]]
    assert (reply.status, causes) == (504, ["ResourceVersionTooLarge"])


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("gracePeriodSeconds=x", 400),
        ("gracePeriodSeconds=99999999999999999999", 400),
        ("propagationPolicy=Frob", 422),
        ("propagationPolicy=Orphan&orphanDependents=true", 422),
        ("dryRun=Some", 422),
    ],
)
async def test_absurd_deletes(http: Http, namespace: str, query: str, code: int) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await http.ask("POST", path, {"metadata": {"name": "m"}})
    assert (await http.ask("DELETE", f"{path}/m?{query}")).status == code
    for body in (b"[]", b"x", b'{"gracePeriodSeconds":"x"}', b'{"kind":"Pod"}', b"{" * 10_000):
        assert (await http.ask("DELETE", f"{path}/m", body)).status == 400, body[:20]
    assert (await http.ask("GET", f"{path}/m")).status == 200


# --- who is slow ------------------------------------------------------------------------------------------------------


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
    connections = [await _connect(hasty) for _ in range(25)]
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
        answer = await _raw(hasty, POST + head)
        assert (answer.code, answer.status["reason"]) == (400, "BadRequest")
        assert answer.closed


async def test_connections_at_rest_are_kept(hasty: Http) -> None:
    reader, writer = await _connect(hasty)
    for pause in (0.0, 2.5, 0.0):
        await asyncio.sleep(pause)
        writer.write(b"GET /version HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert (await _answer(reader)).code == 200
    writer.transport.abort()


async def test_who_does_not_take_the_answer_is_cut_off(hasty: Http, impatient: Apiserver) -> None:
    """Thirty lists of a megabyte are asked for and not read."""
    for number in range(10):
        data = {"metadata": {"name": f"large-{number}"}, "data": {"k": "x" * 100_000}}
        assert (await hasty.ask("POST", "/api/v1/namespaces/default/configmaps", data)).status == 201
    reader, writer = await _connect(hasty)
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
