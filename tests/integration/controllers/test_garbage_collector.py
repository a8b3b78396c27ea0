"""Owners and dependents against a real apiserver."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.controllers.plane import Plane, configmap, until
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client


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
