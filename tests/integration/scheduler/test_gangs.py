"""Gangs end to end: the kind as the apiserver serves it, placing, explaining, a scheduler that dies between binds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.scheduler.conftest import World
from tests.integration.scheduler.test_preemption import leaving
from tests.integration.scheduler.test_simulate import wharf
from wharfinger.api import errors, kinds
from wharfinger.api.types import core, gangs
from wharfinger.devtools.cluster import SCHEDULER


async def group(world: World, name: str, minimum: int, *, timeout: int | None = None) -> gangs.PodGroup:
    made = gangs.PodGroup()
    made.metadata.name, made.metadata.namespace = name, world.namespace
    made.spec.minMember = minimum
    if timeout is not None:
        made.spec.scheduleTimeoutSeconds = timeout
    return await world.client.resource(gangs.PodGroup).create(made)


def of(name: str) -> Callable[[core.Pod], None]:
    def join(pod: core.Pod) -> None:
        pod.spec.schedulingGroup.podGroupName = name

    return join


async def reason(world: World, name: str, wanted: str) -> gangs.PodGroup:
    """Wait until the PodGroup says so."""

    async def found() -> gangs.PodGroup | None:
        current = await world.client.resource(gangs.PodGroup).get(name, namespace=world.namespace)
        return current if any(one.reason == wanted for one in current.status.conditions) else None

    result = await world.until(found)
    assert isinstance(result, gangs.PodGroup)
    return result


async def test_the_kind(world: World) -> None:
    created = await group(world, "kind", 3)
    assert created.spec.scheduleTimeoutSeconds == 60
    assert created.metadata.generation == 1
    kind = kinds.of(created)
    assert kind.etcd_key("kind", world.namespace).startswith("/wharfinger/"), "Kubernetes does not know it"
    with pytest.raises(errors.InvalidError, match=r"spec\.minMember"):
        await group(world, "wrong", 0)
    shown = await wharf(world, "get", "pg")
    assert shown.splitlines()[0].split() == ["NAME", "PHASE", "MIN-MEMBER", "MEMBERS", "SCHEDULED", "AGE"]
    await wharf(world, "delete", "podgroup", "kind")
    with pytest.raises(errors.NotFoundError):
        await world.client.resource(gangs.PodGroup).get("kind", namespace=world.namespace)


async def test_all_or_none_and_why(world: World, tmp_path: Path) -> None:
    await world.node("g-1", cpu="1")
    for index in range(2):
        await world.pod(f"m{index}", "400m", change=of("train"))
    await group(world, "train", 3)
    status = (await reason(world, "train", "NotEnoughMembers")).status
    assert (status.phase, status.members, status.scheduled) == ("Pending", 2, 0)
    assert "2 of 3 members of PodGroup train are there" in await wharf(world, "why", "m0")
    await world.pod("m2", "400m", change=of("train"))
    assert "2 of 3 members of PodGroup train fit at the same time" in await world.refused("m0")
    said = json.loads(await wharf(world, "why", "m0", "-o", "json"))["gang"]
    assert (said["name"], said["minMember"], said["members"], said["fitting"]) == ("train", 3, 3, 2)
    assert said["refused"] == f"{world.namespace}/m2"
    waiting = json.loads(await wharf(world, "why", "--pending", "-o", "json"))["groups"]
    assert [entry["count"] for entry in waiting] == [3]
    path = tmp_path / "more.yaml"
    path.write_text(MORE)
    said = json.loads(await wharf(world, "simulate", "-f", str(path), "-o", "json", code=1))
    assert [placement["node"] for placement in said["placements"]] == [""] * 3
    said = json.loads(await wharf(world, "simulate", "-f", str(path), "--add-node", "more,cpu=1", "-o", "json"))
    assert sorted(placement["node"] for placement in said["placements"]) in (
        ["g-1", "g-1", "more"],
        ["g-1", "more", "more"],
    )
    assert not any([(await world.get(f"m{index}")).spec.nodeName for index in range(3)])
    await world.node("g-2", cpu="1")
    assert {await world.bound(f"m{index}") for index in range(3)} == {"g-1", "g-2"}
    status = (await reason(world, "train", "Scheduled")).status
    assert (status.phase, status.scheduled, status.conditions[0].status) == ("Scheduled", 3, "True")


MORE = """
apiVersion: scheduling.wharfinger.dev/v1alpha1
kind: PodGroup
metadata: {name: more}
spec: {minMember: 3}
---
apiVersion: batch/v1
kind: Job
metadata: {name: more}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      schedulingGroup: {podGroupName: more}
      containers: [{name: c, image: registry.example/app:1, resources: {requests: {cpu: 400m}}}]
"""


async def test_two_gangs_on_room_for_one(world: World) -> None:
    await world.node("g-3", cpu="1")
    for name in ("x", "y"):
        await group(world, name, 2)
    await asyncio.gather(*(world.pod(f"{name}{index}", "400m", change=of(name)) for index in (0, 1) for name in "xy"))

    async def one_is_placed() -> str:
        nodes = {name: [(await world.get(f"{name}{index}")).spec.nodeName for index in (0, 1)] for name in "xy"}
        return next((name for name, found in nodes.items() if all(found)), "")

    first = await world.until(one_is_placed)
    other = "y" if first == "x" else "x"
    await reason(world, other, "Unschedulable")
    assert not (await world.get(f"{other}0")).spec.nodeName
    assert not (await world.get(f"{other}1")).spec.nodeName
    for index in (0, 1):
        await world.pods.delete(f"{first}{index}", namespace=world.namespace, grace_period_seconds=0)
    assert await world.bound(f"{other}0") == await world.bound(f"{other}1") == "g-3"


async def test_a_gang_that_was_begun_is_completed_by_the_next_leader(world: World) -> None:
    await world.node("g-4", cpu="1")
    await asyncio.to_thread(world.cluster.kill, SCHEDULER)
    await world.pod("older", "400m")
    await group(world, "half", 2)
    for index in (0, 1):
        await world.pod(f"h{index}", "400m", change=of("half"))
    await world.client.bind(world.namespace, "h0", node="g-4")  # as far as the dead one had come
    await asyncio.to_thread(world.cluster.start, SCHEDULER)
    assert await world.bound("h1") == "g-4"
    assert not (await world.get("older")).spec.nodeName, "it was created earlier, and yet comes later"
    await reason(world, "half", "Scheduled")


async def test_victims_go_only_for_a_whole_gang_and_its_room_is_kept(world: World) -> None:
    await world.node("g-5", cpu="1")
    await world.pod("cheap", "900m")
    await world.bound("cheap")

    def dear(pod: core.Pod) -> None:
        of("dear")(pod)
        pod.spec.priorityClassName = "system-cluster-critical"

    await group(world, "dear", 3)
    for index in (0, 1, 2):
        await world.pod(f"d{index}", "400m", change=dear)
    await reason(world, "dear", "Unschedulable")
    assert not (await world.get("cheap")).metadata.HasField("deletionTimestamp"), (
        "two would fit, and that is not enough"
    )
    await world.node("g-6", cpu="500m")
    await reason(world, "dear", "MakingRoom")
    await leaving(world, "cheap")
    await world.pod("thief", "400m")
    await world.refused("thief")
    await world.pods.delete("cheap", namespace=world.namespace, grace_period_seconds=0)
    assert {await world.bound(f"d{index}") for index in (0, 1, 2)} == {"g-5", "g-6"}
    assert not (await world.get("thief")).spec.nodeName


async def test_a_scheduler_killed_while_it_binds_a_gang(world: World) -> None:
    """Wherever in between it dies, the next one brings the gang to its end."""
    size = 60
    await world.node("g-7", cpu="8")
    await group(world, "many", size)
    await asyncio.gather(*(world.pod(f"k{index}", "100m", change=of("many")) for index in range(size - 1)))
    await reason(world, "many", "NotEnoughMembers")
    last = asyncio.ensure_future(world.pod(f"k{size - 1}", "100m", change=of("many")))

    async def placed() -> int:
        return sum(1 for pod in (await world.pods.list(namespace=world.namespace)).items if pod.spec.nodeName)

    await world.until(placed)
    await asyncio.to_thread(world.cluster.kill, SCHEDULER)
    await last
    await asyncio.to_thread(world.cluster.start, SCHEDULER)

    async def all_placed() -> bool:
        return await placed() == size

    await world.until(all_placed)
    await reason(world, "many", "Scheduled")
