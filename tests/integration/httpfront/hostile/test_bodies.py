"""Bodies and patches that are no such thing, or much work."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.httpfront.conftest import Http
from tests.integration.httpfront.hostile.wire import (
    ACCOUNT,
    SECONDS,
)

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
