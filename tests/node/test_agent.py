"""The agent's promises on a real node: adoption, clean-up, and life without API or runtime.

One cluster for all tests of this module: real etcd and apiserver, two nodes with containerds of their own.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psutil
import pytest

from tests.support import containerd
from tests.support.clusters import started
from wharfinger.api import errors
from wharfinger.api.types import coordination, core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.cluster import APISERVER, CONTROLLER_MANAGER, SCHEDULER, Cluster, Settings
from wharfinger.proto.native import streams_v1_pb2

pytestmark = pytest.mark.skipif(
    bool(containerd.why_not()), reason=f"cannot run containers here: {containerd.why_not()}"
)

SLEEPER = ["sh", "-c", "echo started; sleep 3600"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = Settings(
        nodes=2,
        without=[SCHEDULER, CONTROLLER_MANAGER],
        flags={"node": ["--heartbeat-interval=1s", "--node-status-update-frequency=1s"]},
    )
    with started(settings) as cluster:
        asyncio.run(make_account(cluster))
        yield cluster


async def make_account(cluster: Cluster) -> None:
    """Make the account that pods run as: the controller that would make it does not run here."""
    async with Client(ClientConfig.load(cluster.kubeconfig)) as client:
        account = core.ServiceAccount(automountServiceAccountToken=False)
        account.metadata.name, account.metadata.namespace = "default", "default"
        await client.resource(core.ServiceAccount).create(account)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(ClientConfig.load(cluster.kubeconfig)) as client:
        yield client


async def until(what: str, holds: Callable[[], Awaitable[bool]], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if await holds():
                return
        except errors.ServiceUnavailableError:
            pass
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        await asyncio.sleep(0.05)


def new_pod(name: str, node: str = "node-1", command: list[str] | None = None) -> core.Pod:
    pod = core.Pod()
    pod.metadata.name, pod.metadata.namespace = name, "default"
    pod.spec.nodeName, pod.spec.terminationGracePeriodSeconds = node, 1
    pod.spec.containers.add(name="c", image="wharf.local/busybox:1", command=command or SLEEPER)
    return pod


async def running(client: Client, name: str) -> core.Pod:
    pods = client.resource(core.Pod)

    async def runs() -> bool:
        return (await pods.get(name, namespace="default")).status.phase == "Running"

    await until(f"{name} runs", runs)
    return await pods.get(name, namespace="default")


async def gone(client: Client, name: str) -> None:
    async def absent() -> bool:
        try:
            await client.resource(core.Pod).get(name, namespace="default")
        except errors.NotFoundError:
            return True
        return False

    await until(f"{name} is gone", absent)


def tasks(cluster: Cluster, node: str) -> dict[str, int]:
    """Processes of containers by container id, as containerd's own tool tells it."""
    listed = subprocess.run(
        ["ctr", "--address", str(cluster.runtime(node).socket), "-n", "k8s.io", "tasks", "list"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return {line.split()[0]: int(line.split()[1]) for line in listed.stdout.splitlines()[1:] if "RUNNING" in line}


async def node_ready(client: Client, node: str) -> str:
    found = await client.resource(core.Node).get(node)
    return next(one.status for one in found.status.conditions if one.type == "Ready")


async def test_container_is_a_process_of_the_host_and_its_log_is_served(cluster: Cluster, client: Client) -> None:
    await client.resource(core.Pod).create(new_pod("seen"))
    pod = await running(client, "seen")
    pid = tasks(cluster, "node-1")[pod.status.containerStatuses[0].containerID.removeprefix("containerd://")]
    assert "3600" in " ".join(psutil.Process(pid).cmdline())
    request = streams_v1_pb2.LogRequest(namespace="default", pod="seen")
    assert b"".join([chunk async for chunk in client.log(request)]) == b"started\n"
    await client.resource(core.Pod).delete("seen", namespace="default")
    await gone(client, "seen")
    await until("the process has ended", lambda: _async(not psutil.pid_exists(pid)))
    assert not list((cluster.runtime("node-1").path / "agent" / "pods").glob("*"))


async def _async(value: bool) -> bool:
    return value


async def test_restarted_agent_adopts_ends_and_starts_what_it_should(cluster: Cluster, client: Client) -> None:
    pods = client.resource(core.Pod)
    for name in ("stays", "goes"):
        await pods.create(new_pod(name))
    stays, goes = await running(client, "stays"), await running(client, "goes")
    before = tasks(cluster, "node-1")
    cluster.kill("node-1")
    await pods.delete("goes", namespace="default", grace_period_seconds=0, uid=goes.metadata.uid)
    await pods.create(new_pod("comes"))
    assert tasks(cluster, "node-1") == before  # without its agent everything goes on running
    cluster.start("node-1")
    await running(client, "comes")
    stays_id = stays.status.containerStatuses[0].containerID.removeprefix("containerd://")
    goes_id = goes.status.containerStatuses[0].containerID.removeprefix("containerd://")
    await until("the deleted pod has ended", lambda: _async(goes_id not in tasks(cluster, "node-1")))
    assert tasks(cluster, "node-1")[stays_id] == before[stays_id]
    after = await pods.get("stays", namespace="default")
    assert after.status == stays.status
    for name in ("stays", "comes"):
        await pods.delete(name, namespace="default")
        await gone(client, name)


async def test_runtime_gone_makes_the_node_not_ready_and_back(cluster: Cluster, client: Client) -> None:
    pods = client.resource(core.Pod)
    await pods.create(new_pod("keeps", "node-2"))
    pod = await running(client, "keeps")
    cluster.kill("containerd-node-2")

    async def is_ready(wanted: str) -> bool:
        return await node_ready(client, "node-2") == wanted

    await until("the node is not ready", lambda: is_ready("False"))
    found = await client.resource(core.Node).get("node-2")
    ready = next(one for one in found.status.conditions if one.type == "Ready")
    assert ready.reason == "KubeletNotReady"
    assert "container runtime is not ready" in ready.message
    await pods.create(new_pod("later", "node-2"))
    cluster.start("containerd-node-2")
    await until("the node is ready", lambda: is_ready("True"))
    await running(client, "later")
    again = await pods.get("keeps", namespace="default")
    assert again.status.containerStatuses == pod.status.containerStatuses
    for name in ("keeps", "later"):
        await pods.delete(name, namespace="default")
        await gone(client, name)


async def test_pods_run_on_and_restart_without_the_api(cluster: Cluster, client: Client) -> None:
    pods = client.resource(core.Pod)
    await pods.create(new_pod("alone"))
    pod = await running(client, "alone")
    first = pod.status.containerStatuses[0].containerID.removeprefix("containerd://")
    others = tasks(cluster, "node-1").keys() - {first}
    cluster.stop(APISERVER)
    psutil.Process(tasks(cluster, "node-1")[first]).kill()
    await until("it is started again", lambda: _async(bool(tasks(cluster, "node-1").keys() - others - {first})))
    cluster.start(APISERVER)

    async def told() -> bool:
        status = (await pods.get("alone", namespace="default")).status.containerStatuses[0]
        return status.restartCount == 1 and status.lastState.terminated.exitCode == 137 and status.ready

    await until("the API knows of the restart", told)
    await pods.delete("alone", namespace="default")
    await gone(client, "alone")


async def test_heartbeats_go_on_while_the_node_status_stays(cluster: Cluster, client: Client) -> None:
    leases = client.resource(coordination.Lease)
    lease = await leases.get("node-1", namespace="kube-node-lease")
    assert lease.spec.holderIdentity == "node-1"
    assert lease.metadata.ownerReferences[0].kind == "Node"
    node = await client.resource(core.Node).get("node-1")

    async def renewed() -> bool:
        now = await leases.get("node-1", namespace="kube-node-lease")
        return int(now.metadata.resourceVersion) > int(lease.metadata.resourceVersion)

    await until("the lease is renewed", renewed, seconds=15)
    later = await client.resource(core.Node).get("node-1")
    assert later.metadata.resourceVersion == node.metadata.resourceVersion


async def test_node_that_is_deleted_registers_anew(cluster: Cluster, client: Client) -> None:
    nodes, leases = client.resource(core.Node), client.resource(coordination.Lease)
    before = await nodes.get("node-2")
    await nodes.delete("node-2")

    async def back() -> bool:
        try:
            node = await nodes.get("node-2")
            lease = await leases.get("node-2", namespace="kube-node-lease")
        except errors.NotFoundError:
            return False
        return node.metadata.uid != before.metadata.uid and lease.metadata.ownerReferences[0].uid == node.metadata.uid

    await until("the node is there again, and its lease belongs to it", back)


async def test_agent_is_small(cluster: Cluster, client: Client) -> None:
    pid = cluster.pid("node-1")
    assert pid is not None
    assert psutil.Process(pid).memory_info().rss < 70_000_000
