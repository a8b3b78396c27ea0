"""Formats and shapes of answers, and watches in them."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
import yaml

from tests.integration.httpfront.conftest import Http
from wharfinger.api import codec, storage
from wharfinger.api.types import core

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def _map(name: str, value: str = "v") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}}


async def test_protobuf_in_and_out_is_what_kubernetes_would_send(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    message = core.ConfigMap(data={"b": "2", "a": "1"})
    message.metadata.name = "p"
    made = await http.ask("POST", maps, storage.encode(message), Content_Type=PROTOBUF, Accept=PROTOBUF)
    assert (made.status, made.headers["Content-Type"]) == (201, PROTOBUF)
    api_version, kind, raw = storage.unwrap(made.body)
    stored = core.ConfigMap.FromString(raw)
    assert (api_version, kind, stored.metadata.name) == ("v1", "ConfigMap", "p")
    assert raw == codec.canonical_bytes(stored)
    listed = await http.ask("GET", maps, Accept=PROTOBUF)
    _, kind, raw = storage.unwrap(listed.body)
    assert kind == "ConfigMapList"
    assert [item.metadata.name for item in core.ConfigMapList.FromString(raw).items] == ["p"]
    broken = await http.ask("POST", maps, b"not protobuf", Content_Type=PROTOBUF)
    assert broken.status == 400


@pytest.mark.parametrize(
    ("accept", "status", "content_type"),
    [
        ("application/yaml", 200, "application/yaml"),
        ("text/html", 406, "application/json"),
        ("application/json;q=0.1,application/yaml;q=0.9", 200, "application/yaml"),
        ("application/json;as=Nonsense;v=v1;g=meta.k8s.io, */*", 200, "application/json"),
    ],
)
async def test_accept_is_heeded(http: Http, namespace: str, accept: str, status: int, content_type: str) -> None:
    reply = await http.ask("GET", f"/api/v1/namespaces/{namespace}", Accept=accept)
    assert (reply.status, reply.headers["Content-Type"]) == (status, content_type)
    if content_type.endswith("yaml"):
        assert yaml.safe_load(reply.body)["metadata"]["name"] == namespace


async def test_yaml_bodies_and_unknown_ones(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    text = yaml.safe_dump(_map("from-yaml")).encode()
    assert (await http.ask("POST", maps, text, Content_Type="application/yaml")).status == 201
    assert (await http.ask("POST", maps, text, Content_Type="text/plain")).status == 415


async def test_tables_and_bare_metadata(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await http.ask("POST", maps, _map("a"))
    table = (await http.ask("GET", maps, Accept=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    row = table["rows"][0]
    assert (row["cells"][:2], row["object"]["kind"]) == (["a", 1], "PartialObjectMetadata")
    whole = (await http.ask("GET", f"{maps}?includeObject=Object", Accept=TABLE)).json
    assert whole["rows"][0]["object"]["data"] == {"k": "v"}
    partial = (await http.ask("GET", f"{maps}/a", Accept=PARTIAL)).json
    assert (partial["kind"], partial["metadata"]["name"], "data" in partial) == ("PartialObjectMetadata", "a", False)
    assert (await http.ask("GET", maps, Accept=PARTIAL)).status == 406


async def test_large_answers_are_compressed(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await http.ask("POST", maps, _map("big", "x" * 300_000))
    async with http.session.get(
        http.base + maps,
        headers={"Authorization": "Bearer admin-token", "Accept-Encoding": "gzip"},
        ssl=http.context,
        auto_decompress=False,
    ) as response:
        body = await response.read()
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(body) < 10_000
    assert json.loads(gzip.decompress(body))["items"][0]["data"]["k"] == "x" * 300_000


async def _watch(http: Http, path: str, count: int, **headers: str) -> list[Any]:
    sent = {"Authorization": "Bearer admin-token", **headers}
    found: list[Any] = []
    async with http.session.get(http.base + path, headers=sent, ssl=http.context) as response:
        assert response.status == 200, await response.read()
        while len(found) < count and (line := await response.content.readline()):
            found.append(json.loads(line))
    return found


async def test_watches_show_what_happens(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    made = (await http.ask("POST", maps, _map("a"))).json
    await http.ask("PATCH", f"{maps}/a", {"data": {"k": "w"}}, Content_Type="application/merge-patch+json")
    await http.ask("DELETE", f"{maps}/a")
    since = made["metadata"]["resourceVersion"]
    events = await _watch(http, f"{maps}?watch=1&resourceVersion={since}", 2)
    assert [(event["type"], event["object"]["data"]["k"]) for event in events] == [("MODIFIED", "w"), ("DELETED", "w")]
    assert events[0]["object"]["kind"] == "ConfigMap"
    tables = await _watch(http, f"{maps}?watch=1&resourceVersion={since}", 2, Accept=TABLE)
    assert [bool(event["object"]["columnDefinitions"]) for event in tables] == [True, False]
    assert await _watch(http, f"{maps}?watch=1&resourceVersion={since}&timeoutSeconds=1", 9) == events


async def test_a_streamed_list_ends_with_its_bookmark(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in "ab":
        await http.ask("POST", maps, _map(name))
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    events = await _watch(http, f"{maps}?{query}", 3)
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    half = await http.ask("GET", f"{maps}?watch=1&sendInitialEvents=true")
    assert (half.status, half.json["reason"]) == (422, "Invalid")


async def test_protobuf_watches_are_framed(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await http.ask("POST", maps, _map("a"))
    sent = {"Authorization": "Bearer admin-token", "Accept": PROTOBUF}
    async with http.session.get(f"{http.base}{maps}?watch=1", headers=sent, ssl=http.context) as response:
        assert response.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
        size = int.from_bytes(await response.content.readexactly(4), "big")
        frame = await response.content.readexactly(size)
    assert b"ADDED" in frame
    assert storage.PREFIX in frame
