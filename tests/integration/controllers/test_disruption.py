"""Evictions against a budget, with its controller and a real apiserver."""

from __future__ import annotations

import orjson
import pytest

from tests.integration.controllers.plane import FakeNodes, Plane, replicaset, until
from wharfinger.api import errors, kinds
from wharfinger.api.types import apps, core, policy
from wharfinger.client import Client


async def evict(client: Client, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    raw = client.raw(kinds.of(core.Pod))
    await raw.create(orjson.dumps(body), namespace="default", name=pod, subresource="eviction")


async def test_evictions_wait_for_replacements(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client, FakeNodes(client, "e1", "e2"):
        budgets, pods = client.resource(policy.PodDisruptionBudget), client.resource(core.Pod)
        budget = policy.PodDisruptionBudget()
        budget.metadata.name, budget.metadata.namespace = "held", "default"
        budget.spec.selector.matchLabels["app"] = "held"
        budget.spec.maxUnavailable.type, budget.spec.maxUnavailable.intVal = 0, 1
        await budgets.create(budget)
        await client.resource(apps.ReplicaSet).create(replicaset("held"))

        async def one_allowed() -> bool:
            status = (await budgets.get("held", namespace="default")).status
            return (status.disruptionsAllowed, status.currentHealthy, status.desiredHealthy, status.expectedPods) == (
                1, 3, 2, 3,
            )  # fmt: skip

        await until(one_allowed, "one disruption is allowed")
        first, second, _ = (await pods.list(namespace="default", label_selector="app=held")).items
        await evict(client, first.metadata.name)
        with pytest.raises(errors.TooManyRequestsError):
            await evict(client, second.metadata.name)
        await until(one_allowed, "one is allowed again once the pod is replaced")
        await evict(client, second.metadata.name)
