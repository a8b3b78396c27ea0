"""ReplicaSets against a real apiserver: claims, victims, and pods that nodes refuse."""

from __future__ import annotations

import asyncio

from tests.integration.controllers.plane import Plane, replicaset, until
from wharfinger.api import errors
from wharfinger.api.types import apps, core
from wharfinger.client import Client


async def pods_of(client: Client, name: str) -> list[core.Pod]:
    listed = await client.resource(core.Pod).list(namespace="default", label_selector=f"app={name}")
    return [pod for pod in listed.items if not pod.metadata.HasField("deletionTimestamp")]


async def test_pods_are_adopted_released_and_replaced(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client:
        pods, sets = client.resource(core.Pod), client.resource(apps.ReplicaSet)
        stray = core.Pod()
        stray.metadata.name, stray.metadata.namespace, stray.metadata.labels["app"] = "stray", "default", "claim"
        stray.spec.containers.add(name="c", image="registry.example/v1")
        await pods.create(stray)
        owner = await sets.create(replicaset("claim"))

        async def three() -> bool:
            return len(await pods_of(client, "claim")) == 3

        await until(three, "two are made beside the one that was there")
        adopted = await pods.get("stray", namespace="default")
        assert [item.uid for item in adopted.metadata.ownerReferences] == [owner.metadata.uid]
        await pods.patch("stray", patch={"metadata": {"labels": {"app": "debug"}}}, namespace="default")
        await until(three, "the one that was taken out is replaced")

        async def released() -> bool:
            return not (await pods.get("stray", namespace="default")).metadata.ownerReferences

        await until(released, "and is nobody's")

        async def told() -> bool:
            status = (await sets.get("claim", namespace="default")).status
            return (status.replicas, status.fullyLabeledReplicas, status.readyReplicas) == (3, 3, 0)

        await until(told, "the status tells")
        keep = (await pods_of(client, "claim"))[0]
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await pods.patch(
            keep.metadata.name, patch=ready, patch_type="strategic", namespace="default", subresource="status"
        )

        async def one_ready() -> bool:
            return (await sets.get("claim", namespace="default")).status.readyReplicas == 1

        await until(one_ready, "one is ready")
        await sets.patch("claim", patch={"spec": {"replicas": 1}}, namespace="default")

        async def one() -> bool:
            return [pod.metadata.name for pod in await pods_of(client, "claim")] == [keep.metadata.name]

        await until(one, "the ready one is kept")


async def test_an_owner_whose_pods_are_refused_slows_down(plane: Plane) -> None:
    async with plane.client() as client:
        pods, made = client.resource(core.Pod), set[str]()
        await client.resource(apps.ReplicaSet).create(replicaset("refused", replicas=1))
        deadline = asyncio.get_running_loop().time() + 6
        while asyncio.get_running_loop().time() < deadline:
            for pod in await pods_of(client, "refused"):
                if pod.metadata.uid in made:
                    continue
                made.add(pod.metadata.uid)
                refusal = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "by the test"}}
                try:
                    await pods.patch(pod.metadata.name, patch=refusal, namespace="default", subresource="status")
                except errors.ConflictError:
                    made.discard(pod.metadata.uid)
            await asyncio.sleep(0.02)
        # At 0, 1, 3 and 7 s; without the back-off there would be hundreds.
        assert 2 <= len(made) <= 4
        await client.resource(apps.ReplicaSet).delete("refused", namespace="default")


async def test_a_failure_to_create_is_told(plane: Plane) -> None:
    async with plane.client() as client:
        sets = client.resource(apps.ReplicaSet)
        broken = replicaset("broken", replicas=2)
        broken.spec.template.spec.priorityClassName = "no-such-class"
        await sets.create(broken)

        async def told() -> bool:
            status = (await sets.get("broken", namespace="default")).status
            return [(item.type, item.reason) for item in status.conditions] == [("ReplicaFailure", "FailedCreate")]

        await until(told, "the condition tells")
        events = (await client.resource(core.Event).list(namespace="default")).items
        assert any(item.reason == "FailedCreate" and "no-such-class" in item.message for item in events)
