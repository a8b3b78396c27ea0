"""SIGKILL for everything, again and again, while 200 pods are created, scheduled and started for real.

What the clients were told is kept in this process and compared with the truth at the end: every acknowledged write is
there, every pod runs in exactly one container, and every watcher saw every change, though it was cut off again and
again and resumed on the other apiserver. The truth about changes is etcd's own history, read directly.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import tempfile
from pathlib import Path

import grpc
import grpc.aio
import pytest

from tests.support.history import Change, Counters, Deletions, PodHistory
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.cluster import Cluster, Settings, own_network
from wharfinger.proto.cri import runtime_v1_pb2 as cri
from wharfinger.proto.cri import runtime_v1_pb2_grpc as cri_grpc
from wharfinger.proto.etcd import rpc_pb2 as etcd
from wharfinger.proto.etcd import rpc_pb2_grpc as etcd_grpc

PODS = int(os.environ.get("WHARFINGER_KILL_PODS", "200"))
NAMESPACE = "kills"
NODES = 2
KILLS = 20
PREFIX = "/registry/pods/kills/"
MARKER = b"/wharfinger-test/now"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="real containers need root")


@pytest.mark.parametrize("grouping", [True, False], ids=["grouped", "single"])
async def test_nothing_acknowledged_is_lost(grouping: bool) -> None:
    seed = int(os.environ.get("WHARFINGER_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed} (WHARFINGER_KILL_SEED={seed} repeats the order of kills)")
    folder = Path(tempfile.mkdtemp(prefix="wk"))
    flags = {} if grouping else {"apiserver": ["--group-commit-max=1"]}
    prefix, subnet = own_network()
    settings = Settings(nodes=NODES, apiservers=2, prefix=prefix, subnet=subnet, flags=flags)
    cluster = Cluster(folder, settings)
    try:
        await asyncio.to_thread(cluster.up)
        async with asyncio.timeout(420):
            await _run(cluster, random.Random(seed))
    except BaseException:
        if kept := os.environ.get("WHARFINGER_KEEP_LOGS"):
            shutil.copytree(folder / "logs", kept, dirs_exist_ok=True)
        for name in cluster.processes.names():
            print(f"--- end of {name}'s log\n{cluster.processes.tail(name, 4000)}")
        raise
    finally:
        await asyncio.to_thread(cluster.down, purge=True)
        shutil.rmtree(folder, ignore_errors=True)


async def _run(cluster: Cluster, dice: random.Random) -> None:
    config = ClientConfig.load(cluster.kubeconfig)
    async with Client(config) as client:
        namespace = core.Namespace()
        namespace.metadata.name = NAMESPACE
        await client.resource(core.Namespace).create(namespace)
        since = (await client.resource(core.Pod).list(namespace=NAMESPACE)).resource_version
        watchers = [PodHistory(config, NAMESPACE, f"watcher-{index}") for index in range(4)]
        counters = Counters(client, NAMESPACE, [f"counter-{index}" for index in range(4)])
        background = [asyncio.create_task(watcher.follow(since)) for watcher in watchers]
        deletions = Deletions(client, NAMESPACE)
        counting = [asyncio.create_task(counters.count(name)) for name in counters.names]
        counting.append(asyncio.create_task(deletions.run()))
        creating = asyncio.create_task(_create_pods(config))

        await _kill_all_over(cluster, dice)
        created = await creating
        for task in counting:
            task.cancel()
        await asyncio.gather(*counting, return_exceptions=True)
        pods = await _all_running(client, created)

        assert await counters.lost() == []
        assert await deletions.back() == set(), "acknowledged deletes came back"
        assert deletions.acknowledged, "no delete was ever acknowledged: the test saw nothing"
        assert sum(counters.acknowledged.values()) > 0, "no counter was ever written: the test saw nothing"
        await _watchers_saw_all(cluster, watchers, int(since))
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await _one_container_each(cluster, pods)


async def _create_pods(config: ClientConfig) -> dict[str, str]:
    """Create the pods over some time; return name → uid of those acknowledged (all of them, in the end)."""
    created: dict[str, str] = {}
    async with Client(config) as client:
        pods = client.resource(core.Pod)
        for index in range(PODS):
            pod = core.Pod()
            pod.metadata.name, pod.metadata.namespace = f"pod-{index}", NAMESPACE
            container = pod.spec.containers.add(name="main", image="wharf.local/busybox:1", command=["sleep", "3600"])
            container.resources.requests["cpu"].string = "1m"
            while pod.metadata.name not in created:
                try:
                    created[pod.metadata.name] = (await pods.create(pod)).metadata.uid
                except errors.AlreadyExistsError:
                    # An earlier attempt whose answer was lost; it is as good as acknowledged now.
                    created[pod.metadata.name] = (await pods.get(pod.metadata.name, namespace=NAMESPACE)).metadata.uid
                except errors.StatusError:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)  # spread over the kills
    return created


async def _kill_all_over(cluster: Cluster, dice: random.Random) -> None:
    victims = cluster.daemons()
    rounds = [name for name in victims for _ in range(2)]
    rounds += [dice.choice(victims) for _ in range(max(0, KILLS - len(rounds)))]
    dice.shuffle(rounds)
    print(f"{len(rounds)} kills: {' '.join(rounds)}")
    for name in rounds:
        await asyncio.sleep(dice.uniform(0.1, 1.5))
        await asyncio.to_thread(cluster.kill, name)
        await asyncio.sleep(dice.uniform(0.0, 1.0))
        await asyncio.to_thread(cluster.start, name)


async def _all_running(client: Client, created: dict[str, str]) -> list[core.Pod]:
    deadline = asyncio.get_running_loop().time() + 120
    while True:
        try:
            pods = (await client.resource(core.Pod).list(namespace=NAMESPACE)).items
        except errors.StatusError:
            await asyncio.sleep(0.5)
            continue
        assert {pod.metadata.name: pod.metadata.uid for pod in pods} == created, (
            "an acknowledged pod is gone or another"
        )
        assert all(pod.status.phase in ("Pending", "Running") for pod in pods), "a pod failed"
        if all(pod.status.phase == "Running" for pod in pods):
            return pods
        if asyncio.get_running_loop().time() > deadline:
            late = [pod for pod in pods if pod.status.phase != "Running"]
            pytest.fail(f"{len(late)} pods do not run, such as {late[0].metadata.name}: {late[0].status}")
        await asyncio.sleep(0.5)


async def _history_of_etcd(cluster: Cluster, since: int) -> dict[Change, str]:
    """Return every change of the pods after a revision as etcd itself remembers it."""
    files = ("etcd-ca.crt", "etcd-client.key", "etcd-client.crt")
    credentials = grpc.ssl_channel_credentials(*(cluster.pki.joinpath(name).read_bytes() for name in files))
    changes: dict[Change, str] = {}
    async with grpc.aio.secure_channel(cluster.etcd_endpoint, credentials) as channel:
        # A key of our own shows when the history has been sent up to now.
        marker = await etcd_grpc.KVStub(channel).Put(etcd.PutRequest(key=MARKER, value=b"now"))  # type: ignore[no-untyped-call]
        request = etcd.WatchRequest()
        request.create_request.key, request.create_request.range_end = b"\0", b"\0"
        request.create_request.start_revision = since + 1
        call = etcd_grpc.WatchStub(channel).Watch()  # type: ignore[no-untyped-call]
        await call.write(request)
        while True:
            answer = await call.read()
            assert not answer.compact_revision, "etcd was compacted during the test: it took too long"
            for event in answer.events:
                key = event.kv.key.decode()
                if event.kv.mod_revision >= marker.header.revision:
                    call.cancel()
                    return changes
                if key.startswith(PREFIX):
                    kind = "DELETED" if event.type == 1 else ("ADDED" if event.kv.version == 1 else "MODIFIED")
                    changes[key.removeprefix(PREFIX), event.kv.mod_revision] = kind


async def _watchers_saw_all(cluster: Cluster, watchers: list[PodHistory], since: int) -> None:
    truth = await _history_of_etcd(cluster, since)
    assert len(truth) >= 3 * PODS, "each pod is at least created, bound and reported"
    newest = max(revision for _, revision in truth)
    async with asyncio.timeout(60):
        while any(watcher.revision < newest and not watcher.troubles for watcher in watchers):
            await asyncio.sleep(0.2)
    for watcher in watchers:
        assert watcher.troubles == []
        assert watcher.resumes >= 1, f"{watcher.name} was never cut off: the test proves nothing"
        lost = sorted(truth.keys() - watcher.seen.keys(), key=lambda change: change[1])
        assert lost == [], f"{watcher.name} lost {len(lost)} changes"
        assert {change: watcher.seen[change] for change in truth} == truth


async def _one_container_each(cluster: Cluster, pods: list[core.Pod]) -> None:
    """Each pod has one running container, and never had two at a time.

    A containerd that is killed while it starts a container reports that one as ended when it is back; only then may
    there be an earlier one, and the pod's restart count must own up to it.
    """
    runs: dict[str, list[cri.ContainerStatus]] = {pod.metadata.uid: [] for pod in pods}
    for node in cluster.node_names():
        socket = cluster.runtime(node).socket
        options = [("grpc.default_authority", "localhost")]
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            stub = cri_grpc.RuntimeServiceStub(channel)  # type: ignore[no-untyped-call]
            for container in (await stub.ListContainers(cri.ListContainersRequest())).containers:
                answer = await stub.ContainerStatus(cri.ContainerStatusRequest(container_id=container.id))
                runs[container.labels["io.kubernetes.pod.uid"]].append(answer.status)
    for pod in pods:
        name, restarts = pod.metadata.name, pod.status.containerStatuses[0].restartCount
        *earlier, last = sorted(runs[pod.metadata.uid], key=lambda run: run.created_at)
        assert last.state == cri.CONTAINER_RUNNING, f"{name} does not run"
        assert len(earlier) <= restarts, f"{name} was started again without counting it"
        for before, after in itertools.pairwise([*earlier, last]):
            assert 0 < before.finished_at <= after.started_at, f"{name} had two containers at once"
