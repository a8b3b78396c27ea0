"""Outcomes of bindings, against a client whose answers the test chooses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from controlplane.scheduler import binder as binder_module
from controlplane.scheduler.decisions import Placement
from controlplane.scheduler.leadership import Leadership
from controlplane.scheduler.observed import ObservedNode, observe_pod
from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import node, pod
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.proto.native import resources_v1_pb2 as resources

Answer = Callable[[Sequence[resources.BindRequest]], Sequence[resources.BindResult]]


class Pods:
    """What reading a pod answers."""

    def __init__(self) -> None:
        self.stored = core.Pod()

    async def get(self, name: str, *, namespace: str) -> core.Pod:
        return self.stored


class Writer:
    """Takes every write, and refuses deletes when told so."""

    deleted: ClassVar[list[tuple[str, str | None]]] = []
    refusal: ClassVar[errors.StatusError | None] = None

    async def patch(self, *_: Any, **__: Any) -> None:
        return

    async def displace(self, name: str, *, uid: str | None, reason: str, **__: Any) -> None:
        assert reason == "PreemptionByScheduler"
        if Writer.refusal is not None:
            raise Writer.refusal
        Writer.deleted.append((name, uid))

    async def create(self, *_: Any, **__: Any) -> None:
        return

    async def close(self) -> None:
        return


class Client:
    """Answers binds from a list, the last answer for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[list[str]] = []
        self.pods = Pods()

    def resource(self, _: object) -> Pods:
        return self.pods

    def writer(self) -> Writer:
        return Writer()

    async def bind_many(self, requests: Sequence[resources.BindRequest]) -> Sequence[resources.BindResult]:
        self.asked.append([f"{request.pod}>{request.node}" for request in requests])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(requests)


def accept(requests: Sequence[resources.BindRequest]) -> Sequence[resources.BindResult]:
    return [resources.BindResult(resource_version="1") for _ in requests]


def refuse(error: errors.StatusError) -> Answer:
    return lambda requests: [resources.BindResult(error=error.to_status()) for _ in requests]


def lose(_: Sequence[resources.BindRequest]) -> Sequence[resources.BindResult]:
    raise errors.ServiceUnavailableError("gone")


class Setup:
    def __init__(self) -> None:
        self.client = Client()
        self.term = Leadership(self.client, [Profile()], seed=1)  # type: ignore[arg-type]
        self.term.set_node(ObservedNode.of(node("a", allocatable={"cpu": "1", "memory": "8Gi", "pods": "110"})))

    def see(self, entry: core.Pod) -> None:
        self.term.set_pod(observe_pod(entry, self.term.engine.pods, schedulers=frozenset({"default-scheduler"})))

    async def turn(self) -> None:
        """Decide and bind once, and wait for the answers."""
        self.term._decide_slice()
        self.term._binder.flush()
        while self.term._binder._calls:
            await asyncio.gather(*self.term._binder._calls)
            await asyncio.sleep(0)

    @property
    def used(self) -> int:
        return int(self.term.engine.table.requested[0, self.term.engine.table.rows["a"]])


@pytest_asyncio.fixture
async def setup(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setup]:
    monkeypatch.setattr(binder_module, "RETRY_SECONDS", 0.0)
    made = Setup()
    yield made
    await made.term._binder.close()
    await made.term._reporter.close()


async def test_a_bound_pod_leaves_the_queue_and_stays_counted(setup: Setup) -> None:
    setup.client.answers = [accept]
    setup.see(pod("p", {"cpu": "600m"}))
    await setup.turn()
    assert setup.client.asked == [["p>a"]]
    assert len(setup.term.queue) == 0
    assert setup.used == 600
    assert isinstance(setup.term.bound["default/p"].placement, Placement)
    setup.see(pod("p", {"cpu": "600m"}, node_name="a"))
    assert setup.used == 600, "the watch confirms what was assumed"


async def test_a_refused_pod_is_forgotten_and_tried_again_after_a_pause(setup: Setup) -> None:
    setup.client.answers = [refuse(errors.ConflictError("changed"))]
    setup.see(pod("p", {"cpu": "600m"}))
    await setup.turn()
    assert setup.used == 0
    assert setup.term.queue.counts["backoff"] == 1


async def test_a_pod_that_is_gone_is_dropped(setup: Setup) -> None:
    setup.client.answers = [refuse(errors.not_found("pods", "p"))]
    setup.see(pod("p", {"cpu": "600m"}))
    await setup.turn()
    assert setup.used == 0
    assert len(setup.term.queue) == 0


async def test_a_lost_answer_is_asked_for_again(setup: Setup) -> None:
    setup.client.answers = [lose, lose, accept]
    setup.see(pod("p", {"cpu": "600m"}))
    await setup.turn()
    assert setup.client.asked == [["p>a"]] * 3
    assert "default/p" in setup.term.bound


async def test_a_lost_answer_that_had_happened_counts_as_bound(setup: Setup) -> None:
    setup.client.answers = [lose, refuse(errors.ConflictError("already assigned"))]
    setup.client.pods.stored = pod("p", node_name="a")
    setup.see(pod("p", {"cpu": "600m"}))
    await setup.turn()
    assert "default/p" in setup.term.bound
    assert setup.used == 600


async def test_a_pod_bound_elsewhere_meanwhile_is_counted_there(setup: Setup) -> None:
    setup.client.answers = [refuse(errors.ConflictError("already assigned"))]
    setup.term.set_node(ObservedNode.of(node("b", allocatable={"cpu": "1", "pods": "9"}, unschedulable=True)))
    setup.see(pod("p", {"cpu": "600m"}))
    setup.term._decide_slice()
    assert setup.used == 600
    setup.see(pod("p", {"cpu": "600m"}, node_name="b"))
    await setup.turn()
    assert setup.used == 0
    assert setup.term.engine.table.placed["default/p"].node == "b"
    assert len(setup.term.queue) == 0


async def test_a_pod_deleted_while_its_binding_is_under_way(setup: Setup) -> None:
    setup.client.answers = [refuse(errors.not_found("pods", "p"))]
    setup.see(pod("p", {"cpu": "600m"}))
    setup.term._decide_slice()
    setup.term.drop_pod("default/p")
    again = pod("p", {"cpu": "700m"})
    again.metadata.uid = "another"
    setup.see(again)
    setup.client.answers.append(accept)
    setup.term._binder.flush()
    await setup.turn()
    assert setup.used == 700, "the answer about the first pod does not touch the second"


async def test_a_pod_that_a_plugin_chokes_on_does_not_stop_the_others(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.client.answers = [accept]
    decide = setup.term.engine.decide

    def choke(info: Any) -> Any:
        if info.name == "bad":
            raise ZeroDivisionError("plugin")
        return decide(info)

    monkeypatch.setattr(setup.term.engine, "decide", choke)
    setup.see(pod("bad"))
    setup.see(pod("good"))
    await setup.turn()
    assert "default/good" in setup.term.bound
    assert setup.term.queue.counts["backoff"] == 1


async def test_finished_pods_give_back_their_room(setup: Setup) -> None:
    running = pod("p", {"cpu": "600m"}, node_name="a")
    setup.see(running)
    assert setup.used == 600
    running.status.phase = "Succeeded"
    setup.see(running)
    assert setup.used == 0


async def preempting(setup: Setup) -> core.Pod:
    """Have a pod make room for a more important one; returns that one."""
    setup.see(pod("cheap", {"cpu": "1"}, node_name="a"))
    dear = pod("dear", {"cpu": "1"}, priority=9)
    setup.see(dear)
    await setup.turn()
    await asyncio.gather(*setup.term._evictor._tasks)
    return dear


async def test_a_victim_is_deleted_and_its_node_kept(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "deleted", [])
    setup.client.answers = [accept]
    dear = await preempting(setup)
    assert [name for name, _ in Writer.deleted] == ["cheap"]
    assert list(setup.term.engine.nominations.on("a")) == ["default/dear"]
    setup.see(dear)
    assert list(setup.term.engine.nominations.on("a")) == ["default/dear"], "what is not stored yet is not forgotten"
    setup.term.drop_pod("default/cheap")
    moved = setup.term.queue.wake(setup.term._changed, setup.term.engine.waits_for, 1e9)
    assert moved == 1
    dear.status.nominatedNodeName = "a"
    setup.see(dear)
    setup.see(pod("late", {"cpu": "1"}))
    await setup.turn()
    assert setup.client.asked == [["dear>a"]]
    assert not setup.term.engine.nominations


async def test_a_victim_that_cannot_be_deleted_frees_the_nomination(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer, "refusal", errors.ForbiddenError("no"))
    await preempting(setup)
    assert not setup.term.engine.nominations
    assert not setup.term.engine.table.placed["default/cheap"].leaving
    assert setup.term.queue.counts["backoff"] == 1, "it is tried again after its pause"


@pytest.mark.parametrize("others", [0, 3])
async def test_a_refused_pod_wakes_when_others_could_make_room_by_now(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(Writer, "deleted", [])
    setup.see(pod("king", {"cpu": "500m"}, node_name="a", priority=9))
    setup.see(pod("cheap", {"cpu": "500m"}, node_name="a"))
    for index in range(others):
        setup.see(pod(f"lesser-{index}", {"cpu": "1"}, priority=0))
    setup.see(pod("middling", {"cpu": "1"}, priority=5))
    await setup.turn()
    assert setup.term.queue.counts["unschedulable"] == 1 + others
    now = time.monotonic() + 60
    setup.term._wake(now)
    assert setup.term.queue.counts["unschedulable"] == 1 + others, "whoever went, it would not fit"
    setup.term.drop_pod("default/king")
    setup.term._wake(now + 60)
    assert setup.term.queue.counts == setup.term.queue.counts | {"active": 1, "unschedulable": others}
    await setup.turn()
    await asyncio.gather(*setup.term._evictor._tasks)
    assert [name for name, _ in Writer.deleted] == ["cheap"]
    assert list(setup.term.engine.nominations.on("a")) == ["default/middling"]
    setup.term._wake(now + 120)
    assert setup.term.queue.counts["active"] == 0, "it waits for its victim"


async def test_a_pod_that_is_deleted_gives_its_nomination_back(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "deleted", [])
    await preempting(setup)
    setup.term.drop_pod("default/dear")
    assert not setup.term.engine.nominations
