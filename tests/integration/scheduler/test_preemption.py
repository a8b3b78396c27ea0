"""Less important pods make room, through real processes; the test plays the node that ends pods being deleted."""

from __future__ import annotations

from tests.integration.scheduler.conftest import World, dump
from wharfinger.api import errors
from wharfinger.api import pods as podfacts
from wharfinger.api.types import core, policy, scheduling


async def priority_class(world: World, name: str, value: int, policy_: str) -> None:
    made = scheduling.PriorityClass()
    made.metadata.name = name
    made.value = value
    made.preemptionPolicy = policy_
    try:
        await world.client.resource(scheduling.PriorityClass).create(made)
    except errors.AlreadyExistsError:
        return


async def important(world: World, name: str, cpu: str, *, policy_: str = "PreemptLowerPriority") -> None:
    kind = f"important-{policy_.lower()}"

    def change(pod: core.Pod) -> None:
        pod.spec.priorityClassName = kind

    await priority_class(world, kind, 1000, policy_)
    await world.pod(name, cpu=cpu, change=change)


async def leaving(world: World, name: str) -> core.Pod:
    """Wait until a pod is being deleted."""

    async def probe() -> core.Pod | None:
        pod = await world.get(name)
        return pod if pod.metadata.HasField("deletionTimestamp") else None

    pod = await world.until(probe)
    assert isinstance(pod, core.Pod)
    return pod


async def test_a_less_important_pod_makes_room(world: World) -> None:
    await world.node("p-1", cpu="1")
    await world.pod("cheap", cpu="1")
    await world.bound("cheap")
    await important(world, "dear", "1")
    victim = await leaving(world, "cheap")
    condition = podfacts.condition(victim, "DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")

    async def nominated() -> str:
        return (await world.get("dear")).status.nominatedNodeName

    assert await world.until(nominated) == "p-1"
    await world.pod("rival", cpu="1")
    await world.pods.delete("cheap", namespace=world.namespace, grace_period_seconds=0)
    assert await world.bound("dear") == "p-1", dump(world.cluster)
    event = await world.event("cheap", "Preempted")
    assert event.message.endswith(" on node p-1")
    assert (await world.get("rival")).spec.nodeName == "", "the node was kept for the pod that made the room"


async def test_a_pod_that_never_preempts_waits(world: World) -> None:
    await world.node("w-1", cpu="1")
    await world.pod("cheap", cpu="1")
    await world.bound("cheap")
    await important(world, "polite", "1", policy_="Never")
    assert "preemption: not eligible due to preemptionPolicy=Never." in await world.refused("polite")
    assert not (await world.get("cheap")).metadata.HasField("deletionTimestamp")


async def test_pods_without_a_budget_go_first(world: World) -> None:
    budget = policy.PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "keep", world.namespace
    budget.spec.selector.matchLabels["app"] = "kept"
    budget.spec.minAvailable.intVal = 1
    await world.client.resource(policy.PodDisruptionBudget).create(budget)

    def kept(pod: core.Pod) -> None:
        pod.metadata.labels["app"] = "kept"

    await world.node("b-1", cpu="1")
    await world.pod("kept", cpu="1", change=kept)
    await world.bound("kept")
    await world.node("b-2", cpu="1")
    await world.pod("free", cpu="1")
    await world.bound("free")
    await important(world, "dear", "1")
    await leaving(world, "free")
    assert not (await world.get("kept")).metadata.HasField("deletionTimestamp")
