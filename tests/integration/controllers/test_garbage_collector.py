"""Owners and dependents against a real apiserver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.controllers.plane import Plane, configmap, until
from tests.support.definitions import definition
from wharfinger.api import errors
from wharfinger.api.types import apiextensions, core
from wharfinger.client import Client
from wharfinger.client.discovered import custom_kinds


@pytest.fixture
async def client(plane: Plane) -> AsyncIterator[Client]:
    if not any(item.name.startswith("manager") and item.alive for item in plane._processes):
        plane.manager("--controllers=garbage-collector")
    async with plane.client() as made:
        yield made


async def gone(client: Client, name: str) -> bool:
    try:
        await client.resource(core.ConfigMap).get(name, namespace="default")
    except errors.NotFoundError:
        return True
    return False


async def test_background(client: Client) -> None:
    maps = client.resource(core.ConfigMap)
    owner = await maps.create(configmap("bg-o"))
    child = await maps.create(configmap("bg-a", owner))
    await maps.create(configmap("bg-b", child))
    await maps.delete("bg-o", namespace="default", propagation_policy="Background")
    assert await gone(client, "bg-o")
    await until(lambda: gone(client, "bg-a"), "the dependent goes")
    await until(lambda: gone(client, "bg-b"), "its dependent goes too")


async def test_foreground_waits_for_blocking_dependents(client: Client) -> None:
    maps = client.resource(core.ConfigMap)
    owner = await maps.create(configmap("fg-o"))
    held = configmap("fg-a", owner, blocks=True)
    held.metadata.finalizers.append("example.com/hold")
    await maps.create(held)
    await maps.create(configmap("fg-b", owner, blocks=True))
    await maps.delete("fg-o", namespace="default", propagation_policy="Foreground")
    await until(lambda: gone(client, "fg-b"), "the free dependent goes")
    waiting = await maps.get("fg-o", namespace="default")
    assert list(waiting.metadata.finalizers) == ["foregroundDeletion"]
    await maps.patch("fg-a", patch={"metadata": {"finalizers": None}}, namespace="default")
    await until(lambda: gone(client, "fg-a"), "the held dependent goes")
    await until(lambda: gone(client, "fg-o"), "the owner goes last")


async def test_orphan_releases_and_keeps(client: Client) -> None:
    maps = client.resource(core.ConfigMap)
    owner = await maps.create(configmap("or-o"))
    await maps.create(configmap("or-a", owner))
    await maps.delete("or-o", namespace="default", propagation_policy="Orphan")
    await until(lambda: gone(client, "or-o"), "the owner goes")
    kept = await maps.get("or-a", namespace="default")
    assert not kept.metadata.ownerReferences
    assert not kept.metadata.HasField("deletionTimestamp")


async def test_an_owner_that_never_was(client: Client) -> None:
    maps = client.resource(core.ConfigMap)
    never = configmap("never")
    never.metadata.uid = "0f0f0f0f-0000-4000-8000-0000000000aa"
    live = await maps.create(configmap("live"))
    await maps.create(configmap("ab-a", never))
    await maps.create(configmap("ab-b", never, live))
    await until(lambda: gone(client, "ab-a"), "the one without a living owner goes")

    async def freed() -> bool:
        kept = await maps.get("ab-b", namespace="default")
        return [item.name for item in kept.metadata.ownerReferences] == ["live"]

    await until(freed, "the other loses the dead reference")


async def test_an_owner_made_anew_is_another(client: Client) -> None:
    maps = client.resource(core.ConfigMap)
    first = await maps.create(configmap("again"))
    await maps.delete("again", namespace="default", propagation_policy="Orphan")
    await until(lambda: gone(client, "again"), "the first goes")
    await maps.create(configmap("again"))
    await maps.create(configmap("an-a", first))
    await until(lambda: gone(client, "an-a"), "the dependent of the first goes")
    assert not await gone(client, "again")


async def test_two_that_own_each_other_in_the_foreground_do_not_wait_for_ever(client: Client) -> None:
    maps = client.resource(core.ConfigMap)
    one = await maps.create(configmap("ci-a"))
    two = await maps.create(configmap("ci-b", one, blocks=True))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "ci-b",
        "uid": two.metadata.uid,
        "blockOwnerDeletion": True,
    }
    await maps.patch("ci-a", patch={"metadata": {"ownerReferences": [reference]}}, namespace="default")
    await maps.delete("ci-a", namespace="default", propagation_policy="Foreground")
    await until(lambda: gone(client, "ci-a"), "the first goes")
    await until(lambda: gone(client, "ci-b"), "the second goes")


async def test_custom_kinds_come_and_go(plane: Plane, client: Client) -> None:
    """A kind that is defined while the collector runs has owners and dependents like any other."""
    definitions = client.resource(apiextensions.CustomResourceDefinition)
    lamps = definition("gc.example.com")
    await definitions.create(lamps)
    custom = next(
        kind for kind in custom_kinds(await client.discover()) if kind.group_resource == "lamps.gc.example.com"
    )
    objects = client.resource(custom.message)

    def lamp(name: str, owner: Any = None) -> Any:
        made: Any = custom.message()
        made.metadata.name, made.metadata.namespace = name, "default"
        if owner is not None:
            made.metadata.ownerReferences.add(
                apiVersion="v1", kind="ConfigMap", name=owner.metadata.name, uid=owner.metadata.uid
            )
        return made

    maps = client.resource(core.ConfigMap)
    owner = await objects.create(lamp("owner"))
    child = configmap("of-a-lamp")
    child.metadata.ownerReferences.add(
        apiVersion="gc.example.com/v1", kind="Lamp", name="owner", uid=owner.metadata.uid
    )
    await maps.create(child)
    parent = await maps.create(configmap("parent"))
    other = await maps.create(configmap("other-parent"))
    two = lamp("of-two", parent)
    two.metadata.ownerReferences.add(apiVersion="v1", kind="ConfigMap", name="other-parent", uid=other.metadata.uid)
    await objects.create(two)
    await objects.create(lamp("of-a-map", parent))
    await maps.delete("parent", namespace="default", propagation_policy="Background")

    async def is_gone(name: str) -> bool:
        try:
            await objects.get(name, namespace="default")
        except errors.NotFoundError:
            return True
        return False

    async def one_owner_left() -> bool:
        kept = await objects.get("of-two", namespace="default")
        return [ref.name for ref in kept.metadata.ownerReferences] == ["other-parent"]

    await until(lambda: is_gone("of-a-map"), "a custom dependent goes with its owner")
    await until(one_owner_left, "the one that has another owner lets go of the first")
    await objects.delete("owner", namespace="default")
    await until(lambda: gone(client, "of-a-lamp"), "what a custom object owned goes with it")
    await definitions.delete("lamps.gc.example.com")

    async def undefined() -> bool:
        return not any(kind.group == "gc.example.com" for kind in custom_kinds(await client.discover()))

    await until(undefined, "the kind is gone")
