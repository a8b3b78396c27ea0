"""Deletes: grace, finalizers, preconditions, propagation, collections, namespaces, evictions."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.apiserver.objects import config_map, pod, replica_set
from tests.support.apiserver import Apiserver
from wharfinger.api import errors
from wharfinger.api import pods as podfacts
from wharfinger.api.types import apps, core, policy
from wharfinger.client import Client


async def test_a_pod_on_a_node_lingers_until_its_agent_lets_it_go(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    await pods.create(pod("web", namespace, node="n1"))
    await pods.delete("web", namespace=namespace)
    marked = await pods.get("web", namespace=namespace)
    assert (marked.metadata.deletionGracePeriodSeconds, marked.metadata.generation) == (30, 2)
    await pods.delete("web", namespace=namespace, grace_period_seconds=5)
    shorter = await pods.get("web", namespace=namespace)
    assert shorter.metadata.deletionGracePeriodSeconds == 5
    assert shorter.metadata.deletionTimestamp.seconds == marked.metadata.deletionTimestamp.seconds - 25
    await pods.delete("web", namespace=namespace, grace_period_seconds=50)
    assert (await pods.get("web", namespace=namespace)) == shorter
    await pods.delete("web", namespace=namespace, grace_period_seconds=0)
    with pytest.raises(errors.NotFoundError):
        await pods.get("web", namespace=namespace)


async def test_a_pod_without_a_node_goes_at_once(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    made = await pods.create(pod("web", namespace))
    await pods.delete("web", namespace=namespace)
    with pytest.raises(errors.NotFoundError):
        await pods.get("web", namespace=namespace)
    again = await pods.create(pod("web", namespace))
    assert again.metadata.uid != made.metadata.uid


async def test_finalizers_hold_an_object_until_the_last_is_gone(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    held = config_map("a", namespace)
    held.metadata.finalizers.extend(["example.com/one", "example.com/two"])
    await maps.create(held)
    await maps.delete("a", namespace=namespace)
    marked = await maps.get("a", namespace=namespace)
    assert marked.metadata.HasField("deletionTimestamp")
    await maps.patch("a", patch={"metadata": {"finalizers": ["example.com/two"]}}, namespace=namespace)
    assert (await maps.get("a", namespace=namespace)).metadata.finalizers == ["example.com/two"]
    await maps.patch("a", patch={"metadata": {"finalizers": None}}, namespace=namespace)
    with pytest.raises(errors.NotFoundError):
        await maps.get("a", namespace=namespace)


async def test_preconditions(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    made = await maps.create(config_map("a", namespace))
    with pytest.raises(errors.ConflictError, match="UID"):
        await maps.delete("a", namespace=namespace, uid="11111111-2222-3333-4444-555555555555")
    await maps.patch("a", patch={"data": {"k": "v"}}, namespace=namespace)
    with pytest.raises(errors.ConflictError, match="ResourceVersion"):
        await maps.delete("a", namespace=namespace, resource_version=made.metadata.resourceVersion)
    await maps.delete("a", namespace=namespace, uid=made.metadata.uid)


@pytest.mark.parametrize(("policy_name", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
async def test_propagation_is_left_to_the_collector(
    client: Client, namespace: str, policy_name: str, finalizer: str
) -> None:
    sets = client.resource(apps.ReplicaSet)
    await sets.create(replica_set("r", namespace))
    await sets.delete("r", namespace=namespace, propagation_policy=policy_name)
    assert (await sets.get("r", namespace=namespace)).metadata.finalizers == [finalizer]


async def test_background_deletes_at_once(client: Client, namespace: str) -> None:
    sets = client.resource(apps.ReplicaSet)
    await sets.create(replica_set("r", namespace))
    await sets.delete("r", namespace=namespace, propagation_policy="Background")
    with pytest.raises(errors.NotFoundError):
        await sets.get("r", namespace=namespace)
    with pytest.raises(errors.InvalidError) as caught:
        await sets.delete("r", namespace=namespace, propagation_policy="Nope")
    assert caught.value.causes[0].field == "propagationPolicy"


async def test_collections_go_by_selector(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    for number in range(4):
        made = config_map(f"m{number}", namespace)
        made.metadata.labels["even"] = str(number % 2 == 0).lower()
        await maps.create(made)
    await maps.delete_collection(namespace=namespace, label_selector="even=true")
    assert [item.metadata.name for item in (await maps.list(namespace=namespace)).items] == ["m1", "m3"]


async def test_a_namespace_ends_when_it_is_finalized(client: Client, namespace: str) -> None:
    namespaces = client.resource(core.Namespace)
    await client.resource(core.ConfigMap).create(config_map("kept", namespace))
    await namespaces.delete(namespace)
    ending = await namespaces.get(namespace)
    assert ending.status.phase == "Terminating"
    with pytest.raises(errors.ForbiddenError) as caught:
        await client.resource(core.ConfigMap).create(config_map("late", namespace))
    assert [cause.reason for cause in caught.value.causes] == ["NamespaceTerminating"]
    del ending.spec.finalizers[:]
    await namespaces.update(ending, subresource="finalize")
    with pytest.raises(errors.NotFoundError):
        await namespaces.get(namespace)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_stay(client: Client, name: str) -> None:
    with pytest.raises(errors.ForbiddenError):
        await client.resource(core.Namespace).delete(name)


async def _evict(client: Client, namespace: str, name: str) -> None:
    raw = client.raw(client.resource(core.Pod).kind)
    body = f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{name}"}}}}'.encode()
    await raw.create(body, namespace=namespace, name=name, subresource="eviction")


async def test_evictions_ask_the_budget(client: Client, namespace: str) -> None:
    pods, budgets = client.resource(core.Pod), client.resource(policy.PodDisruptionBudget)
    for name in ("one", "two"):
        made = await pods.create(pod(name, namespace, node="n1", app="web"))
        made.status.phase = "Running"
        made.status.conditions.add(type="Ready", status="True")
        await pods.update_status(made)
    budget = policy.PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "budget", namespace
    budget.spec.selector.matchLabels["app"] = "web"
    budget.spec.maxUnavailable.intVal = 1
    stored = await budgets.create(budget)
    with pytest.raises(errors.TooManyRequestsError) as caught:  # nobody has counted yet
        await _evict(client, namespace, "one")
    assert [cause.reason for cause in caught.value.causes] == ["DisruptionBudget"]
    stored.status.observedGeneration = stored.metadata.generation
    stored.status.disruptionsAllowed = 1
    stored.status.desiredHealthy, stored.status.currentHealthy, stored.status.expectedPods = 1, 2, 2
    await budgets.update_status(stored)
    await _evict(client, namespace, "one")
    evicted = await pods.get("one", namespace=namespace)
    assert evicted.metadata.HasField("deletionTimestamp")
    why = podfacts.condition(evicted, "DisruptionTarget")
    assert why is not None
    assert (why.status, why.reason) == ("True", "EvictionByEvictionAPI")
    counted = await budgets.get("budget", namespace=namespace)
    assert (counted.status.disruptionsAllowed, list(counted.status.disruptedPods)) == (0, ["one"])
    with pytest.raises(errors.TooManyRequestsError):
        await _evict(client, namespace, "two")
    assert not (await pods.get("two", namespace=namespace)).metadata.HasField("deletionTimestamp")


async def test_who_may_not_evict_does_not_learn_of_the_budget(
    server: Apiserver, client: Client, namespace: str
) -> None:
    pods, budgets = client.resource(core.Pod), client.resource(policy.PodDisruptionBudget)
    made = await pods.create(pod("web", namespace, node="n1", app="web"))
    made.status.phase = "Running"
    await pods.update_status(made)
    budget = policy.PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "none-allowed", namespace
    budget.spec.selector.matchLabels["app"] = "web"
    budget.spec.minAvailable.intVal = 1
    await budgets.create(budget)
    async with server.client("system:node:n2", ["system:nodes"]) as other:
        with pytest.raises(errors.ForbiddenError, match="can only evict pods with"):
            await _evict(other, namespace, "web")
    async with server.client("system:node:n1", ["system:nodes"]) as own:
        with pytest.raises(errors.TooManyRequestsError):
            await _evict(own, namespace, "web")


async def test_a_pod_that_gets_ready_meanwhile_is_not_evicted_past_its_budget(client: Client, namespace: str) -> None:
    """A pod that is not ready costs its budget nothing; it must still be so in the moment that it goes."""
    pods, budgets = client.resource(core.Pod), client.resource(policy.PodDisruptionBudget)
    budget = policy.PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "none-allowed", namespace
    budget.spec.selector.matchLabels["app"] = "web"
    budget.spec.minAvailable.intVal = 1
    stored = await budgets.create(budget)
    stored.status.observedGeneration = stored.metadata.generation
    stored.status.desiredHealthy, stored.status.currentHealthy, stored.status.expectedPods = 1, 1, 2
    await budgets.update_status(stored)
    names = [f"web-{index}" for index in range(100)]
    since = ""
    for name in names:
        made = await pods.create(pod(name, namespace, node="n1", app="web"))
        made.status.phase = "Running"
        made = await pods.update_status(made)
        since = since or made.metadata.resourceVersion

    async def get_ready(name: str) -> None:
        conditions = [{"type": "Ready", "status": "True"}]
        await pods.patch(name, patch={"status": {"conditions": conditions}}, namespace=namespace, subresource="status")

    async def evict(name: str) -> bool:
        try:
            await _evict(client, namespace, name)
        except errors.TooManyRequestsError:
            return False
        return True

    evicted = 0
    for name in names:
        _, gone = await asyncio.gather(get_ready(name), evict(name))
        evicted += gone
    when_marked: dict[str, bool] = {}
    async for events in pods.watch(namespace=namespace, resource_version=since):
        for event in events:
            if event.type == "MODIFIED" and event.object.metadata.HasField("deletionTimestamp"):
                ready = podfacts.condition(event.object, "Ready")
                when_marked.setdefault(event.object.metadata.name, ready is not None and ready.status == "True")
        if len(when_marked) >= evicted:
            break
    assert not [name for name, ready in when_marked.items() if ready]


async def test_a_displaced_pod_says_why_in_the_same_write(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    made = await pods.create(pod("slow", namespace, node="n1"))
    at_once = pod("quick", namespace, node="n1")
    at_once.spec.terminationGracePeriodSeconds = 0
    await pods.create(at_once)
    async with client.writer() as writer:
        with pytest.raises(errors.ConflictError, match="UID"):
            await writer.displace("slow", namespace=namespace, uid="another", reason="Test", message="away")
        for name in ("slow", "quick"):
            await writer.displace(name, namespace=namespace, reason="Test", message="away")
        with pytest.raises(errors.NotFoundError):
            await writer.displace("quick", namespace=namespace, reason="Test", message="away")
        with pytest.raises(errors.BadRequestError, match=r"disruption.reason"):
            await writer.displace("slow", namespace=namespace, reason="", message="away")
    seen: list[tuple[str, str, bool, bool]] = []
    async for events in pods.watch(namespace=namespace, resource_version=made.metadata.resourceVersion):
        for event in (event for event in events if event.type != "BOOKMARK"):
            metadata, why = event.object.metadata, podfacts.condition(event.object, "DisruptionTarget")
            seen.append((event.type, metadata.name, metadata.HasField("deletionTimestamp"), why is not None))
        if seen and seen[-1][0] == "DELETED":
            break
    assert seen == [
        ("ADDED", "quick", False, False),
        ("MODIFIED", "slow", True, True),
        ("MODIFIED", "quick", True, True),
        ("DELETED", "quick", True, True),
    ]
