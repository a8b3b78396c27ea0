"""A ReplicaSet on three nodes with everything real but the containers: apiserver, scheduler, manager, hollow agents."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.controllers.plane import Plane, replicaset, until
from wharfinger.api import errors
from wharfinger.api.types import apps, core
from wharfinger.client import Client

SHORT = ("--node-monitor-period=500ms", "--node-monitor-grace-period=5s", "--node-eviction-rate=10")


class Placements:
    """Every node that each pod was ever seen on."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.nodes: dict[str, set[str]] = {}

    async def watch(self) -> None:
        pods = self.client.resource(core.Pod)
        while True:
            try:
                async for events in pods.watch(resource_version=(await pods.list()).resource_version):
                    for event in events:
                        if event.type != "BOOKMARK" and event.object.spec.nodeName:
                            self.nodes.setdefault(event.object.metadata.uid, set()).add(event.object.spec.nodeName)
            except errors.StatusError:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("way", ["kill", "pause"])
async def test_pods_of_a_lost_agent_are_replaced_and_the_node_comes_back(plane: Plane, way: str) -> None:
    manager, scheduler = plane.manager(*SHORT), plane.scheduler()
    agents = {name: plane.hollow_node(name) for name in ("a", "b", "c")}
    async with plane.client() as client:
        placements = Placements(client)
        watching = asyncio.get_running_loop().create_task(placements.watch())
        await client.resource(apps.ReplicaSet).create(replicaset("spread"))

        async def running(*nodes: str) -> bool:
            pods = (await client.resource(core.Pod).list(namespace="default", label_selector="app=spread")).items
            live = [pod for pod in pods if not pod.metadata.HasField("deletionTimestamp")]
            return len(live) == 3 and all(pod.status.phase == "Running" and pod.spec.nodeName in nodes for pod in live)

        await until(lambda: running("a1", "b1", "c1"), "three pods run", seconds=40)
        agents["a"].kill() if way == "kill" else agents["a"].pause()
        await until(lambda: running("b1", "c1"), "three pods run on the two that are left", seconds=60)
        if way == "kill":
            agents["a"] = plane.hollow_node("a")
        else:
            agents["a"].resume()

        async def back() -> bool:
            node = await client.resource(core.Node).get("a1")
            pods = (await client.resource(core.Pod).list(namespace="default", label_selector="app=spread")).items
            return not node.spec.taints and len(pods) == 3

        await until(back, "the node is back and the evicted pods are gone", seconds=40)
        assert all(len(nodes) == 1 for nodes in placements.nodes.values())
        watching.cancel()
        await client.resource(apps.ReplicaSet).delete("spread", namespace="default", propagation_policy="Background")
        for process in (*agents.values(), scheduler, manager):
            process.stop()
        for name in ("a1", "b1", "c1"):
            await client.resource(core.Node).delete(name)
