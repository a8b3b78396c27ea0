"""Silent nodes, dead leaders and a storage that stands still, with real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.integration.controllers.plane import FakeNodes, Manager, Plane, replicaset, until
from tests.support.etcd import have_etcd
from wharfinger.api.types import apps, coordination, core
from wharfinger.client import Client

SHORT = ("--node-monitor-period=500ms", "--node-monitor-grace-period=4s", "--node-eviction-rate=10")
GRACE = 4.0
LOOKS_A_GRACE = 8
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture
def fresh() -> Iterator[Plane]:
    """A control plane of this test alone."""
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    tolerations = ("--default-not-ready-toleration-seconds", "2", "--default-unreachable-toleration-seconds", "2")
    with Plane(*tolerations) as made:
        yield made


async def pods_of(client: Client) -> list[core.Pod]:
    return (await client.resource(core.Pod).list(namespace="default")).items


def ready(pod: core.Pod) -> bool:
    return any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions)


async def settled(client: Client, alive: set[str], count: int = 3) -> bool:
    pods = [pod for pod in await pods_of(client) if not pod.metadata.HasField("deletionTimestamp")]
    return len(pods) == count and all(ready(pod) and pod.spec.nodeName in alive for pod in pods)


async def looked(manager: Manager, graces: float) -> None:
    """Wait until the manager has judged all nodes as often as it does in so many grace periods."""

    def looks() -> float:
        return manager.metric("node_collector_update_all_nodes_health_duration_seconds_count")

    enough = looks() + graces * LOOKS_A_GRACE

    async def often_enough() -> bool:
        return looks() >= enough

    await until(often_enough, f"the nodes are judged until {enough:g}", seconds=30 + 3 * graces * GRACE)


async def test_a_silent_node_loses_its_pods_and_gets_them_no_more_until_it_is_back(fresh: Plane) -> None:
    manager = fresh.manager(*SHORT)
    async with fresh.client() as client, FakeNodes(client, "n1", "n2", "n3") as nodes:
        await client.resource(apps.ReplicaSet).create(replicaset(replicas=6))
        await until(lambda: settled(client, {"n1", "n2", "n3"}, 6), "six pods run")
        before = {pod.metadata.uid for pod in await pods_of(client) if pod.spec.nodeName == "n1"}
        assert before
        nodes.alive.discard("n1")

        async def given_up() -> bool:
            node = await client.resource(core.Node).get("n1")
            states = {item.type: (item.status, item.reason) for item in node.status.conditions}
            taints = {f"{item.key}:{item.effect}" for item in node.spec.taints}
            return all(
                states[kind] == ("Unknown", "NodeStatusUnknown")
                for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
            ) and taints == {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}

        await until(given_up, "the node is unknown and tainted")
        await until(lambda: settled(client, {"n2", "n3"}, 6), "the pods are replaced on the other nodes")
        left = [pod for pod in await pods_of(client) if pod.metadata.uid in before]
        assert all(not ready(pod) for pod in left)
        for pod in left:
            targets = [item for item in pod.status.conditions if item.type == "DisruptionTarget"]
            assert [item.reason for item in targets] == ["DeletionByTaintManager"]
        assert nodes.seen["n2"] == nodes.seen["n3"] == {"True"}

        nodes.alive.add("n1")
        await nodes.report("n1")

        async def forgiven() -> bool:
            return not (await client.resource(core.Node).get("n1")).spec.taints

        await until(forgiven, "the taints come off")
        assert manager.metric("taint_eviction_controller_pod_deletions_total") == len(before)


async def test_a_users_taint_evicts_by_each_pods_toleration(fresh: Plane) -> None:
    fresh.manager(*SHORT)
    async with fresh.client() as client, FakeNodes(client, "n1"):
        pods = client.resource(core.Pod)
        for name, toleration in {"none": None, "short": 1, "for-ever": -1}.items():
            pod = core.Pod()
            pod.metadata.name, pod.metadata.namespace = name, "default"
            pod.spec.nodeName = "n1"
            pod.spec.containers.add(name="c", image="registry.example/v1")
            if toleration is not None:
                added = pod.spec.tolerations.add(key="mine", operator="Exists", effect="NoExecute")
                if toleration > 0:
                    added.tolerationSeconds = toleration
            await pods.create(pod)
        await client.resource(core.Node).patch(
            "n1", patch={"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}
        )

        async def left() -> bool:
            return {pod.metadata.name for pod in await pods_of(client)} == {"for-ever"}

        await until(left, "two are evicted")


async def test_a_new_leader_believes_nothing_that_it_has_not_seen(fresh: Plane) -> None:
    first = fresh.manager(*SHORT, "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s",
                          "--leader-elect-retry-period=500ms")  # fmt: skip
    async with fresh.client() as client, FakeNodes(client, "n1", "n2", "n3") as nodes:
        await client.resource(apps.ReplicaSet).create(replicaset())
        await until(lambda: settled(client, set(nodes.names)), "three pods run")
        uids = {pod.metadata.uid for pod in await pods_of(client)}
        first.kill()
        nodes.alive.clear()

        async def stale() -> bool:
            leases = await client.resource(coordination.Lease).list(namespace="kube-node-lease")
            return all(lease.spec.renewTime.seconds < time.time() - GRACE - 1 for lease in leases.items)

        await until(stale, "what is stored looks stale to whoever comes now")
        second = fresh.manager(*SHORT, "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s",
                               "--leader-elect-retry-period=500ms")  # fmt: skip

        async def leads() -> bool:
            return second.said("controllers run")

        await until(leads, "the second leads")
        nodes.alive.update(nodes.names)
        silent = second.metric("node_collector_timers_restarted_total")
        assert silent == 0.0
        await looked(second, graces=3)
        assert all(statuses == {"True"} for statuses in nodes.seen.values())
        assert {pod.metadata.uid for pod in await pods_of(client)} == uids


async def test_nobody_is_given_up_because_etcd_stood_still(fresh: Plane) -> None:
    # A leader that could keep its lease all the while: so what protects is the proof of the watch alone.
    manager = fresh.manager(*SHORT, "--leader-elect-lease-duration=120s", "--leader-elect-renew-deadline=100s")
    async with fresh.client() as client, FakeNodes(client, "n1", "n2", "n3", period=3.0) as nodes:
        await client.resource(apps.ReplicaSet).create(replicaset())
        await until(lambda: settled(client, set(nodes.names)), "three pods run")
        uids = {pod.metadata.uid for pod in await pods_of(client)}
        fresh.etcd.pause()
        await looked(manager, graces=5)
        fresh.etcd.resume()

        async def noticed() -> bool:
            return manager.said("all nodes get their grace period anew")

        await until(noticed, "the manager notices that it was blind")
        await looked(manager, graces=2)
        assert all(statuses == {"True"} for statuses in nodes.seen.values())
        assert {pod.metadata.uid for pod in await pods_of(client)} == uids
        assert manager.metric("taint_eviction_controller_pod_deletions_total") == 0.0


async def test_when_all_nodes_vanish_nobody_is_evicted(fresh: Plane) -> None:
    manager = fresh.manager(*SHORT)
    async with fresh.client() as client, FakeNodes(client, "n1", "n2", "n3") as nodes:
        await client.resource(apps.ReplicaSet).create(replicaset())
        await until(lambda: settled(client, set(nodes.names)), "three pods run")
        uids = {pod.metadata.uid for pod in await pods_of(client)}
        nodes.alive.clear()

        async def braked() -> bool:
            listed = await client.resource(core.Node).list()
            return manager.metric("node_collector_evictions_suspended") == 1.0 and all(
                [item.effect for item in node.spec.taints if item.key == UNREACHABLE] == ["NoSchedule"]
                for node in listed.items
            )

        await until(braked, "the brake is on and no node has an evicting taint")
        assert {
            pod.metadata.uid for pod in await pods_of(client) if not pod.metadata.HasField("deletionTimestamp")
        } == uids
