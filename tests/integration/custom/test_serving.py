"""Kinds are served by every apiserver as soon as their definition is stored, and gone with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.integration.custom.conftest import DEFINITIONS, Http, Pair, definition, lamp, until, version
from tests.support.apiserver import Apiserver, pause, resume


async def test_served_at_once_by_both(http: Http, other: Http, group: str) -> None:
    made = await http.create(DEFINITIONS, definition(group))
    assert made["status"]["conditions"] is None
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    await other.create(path, lamp(group, "a", x=1))
    assert [item["x"] for item in (await http.get(path))["items"]] == [1]
    now = await other.get(f"{DEFINITIONS}/lamps.{group}")
    assert [(one["type"], one["status"]) for one in now["status"]["conditions"]] == [
        ("NamesAccepted", "True"), ("Established", "True"),
    ]  # fmt: skip
    assert now["status"]["acceptedNames"]["kind"] == "Lamp"


async def test_discovery_and_openapi_follow(http: Http, other: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group, shortNames=["lp"], categories=["all"]))
    for one in (other, http):
        assert group in [item["name"] for item in (await one.get("/apis"))["groups"]]
        served = (await one.get(f"/apis/{group}/v1"))["resources"]
        assert [(item["name"], item.get("shortNames")) for item in served] == [("lamps", ["lp"])]
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups = (await one.get("/apis", Accept=accept))["items"]
        found = next(item for item in groups if item["metadata"]["name"] == group)
        assert found["versions"][0]["resources"][0]["responseKind"]["kind"] == "Lamp"
        index = (await one.get("/openapi/v3"))["paths"]
        document = await one.get(index[f"apis/{group}/v1"]["serverRelativeURL"])
        assert any("Lamp" in name for name in document["components"]["schemas"])
    await http.ask("DELETE", f"{DEFINITIONS}/lamps.{group}")

    async def gone() -> bool:
        return group not in [item["name"] for item in (await other.get("/apis"))["groups"]]

    await until(gone, "the group vanishes")


async def test_deleting_a_definition_removes_its_objects(http: Http, other: Http, pair: Pair, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    for number in range(30):
        await http.create(path, lamp(group, f"a{number}"))
    held = lamp(group, "held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await http.create(path, held)
    reply = await other.ask("DELETE", f"{DEFINITIONS}/lamps.{group}")
    assert reply.status == 200
    assert reply.json["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert [one["type"] for one in reply.json["status"]["conditions"]][-1] == "Terminating"

    async def only_the_held_one() -> bool:
        return [item["metadata"]["name"] for item in (await http.get(path))["items"]] == ["held"]

    await until(only_the_held_one, "free objects go")
    refused = await http.ask("POST", path, lamp(group, "late"))
    assert refused.status == 405
    released = await http.ask(
        "PATCH", f"{path}/held", {"metadata": {"finalizers": None}}, Content_Type="application/merge-patch+json"
    )
    assert released.status == 200, released.body

    async def gone() -> bool:
        return (await http.ask("GET", f"{DEFINITIONS}/lamps.{group}")).status == 404

    await until(gone, "the definition goes last")
    assert (await http.ask("GET", path)).status == 404
    assert (await other.ask("GET", path)).status == 404
    assert not pair.etcd.ctl("get", "--prefix", "--keys-only", f"/registry/{group}/").strip()
    again = await http.create(DEFINITIONS, definition(group))
    assert again["metadata"]["name"] == f"lamps.{group}"
    assert (await other.get(path))["items"] == []


async def test_a_restarted_server_serves_what_is_stored(pair: Pair, http: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    await http.create(path, lamp(group, "a", x=1))
    with Apiserver(pair.etcd.endpoint, folder=pair.one.folder) as third:
        fresh = Http(http.session, third)
        assert (await fresh.get(f"{path}/a"))["x"] == 1
        third.kill()
        third.start()
        assert (await fresh.get(f"{path}/a"))["x"] == 1


async def test_names_belong_to_the_first(http: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    await http.create(DEFINITIONS, definition(group, plural="bulbs", kind="Lamp", listKind="BulbList"))
    second = await http.get(f"{DEFINITIONS}/bulbs.{group}")
    state = {one["type"]: (one["status"], one["reason"]) for one in second["status"]["conditions"]}
    assert state == {"NamesAccepted": ("False", "KindConflict"), "Established": ("False", "NotAccepted")}
    assert (await http.ask("GET", f"/apis/{group}/v1/bulbs")).status == 404
    await http.ask("DELETE", f"{DEFINITIONS}/lamps.{group}")

    async def served() -> bool:
        return (await http.ask("GET", f"/apis/{group}/v1/bulbs")).status == 200

    await until(served, "the name is free")


async def test_versions(http: Http, other: Http, pair: Pair, group: str) -> None:
    old = version("v1beta1", storage=False, deprecated=True)
    await http.create(DEFINITIONS, definition(group, version("v1"), old))
    path = "/apis/{}/{}/namespaces/default/lamps"
    await http.create(path.format(group, "v1beta1"), lamp(group, "a", "v1beta1", n=1))
    reply = await other.ask("GET", path.format(group, "v1beta1") + "/a")
    assert reply.json["apiVersion"] == f"{group}/v1beta1"
    assert "deprecated" in reply.headers["Warning"]
    assert (await other.get(path.format(group, "v1") + "/a"))["apiVersion"] == f"{group}/v1"
    stored = pair.etcd.ctl("get", "--print-value-only", f"/registry/{group}/lamps/default/a")
    assert json.loads(stored)["apiVersion"] == f"{group}/v1"
    wrong = await http.ask("POST", path.format(group, "v1"), lamp(group, "b", "v1beta1"))
    assert wrong.status == 400
    # another version becomes the one for storage: what is there is read all the same, and rewritten on its next change
    found = await http.get(f"{DEFINITIONS}/lamps.{group}")
    for one in found["spec"]["versions"]:
        one["storage"] = one["name"] == "v1beta1"
    replaced = await http.ask("PUT", f"{DEFINITIONS}/lamps.{group}", found)
    assert replaced.status == 200, replaced.body
    assert replaced.json["status"]["storedVersions"] == ["v1", "v1beta1"]
    assert (await http.get(path.format(group, "v1") + "/a"))["n"] == 1


async def test_a_watch_sees_what_the_other_server_writes(http: Http, other: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    version = (await http.get(path))["metadata"]["resourceVersion"]
    seen: list[Any] = []

    async def follow() -> None:
        async for event in other.watch(f"{path}?watch=1&timeoutSeconds=60&resourceVersion={version}"):
            seen.append((event["type"], event["object"]["metadata"]["name"], event["object"].get("x")))
            if len(seen) == 3:
                return

    following = asyncio.create_task(follow())
    await http.create(path, lamp(group, "a", x=1))
    changed = await http.ask("PATCH", f"{path}/a", {"x": 2}, Content_Type="application/merge-patch+json")
    assert changed.status == 200
    await http.ask("DELETE", f"{path}/a")
    await following
    assert seen == [("ADDED", "a", 1), ("MODIFIED", "a", 2), ("DELETED", "a", 2)]


async def test_a_changed_schema_counts_at_once(http: Http, group: str) -> None:
    strict = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
    await http.create(DEFINITIONS, definition(group))
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    await http.create(path, lamp(group, "a", x=1))
    found = await http.get(f"{DEFINITIONS}/lamps.{group}")
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = strict
    assert (await http.ask("PUT", f"{DEFINITIONS}/lamps.{group}", found)).status == 200
    shown = await http.get(f"{path}/a")
    assert "x" not in shown
    assert shown["n"] == 7
    refused = await http.ask("POST", path, lamp(group, "b", n="seven"))
    assert refused.causes == {"n": "FieldValueTypeInvalid"}


async def test_a_cluster_wide_kind_with_the_name_of_a_builtin(http: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group, plural="pods", kind="Pod", scope="Cluster"))
    await http.create(f"/apis/{group}/v1/pods", lamp(group, "a", kind="Pod", spec={"nodeName": "n1"}))
    assert (await http.ask("DELETE", f"/apis/{group}/v1/pods/a")).json["status"] == "Success"
    assert (await http.ask("GET", f"/apis/{group}/v1/namespaces/default/pods")).status == 404


async def test_a_server_that_lags_stores_nothing_under_an_old_schema(
    http: Http, other: Http, pair: Pair, group: str
) -> None:
    """The write itself compares the definition, so it does not matter what a server has heard of so far."""
    open_ended = {"type": "object", "properties": {"n": {"type": "integer"}}}
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    await http.create(DEFINITIONS, definition(group, version(schema=open_ended)))
    await other.create(path, lamp(group, "before", n=1))
    for limit in range(10, 15):
        found = await http.get(f"{DEFINITIONS}/lamps.{group}")
        found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["n"]["maximum"] = limit
        pause(pair.two.pid)
        try:
            asking = asyncio.create_task(other.ask("POST", path, lamp(group, f"late{limit}", n=limit + 1)))
            changed = await http.ask("PUT", f"{DEFINITIONS}/lamps.{group}", found)
        finally:
            resume(pair.two.pid)
        assert changed.status == 200, changed.body
        reply = await asking
        assert reply.status == 422, reply.body
    assert [item["metadata"]["name"] for item in (await http.get(path))["items"]] == ["before"]


async def test_another_server_finishes_what_a_killed_one_began(pair: Pair, http: Http, group: str) -> None:
    path = f"/apis/{group}/v1/namespaces/default/lamps"
    with Apiserver(pair.etcd.endpoint, folder=pair.one.folder) as third:
        dying = Http(http.session, third)
        await dying.create(DEFINITIONS, definition(group))
        await asyncio.gather(*(dying.create(path, lamp(group, f"a{number}")) for number in range(300)))
        asking = asyncio.create_task(dying.ask("DELETE", f"{DEFINITIONS}/lamps.{group}"))

        async def begun() -> bool:
            found = await http.ask("GET", f"{DEFINITIONS}/lamps.{group}")
            return found.status == 404 or "deletionTimestamp" in found.json["metadata"]

        await until(begun, "the end has begun")
        third.kill()
        await asyncio.gather(asking, return_exceptions=True)

    async def gone() -> bool:
        return (await http.ask("GET", f"{DEFINITIONS}/lamps.{group}")).status == 404

    await until(gone, "the definition is gone")
    assert not pair.etcd.ctl("get", "--prefix", "--keys-only", f"/registry/{group}/").strip()
