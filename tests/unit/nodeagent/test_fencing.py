"""Which pods end when the node is cut off, when, and when they may go on."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from nodeagent.fencing import TOLERATION_ANNOTATION, Fence, Fencer, Renewals, Times, toleration_seconds
from nodeagent.podworker import PodWorker
from nodeagent.runtime import ContainerState
from tests.unit.nodeagent.podkit import Table, make_pod
from wharfinger.api import errors
from wharfinger.api.types import core

KEY = "node.kubernetes.io/unreachable"


def fenced_pod(*tolerations: core.Toleration) -> core.Pod:
    pod = make_pod("c")
    pod.metadata.annotations["wharfinger.dev/at-most-one"] = "true"
    pod.spec.tolerations.extend(tolerations)
    return pod


def tolerates(seconds: int | None, key: str = KEY) -> core.Toleration:
    made = core.Toleration(key=key, operator="Exists", effect="NoExecute")
    if seconds is not None:
        made.tolerationSeconds = seconds
    return made


def test_who_is_fenced_and_after_what() -> None:
    assert toleration_seconds(make_pod("c")) is None, "it may run twice"
    assert toleration_seconds(fenced_pod()) == 0
    assert toleration_seconds(fenced_pod(tolerates(300))) == 300
    assert toleration_seconds(fenced_pod(tolerates(300), tolerates(20, ""))) == 20
    assert toleration_seconds(fenced_pod(tolerates(-5))) == 0
    assert toleration_seconds(fenced_pod(tolerates(300, "another"))) == 0
    assert toleration_seconds(fenced_pod(tolerates(None))) is None, "nobody evicts it"
    assert toleration_seconds(fenced_pod(tolerates(None), tolerates(7))) == 7
    stateful = make_pod("c")
    owner = stateful.metadata.ownerReferences.add(apiVersion="apps/v1", kind="StatefulSet", name="db", controller=True)
    assert toleration_seconds(stateful) == 0
    owner.kind = "ReplicaSet"
    assert toleration_seconds(stateful) is None


@pytest.mark.parametrize(
    ("limit", "grace", "expected"),
    [
        (340, 30, Times(305, 335)), (340, 1000, Times(167.5, 335)), (40, 30, Times(18, 36)), (40, 5, Times(31, 36)),
        (5, 30, Times(2, 4)),
    ],
)  # fmt: skip
def test_times(limit: float, grace: float, expected: Times) -> None:
    assert Times.of(limit, grace) == expected


def test_the_last_renewal_outlives_the_agent_and_not_the_boot(tmp_path: Path) -> None:
    now = [1000.0]
    path = tmp_path / "root" / "last-renewal"
    renewals = Renewals(path, clock=lambda: now[0], boot="one")
    assert renewals.silence == math.inf
    renewals.acknowledged(998.0)
    renewals.acknowledged(997.0)  # an older answer that comes late
    assert renewals.silence == 2
    now[0] = 1030.0
    assert Renewals(path, clock=lambda: now[0], boot="one").silence == 32
    assert Renewals(path, clock=lambda: now[0], boot="two").silence == math.inf
    path.write_text("rubbish")
    assert Renewals(path, clock=lambda: now[0], boot="one").silence == math.inf


class Node:
    """A node on a table, with a fence and everything that the fence looks at."""

    def __init__(self) -> None:
        self.table = Table.make()
        self.workers: dict[str, PodWorker] = {}
        self.silence = 0.0
        self.idle = 0.0
        self.node: core.Node | None = core.Node()
        self.released: list[str] = []
        fence = self.fence = Fence(40.0, lambda: self.silence)
        self.table.context.fenced = fence.holds
        self.fencer = Fencer(
            fence, self.table.runtime, self, fresh_node=self.fresh, pods_idle=lambda: self.idle, quiet_seconds=10,
            released=lambda pod: self.released.append(pod.metadata.uid),
        )  # fmt: skip

    async def fresh(self) -> core.Node:
        if self.node is None:
            raise errors.ServiceUnavailableError("cut off")
        return self.node

    def pod_of(self, uid: str) -> core.Pod | None:
        worker = self.workers.get(uid)
        return worker.pod if worker else None

    def poke(self, uid: str) -> None:
        if uid in self.workers:
            self.workers[uid].poke()

    def run(self, pod: core.Pod) -> None:
        self.workers[pod.metadata.uid] = PodWorker(self.table.context, pod)
        self.poke(pod.metadata.uid)

    async def states(self, uid: str = "u1") -> list[ContainerState]:
        record = await self.table.runtime.inspect(uid)
        return [one.state for one in record.containers]

    async def becomes(self, *wanted: ContainerState, uid: str = "u1") -> None:
        async with asyncio.timeout(10):
            while await self.states(uid) != list(wanted):
                await asyncio.sleep(0.01)

    async def opened(self) -> None:
        async with asyncio.timeout(20):
            while not self.fence.open:
                await self.fencer.look()
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for worker in self.workers.values():
            await worker.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent.fencing.SETTLED_SECONDS", 0.05)


@pytest.mark.usefixtures("quick")
async def test_a_pod_ends_when_the_node_is_cut_off_and_goes_on_when_all_is_certain() -> None:
    node = Node()
    other = make_pod("c", uid="u2", name="other")
    node.run(other)
    node.run(fenced_pod(tolerates(300)))
    await node.becomes(ContainerState.RUNNING, uid="u2")
    assert await node.states() == [], "a new agent does not know yet whether the pod is its own"
    await node.opened()
    await node.becomes(ContainerState.RUNNING)
    assert node.released == []
    (running,) = (await node.table.runtime.inspect("u1")).containers
    assert running.annotations[TOLERATION_ANNOTATION] == "300"

    node.node = None
    for node.silence in (20.0, 304.0):
        await node.fencer.look()
        assert await node.states() == [ContainerState.RUNNING]
    node.silence = 306.0
    await node.fencer.look()
    await node.becomes(ContainerState.EXITED)
    assert await node.states("u2") == [ContainerState.RUNNING]
    node.poke("u1")
    await asyncio.sleep(0.05)
    assert await node.states() == [ContainerState.EXITED], "not started anew"

    node.silence, node.node = 1.0, core.Node()
    node.node.spec.taints.add(key=KEY, effect="NoExecute")
    for _ in range(20):
        await node.fencer.look()
        await asyncio.sleep(0.01)
    assert await node.states() == [ContainerState.EXITED], "somebody may be about to evict it"
    del node.node.spec.taints[:]
    node.idle = 100.0
    for _ in range(20):
        await node.fencer.look()
        await asyncio.sleep(0.01)
    assert await node.states() == [ContainerState.EXITED], "the pods are those of before"
    node.idle = 0.0
    await node.opened()
    assert node.released == ["u1"]
    await node.table.until(lambda: len(node.table.runtime._pods["u1"].containers) == 2, seconds=20)
    await node.close()


@pytest.mark.usefixtures("quick")
async def test_a_pod_that_is_deleted_meanwhile_is_not_started_again() -> None:
    node = Node()
    pod = fenced_pod()
    node.run(pod)
    await node.opened()
    await node.becomes(ContainerState.RUNNING)
    node.silence, node.node = 100.0, None
    await node.fencer.look()
    await node.becomes(ContainerState.EXITED)
    gone = core.Pod()
    gone.CopyFrom(pod)
    gone.metadata.deletionTimestamp.seconds = 1
    node.workers["u1"].update(gone)
    node.silence, node.node = 0.0, core.Node()
    await node.opened()
    await asyncio.sleep(0.05)
    assert await node.states() == [ContainerState.EXITED]
    await node.close()


async def test_an_agent_that_knows_no_pods_yet_ends_them_by_their_containers(tmp_path: Path) -> None:
    """It was started anew, and there is no API to ask."""
    node = Node()
    node.fence.open = True
    node.run(fenced_pod())
    await node.becomes(ContainerState.RUNNING)
    await node.close()
    node.workers.clear()
    node.fence.open = False
    node.silence = math.inf
    await node.fencer.look()
    await node.becomes(ContainerState.EXITED)


@pytest.mark.usefixtures("quick")
async def test_a_fault_does_not_end_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent.fencing.LOOK_SECONDS", 0.01)
    node = Node()
    faults = iter([ValueError("of ours"), ValueError("of ours")])

    async def fresh() -> core.Node:
        if (fault := next(faults, None)) is not None:
            raise fault
        return core.Node()

    node.fencer._fresh_node = fresh
    running = asyncio.create_task(node.fencer.run())
    async with asyncio.timeout(20):
        while not node.fence.open:
            assert not running.done()
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await node.close()
