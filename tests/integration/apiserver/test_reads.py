"""Get, list, watch: versions, pages, selectors, resuming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.apiserver.objects import config_map, pod
from wharfinger.api import errors
from wharfinger.api.types import core, meta
from wharfinger.client import Client
from wharfinger.proto.native import resources_v1_pb2 as native

DEADLINE = 15.0


async def _collect(stream: AsyncIterator[list[Any]], count: int) -> list[Any]:
    """The first `count` events that are no bookmarks."""
    found: list[Any] = []
    async with asyncio.timeout(DEADLINE):
        async for batch in stream:
            found += [event for event in batch if event.type != "BOOKMARK"]
            if len(found) >= count:
                return found
    return found


def _short(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.type, event.object.metadata.name) for event in events]


async def test_lists_are_fresh_and_sorted(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    await asyncio.gather(*(maps.create(config_map(f"m{n}", namespace)) for n in (3, 1, 2)))
    listed = await maps.list(namespace=namespace)
    assert [item.metadata.name for item in listed.items] == ["m1", "m2", "m3"]
    assert all(item.metadata.resourceVersion for item in listed.items)


async def test_pages_show_one_revision(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    for number in range(5):
        await maps.create(config_map(f"m{number}", namespace))
    first = await maps.list(namespace=namespace, limit=2)
    assert ([item.metadata.name for item in first.items], first.remaining) == (["m0", "m1"], 3)
    await maps.delete("m3", namespace=namespace)
    await maps.create(config_map("m9", namespace))
    second = await maps.list(namespace=namespace, limit=2, continue_=first.continue_)
    third = await maps.list(namespace=namespace, limit=2, continue_=second.continue_)
    assert [item.metadata.name for page in (second, third) for item in page.items] == ["m2", "m3", "m4"]
    assert first.resource_version == second.resource_version == third.resource_version
    assert not third.continue_


async def test_selected_pages_do_not_count_what_remains(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    for number in range(6):
        made = config_map(f"m{number}", namespace)
        made.metadata.labels["even"] = str(number % 2 == 0).lower()
        await maps.create(made)
    page = await maps.list(namespace=namespace, label_selector="even=true", limit=2)
    assert ([item.metadata.name for item in page.items], page.remaining) == (["m0", "m2"], 0)
    rest = await maps.list(namespace=namespace, label_selector="even=true", limit=2, continue_=page.continue_)
    assert ([item.metadata.name for item in rest.items], rest.continue_) == (["m4"], "")


async def test_lists_at_a_revision(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    first = await maps.create(config_map("a", namespace))
    await maps.create(config_map("b", namespace))
    then = await maps.list(
        namespace=namespace, resource_version=first.metadata.resourceVersion, resource_version_match="Exact"
    )
    assert [item.metadata.name for item in then.items] == ["a"]
    with pytest.raises(errors.TimeoutError_) as caught:
        await maps.get("a", namespace=namespace, resource_version="999999999")
    assert [cause.reason for cause in caught.value.causes] == ["ResourceVersionTooLarge"]
    with pytest.raises(errors.InvalidError):
        await maps.list(namespace=namespace, resource_version_match="Exact")


@pytest.mark.parametrize("token", ["junk", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi8uLi94In0"])
async def test_bad_tokens(client: Client, namespace: str, token: str) -> None:
    with pytest.raises(errors.BadRequestError, match="continue"):
        await client.resource(core.ConfigMap).list(namespace=namespace, limit=1, continue_=token)


async def test_field_selectors(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    await pods.create(pod("a", namespace, node="n1"))
    await pods.create(pod("b", namespace, node="n2"))
    await pods.create(pod("c", namespace))
    for selector, names in {
        "spec.nodeName=n1": ["a"],
        "spec.nodeName=": ["c"],
        "spec.nodeName!=": ["a", "b"],
        "spec.nodeName=n1,metadata.name=b": [],
        "metadata.name=b,metadata.name!=b": [],
        "metadata.namespace=elsewhere": [],
        "status.phase=Pending,metadata.name!=a": ["b", "c"],
    }.items():
        listed = await pods.list(namespace=namespace, field_selector=selector)
        assert [item.metadata.name for item in listed.items] == names, selector
    with pytest.raises(errors.BadRequestError, match=r"spec\.priority"):
        await pods.list(namespace=namespace, field_selector="spec.priority=0")


async def test_a_watch_shows_what_came_after(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    start = await maps.list(namespace=namespace)
    made = await maps.create(config_map("a", namespace))
    await maps.patch("a", patch={"data": {"k": "v"}}, namespace=namespace)
    await maps.delete("a", namespace=namespace)
    events = await _collect(maps.watch(namespace=namespace, resource_version=start.resource_version), 3)
    assert _short(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(versions)
    assert versions[0] == int(made.metadata.resourceVersion)
    later = await _collect(maps.watch(namespace=namespace, resource_version=str(versions[1])), 1)
    assert _short(later) == [("DELETED", "a")]


async def test_selectors_turn_changes_into_comings_and_goings(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    start = await pods.list(namespace=namespace)
    await pods.create(pod("a", namespace))
    await client.bind(namespace, "a", node="n7")
    await pods.patch("a", patch={"metadata": {"labels": {"x": "1"}}}, namespace=namespace)
    on_node = pods.watch(
        namespace=namespace, field_selector="spec.nodeName=n7", resource_version=start.resource_version
    )
    assert _short(await _collect(on_node, 2)) == [("ADDED", "a"), ("MODIFIED", "a")]
    unplaced = pods.watch(namespace=namespace, field_selector="spec.nodeName=", resource_version=start.resource_version)
    assert _short(await _collect(unplaced, 2)) == [("ADDED", "a"), ("DELETED", "a")]
    await pods.patch("a", patch={"metadata": {"labels": {"x": None}}}, namespace=namespace)
    labelled = pods.watch(namespace=namespace, label_selector="x=1", resource_version=start.resource_version)
    assert _short(await _collect(labelled, 2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_initial_events_end_with_a_marked_bookmark(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    for name in ("a", "b"):
        await maps.create(config_map(name, namespace))
    seen: list[Any] = []
    async with asyncio.timeout(DEADLINE):
        async for batch in maps.watch(namespace=namespace, send_initial_events=True):
            seen += batch
            if any(event.initial_events_end for event in batch):
                break
    assert [(event.type, event.object.metadata.name) for event in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("BOOKMARK", ""),
    ]


async def test_bookmarks_come_without_changes(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    start = await maps.list(namespace=namespace)
    async with asyncio.timeout(DEADLINE):
        async for batch in maps.watch(namespace=namespace, resource_version=start.resource_version):
            assert [event.type for event in batch] == ["BOOKMARK"]
            assert int(batch[0].resource_version) >= int(start.resource_version)
            break


async def test_a_watch_ends_when_its_time_is_over(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    async with asyncio.timeout(DEADLINE):
        async for _ in maps.watch(namespace=namespace, timeout_seconds=1):
            pass


async def test_lists_come_in_chunks(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    async with client.writer() as writer:
        await asyncio.gather(*(writer.create(config_map(f"m{n:04}", namespace)) for n in range(1203)))
    request = native.ListRequest(
        reference=native.Reference(version="v1", resource="configmaps", namespace=namespace), options=meta.ListOptions()
    )
    sizes, versions = [], set()
    endpoint = maps._transport.endpoint()
    async for chunk in endpoint.resources.List(request):
        sizes.append(len(chunk.items))
        versions.add(chunk.resource_version)
    assert sizes == [500, 500, 203]
    assert len(versions) == 1


async def test_events_are_served_under_both_groups(client: Client, namespace: str) -> None:
    from wharfinger.api.types import events

    made = core.Event(reason="Tested", message="hello", type="Normal", reportingComponent="tests")
    made.metadata.name, made.metadata.namespace = "e", namespace
    made.involvedObject.kind, made.involvedObject.name, made.involvedObject.namespace = "Pod", "web", namespace
    await client.resource(core.Event).create(made)
    seen = await client.resource(events.Event).get("e", namespace=namespace)
    assert (seen.note, seen.regarding.name, seen.reportingController) == ("hello", "web", "tests")
    assert seen.metadata.resourceVersion
    listed = await client.resource(events.Event).list(namespace=namespace, field_selector="regarding.name=web")
    assert [item.metadata.name for item in listed.items] == ["e"]
