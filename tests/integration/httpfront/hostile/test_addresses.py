"""Paths, methods, headers and queries that nobody in his right mind sends."""

from __future__ import annotations

import pytest

from tests.integration.httpfront.conftest import Http
from tests.integration.httpfront.hostile.wire import (
    ADMIN,
    BODY,
    GET,
    HEAD,
    HOST,
    JSON_TYPE,
    LENGTH,
    MAPS,
    POST,
    raw,
)

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
    answer = await raw(http, f"GET {path} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
    assert answer.code == PATHS[path]


async def test_names_that_are_paths_are_no_names(http: Http) -> None:
    for name in ("..", ".", "a/b", "a%2fb", "x\0y", "é", "a b", "A", "-", "a" * 254, ""):
        reply = await http.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
        assert reply.status == 422, name
    head = b"PUT /api/v1/namespaces/default/configmaps/.. HTTP/1.1\r\n" + HEAD + JSON_TYPE
    assert (await raw(http, head + b'Content-Length: 26\r\n\r\n{"metadata":{"name":".."}}')).code in (404, 422)


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
    reply = await raw(http, GET + HEAD + b"Accept: " + accept.encode("latin-1") + b"\r\n\r\n")
    assert (reply.code, reply.status["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    "value",
    [b"Bearer \xff\xfe", b"Bearer a.\xff.b", b"Bearer nobody", "Bearer é".encode(), b"Bearer " + b"a" * 30_000],
)
async def test_tokens_that_are_nobodys(http: Http, value: bytes) -> None:
    reply = await raw(http, GET + HOST + b"Authorization: " + value + b"\r\n\r\n")
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
    answer = await raw(http, b"GET " + path + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n")
    assert 400 <= answer.code < 500
    assert answer.status["message"]


async def test_bodies_of_strangers_are_not_waited_for(http: Http) -> None:
    """Nor are heads without end, which need no user at all."""
    answer = await raw(http, MAPS + HOST + JSON_TYPE + LENGTH + b"\r\n{")
    assert (answer.code, answer.status["reason"], answer.closed) == (403, "Forbidden", True)
    endless = GET + HOST + b"".join(b"X-%d: " % number + b"a" * 30_000 + b"\r\n" for number in range(120))
    answer = await raw(http, endless)
    assert (answer.code, answer.status["reason"]) == (431, "BadRequest")


async def test_expectations_that_cannot_be_met(http: Http) -> None:
    assert (await raw(http, POST + LENGTH + b"Expect: 200-ok\r\n\r\n" + BODY)).code == 417


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
    answer = await raw(http, f"GET /api/v1/pods?{query} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
    assert (answer.code in (400, 422), answer.status["kind"]) == (True, "Status"), answer


@pytest.mark.parametrize("query", ["a;b;c", "&&&=&=", "%", "limit=-5", "x=" + "a" * 60_000, "limit=1&limit=x"])
async def test_odd_queries_that_mean_nothing_are_ignored(http: Http, query: str) -> None:
    assert (await raw(http, f"GET /api/v1/pods?{query} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")).code == 200


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
