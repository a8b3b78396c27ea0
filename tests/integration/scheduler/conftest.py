"""A cluster without nodes: etcd, apiserver and scheduler as processes, nodes as mere objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.clusters import started
from wharfinger.api import errors
from wharfinger.api import pods as podfacts
from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.cluster import CONTROLLER_MANAGER, SCHEDULER, Cluster, Settings
from wharfinger.proto.native import scheduling_v1_pb2

ELECTION = [
    "--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "200ms"
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Shared by the tests of a module; each test has a namespace of its own and cleans its nodes up."""
    with started(Settings(nodes=0, without=[CONTROLLER_MANAGER], flags={SCHEDULER: ELECTION})) as made:
        yield made


class World:
    """Makes nodes and pods, and waits for what becomes of them."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self.nodes = client.resource(core.Node)
        self.pods = client.resource(core.Pod)
        self.made: list[str] = []

    async def node(self, name: str, *, cpu: str = "4", unschedulable: bool = False, **labels: str) -> core.Node:
        """Create a node that is ready, and wait until the scheduler, if one runs, knows it."""
        node = core.Node()
        node.metadata.name = name
        node.metadata.labels.update(labels)
        for resource, amount in {"cpu": cpu, "memory": "8Gi", "pods": "110"}.items():
            node.status.capacity[resource].string = node.status.allocatable[resource].string = amount
        node.spec.unschedulable = unschedulable
        created = await self.nodes.create(node)
        self.made.append(name)
        del created.spec.taints[:]  # the controller that would take off the taint of new nodes does not run here
        updated = await self.nodes.update(created)
        if self.cluster.processes.running(SCHEDULER) is not None:
            await self.until(lambda: self._known(name))
        return updated

    async def _known(self, node: str) -> bool:
        """Return whether the scheduler knows a node without the taint of new ones: nodes and pods are watched apart."""
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace = "probe", self.namespace
        pod.spec.containers.add(name="c", image="registry.example/app:1")
        pod.spec.schedulerName = "default-scheduler"
        pod.spec.tolerations.add(key="node.kubernetes.io/unschedulable", operator="Exists")
        required = pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        required.nodeSelectorTerms.add().matchFields.add(key="metadata.name", operator="In", values=[node])
        probe = scheduling_v1_pb2.SimulateRequest(
            pods=[scheduling_v1_pb2.SimulatedPods(pod=pod.SerializeToString(), count=1)]
        )
        try:
            reply = await self.client.simulate(probe)
        except errors.ServiceUnavailableError:  # nobody leads yet
            return False
        return [placement.node for placement in reply.placements] == [node]

    async def cordon(self, name: str, *, on: bool) -> None:
        await self.nodes.patch(name, patch={"spec": {"unschedulable": on}})

    async def pod(self, name: str, cpu: str = "100m", *, change: Callable[[core.Pod], None] | None = None) -> core.Pod:
        """Create a pod."""
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace = name, self.namespace
        container = pod.spec.containers.add(name="c", image="registry.example/app:1")
        container.resources.requests["cpu"].string = cpu
        if change is not None:
            change(pod)
        return await self.pods.create(pod)

    async def get(self, name: str) -> core.Pod:
        return await self.pods.get(name, namespace=self.namespace)

    async def until(self, probe: Callable[[], Awaitable[Any]], *, seconds: float = 20.0) -> Any:
        """Poll until the probe returns something true."""
        async with asyncio.timeout(seconds):
            while not (result := await probe()):
                await asyncio.sleep(0.02)
        return result

    async def bound(self, name: str) -> str:
        """Wait for a pod's node."""

        async def node() -> str:
            return (await self.get(name)).spec.nodeName

        return str(await self.until(node))

    async def refused(self, name: str) -> str:
        """Wait for the message of PodScheduled=False."""

        async def message() -> str:
            condition = podfacts.condition(await self.get(name), "PodScheduled")
            return condition.message if condition is not None and condition.status == "False" else ""

        return str(await self.until(message))

    async def event(self, name: str, reason: str) -> core.Event:
        """Wait for an event about a pod."""
        events = self.client.resource(core.Event)

        async def found() -> core.Event | None:
            for event in (await events.list(namespace=self.namespace)).items:
                if event.involvedObject.name == name and event.reason == reason:
                    return event
            return None

        result = await self.until(found)
        assert isinstance(result, core.Event)
        return result


async def make_namespace(client: Client, name: str) -> None:
    """Create a namespace and its service account: the controller that makes that does not run here."""
    made = core.Namespace()
    made.metadata.name = name
    await client.resource(core.Namespace).create(made)
    account = core.ServiceAccount()
    account.metadata.name, account.metadata.namespace = "default", name
    await client.resource(core.ServiceAccount).create(account)


@pytest_asyncio.fixture
async def world(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """An admin's client and an empty namespace; nodes made by the test are deleted after it."""
    namespace = "t-" + "".join(char if char.isalnum() else "-" for char in request.node.name.lower())[:50].strip("-")
    async with Client(ClientConfig.load(cluster.kubeconfig)) as client:
        await make_namespace(client, namespace)
        world = World(cluster, client, namespace)
        yield world
        for pod in (await world.pods.list(namespace=namespace)).items:
            await world.pods.delete(pod.metadata.name, namespace=namespace, grace_period_seconds=0)
        for name in world.made:
            await world.nodes.delete(name)


def dump(cluster: Cluster) -> str:
    """Return the end of the scheduler's log, for assertions that fail."""
    return json.dumps(cluster.processes.tail(SCHEDULER))
