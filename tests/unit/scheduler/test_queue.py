from collections.abc import Iterator

import pytest

from controlplane.scheduler.decisions import Diagnosis
from controlplane.scheduler.framework import Aspect
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.queue import STRAGGLER_SECONDS, WAKE_AT_ONCE, QueuedPod, SchedulingQueue
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.types import core


class Setup:
    """A queue on a virtual clock over an engine with one small node."""

    def __init__(self) -> None:
        self.bench = Bench(node("a", allocatable={"cpu": "1", "memory": "8Gi", "pods": "110"}))
        self.queue = SchedulingQueue(self.bench.engine.profile)
        self.now = 100.0

    def add(self, entry: core.Pod) -> QueuedPod:
        return self.queue.add(self.bench.info(entry), self.now)

    def pop(self) -> QueuedPod | None:
        return self.queue.pop(self.now)

    def attempt(self) -> QueuedPod:
        """Take the next pod, which must fit nowhere, and park it."""
        taken = self.pop()
        assert taken is not None
        diagnosis = self.bench.engine.decide(taken.info)
        assert isinstance(diagnosis, Diagnosis)
        self.queue.park(taken, diagnosis, self.now, reads=self.bench.engine.waits_for(taken.info) or 0)
        return taken

    def wake(self, aspects: int = Aspect.USAGE) -> int:
        return self.queue.wake(aspects, self.bench.engine.waits_for, self.now)

    def drain(self) -> Iterator[str]:
        while (taken := self.pop()) is not None:
            yield taken.info.name


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_by_priority_then_by_age_then_by_arrival(setup: Setup) -> None:
    old = pod("old")
    old.metadata.creationTimestamp.seconds = 5
    young = pod("young")
    young.metadata.creationTimestamp.seconds = 9
    for entry in (young, old, pod("first"), pod("second"), pod("high", priority=10)):
        setup.add(entry)
    assert list(setup.drain()) == ["high", "first", "second", "old", "young"]


def test_a_changed_priority_moves_a_waiting_pod(setup: Setup) -> None:
    setup.add(pod("a"))
    setup.add(pod("b"))
    setup.add(pod("b", priority=5))
    assert list(setup.drain()) == ["b", "a"]


def test_a_parked_pod_wakes_only_when_a_node_would_take_it(setup: Setup) -> None:
    setup.bench.place(pod("holder", {"cpu": "1"}, node_name="a"))
    setup.add(pod("p", {"cpu": "500m"}))
    setup.attempt()
    setup.now += 60
    assert setup.wake() == 0
    setup.bench.table.remove("default/holder")
    assert setup.wake(Aspect.LABELS) == 0, "nothing that refused it reads labels"
    assert setup.wake() == 1
    assert list(setup.drain()) == ["p"]


def test_a_woken_pod_first_sits_out_its_pause(setup: Setup) -> None:
    setup.bench.place(pod("holder", {"cpu": "1"}, node_name="a"))
    setup.add(pod("p", {"cpu": "500m"}))
    setup.attempt()
    setup.bench.table.remove("default/holder")
    setup.now += 0.25
    setup.wake()
    assert setup.queue.counts["backoff"] == 1
    assert setup.pop() is None
    assert setup.queue.next_ready() == pytest.approx(101.0)
    setup.now = 101.0
    assert list(setup.drain()) == ["p"]


def test_the_pause_doubles_up_to_ten_seconds(setup: Setup) -> None:
    setup.add(pod("p"))
    pauses = []
    for _ in range(6):
        taken = setup.pop()
        assert taken is not None
        setup.queue.retry(taken, setup.now)
        pauses.append(taken.ready - setup.now)
        setup.now = taken.ready
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_pods_that_failed_together_come_back_by_priority(setup: Setup) -> None:
    setup.add(pod("low", {"cpu": "2"}))
    setup.attempt()
    setup.now += 0.01
    setup.add(pod("high", {"cpu": "2"}, priority=5))
    setup.attempt()
    setup.now += 0.01
    setup.bench.set_node(node("b"))
    assert setup.wake(Aspect.EXISTENCE) == 2
    setup.now += 1.25
    assert list(setup.drain()) == ["high", "low"]


def test_many_pods_of_a_kind_wake_in_portions(setup: Setup) -> None:
    setup.bench.place(pod("holder", {"cpu": "1"}, node_name="a"))
    for index in range(WAKE_AT_ONCE + 10):
        setup.add(pod(f"p{index}", {"cpu": "100m"}))
    for _ in range(WAKE_AT_ONCE + 10):
        setup.attempt()
    setup.now += 60
    setup.bench.table.remove("default/holder")
    assert setup.wake() == WAKE_AT_ONCE
    assert setup.queue.hungry
    assert setup.wake(0) == 10
    assert not setup.queue.hungry


def test_the_first_in_order_wake_first(setup: Setup) -> None:
    setup.bench.place(pod("holder", {"cpu": "1"}, node_name="a"))
    for index in range(WAKE_AT_ONCE):
        setup.add(pod(f"p{index}", {"cpu": "100m"}))
        setup.attempt()
    setup.add(pod("urgent", {"cpu": "100m"}, priority=9))
    setup.attempt()
    setup.now += 60
    setup.bench.table.remove("default/holder")
    setup.wake()
    assert next(setup.drain()) == "urgent"


def test_gated_pods_enter_when_the_last_gate_is_gone(setup: Setup) -> None:
    gated = pod("p")
    gated.spec.schedulingGates.add(name="example.com/wait")
    assert setup.add(gated).state == "gated"
    assert setup.pop() is None
    setup.add(pod("p"))
    assert list(setup.drain()) == ["p"]


def test_a_status_change_does_not_wake_a_parked_pod_and_a_spec_change_does(setup: Setup) -> None:
    setup.add(pod("p", {"cpu": "2"}))
    parked = setup.attempt()
    told = pod("p", {"cpu": "2"})
    told.status.conditions.add(type="PodScheduled", status="False")
    setup.add(told)
    assert parked.state == "unschedulable"
    setup.add(pod("p", {"cpu": "2"}, selector={"x": "y"}))
    assert parked.state == "active"
    assert setup.queue.counts["unschedulable"] == 0


def test_stragglers_are_tried_in_any_case(setup: Setup) -> None:
    setup.add(pod("p", {"cpu": "2"}))
    setup.attempt()
    setup.now += STRAGGLER_SECONDS - 1
    assert setup.queue.flush(setup.now) == 0
    setup.now += 1
    assert setup.queue.flush(setup.now) == 1
    assert list(setup.drain()) == ["p"]


def test_removed_pods_are_gone_from_every_place(setup: Setup) -> None:
    setup.add(pod("active"))
    setup.queue.remove("default/active")
    setup.add(pod("parked", {"cpu": "2"}))
    setup.attempt()
    setup.queue.remove("default/parked")
    assert setup.pop() is None
    assert len(setup.queue) == 0
    assert not any(setup.queue.counts.values())


def test_a_pod_made_anew_under_the_same_name_is_another_pod(setup: Setup) -> None:
    first = setup.add(pod("p"))
    taken = setup.pop()
    assert taken is first
    again = pod("p")
    again.metadata.uid = "another"
    second = setup.add(again)
    assert second is not first
    setup.queue.retry(first, setup.now)
    assert second.state == "active"
    assert setup.queue.counts["active"] == 1


def test_a_pod_refused_by_another_filter_when_woken_waits_for_that_one() -> None:
    setup = Setup()
    setup.bench.engine.table.remove_node("a")
    setup.add(pod("web"))
    taken = setup.pop()
    assert taken is not None
    diagnosis = setup.bench.engine.decide(taken.info)
    assert isinstance(diagnosis, Diagnosis)
    setup.queue.park(taken, diagnosis, setup.now, reads=Aspect.EXISTENCE)
    room = {"cpu": "1", "memory": "8Gi", "pods": "110"}
    setup.bench.set_node(node("b", allocatable=room, taints=["not-ready:NoSchedule"]))
    assert setup.wake(Aspect.EXISTENCE) == 0, "the new node is tainted"
    setup.bench.set_node(node("b", allocatable=room))
    assert setup.wake(Aspect.TAINTS) == 1


def test_a_nominated_pod_is_asked_when_pods_have_gone_on_its_node(setup: Setup) -> None:
    bench = setup.bench
    bench.place(pod("cheap", {"cpu": "1"}, node_name="a"))
    for name in ("dear", "other"):
        setup.add(pod(name, {"cpu": "1"}))
        taken = setup.pop()
        assert taken is not None
        diagnosis = bench.engine.decide(taken.info)
        assert isinstance(diagnosis, Diagnosis)
        if name == "dear":
            bench.engine.nominate(taken.info, "a")
        setup.queue.park(taken, diagnosis, setup.now, reads=bench.engine.waits_for(taken.info) or 0)
    bench.table.remove("default/cheap")
    asked = []

    def waits_for(info: PodInfo) -> int | None:
        asked.append(info.name)
        return bench.engine.waits_for(info)

    assert setup.queue.wake(0, waits_for, setup.now, most=0, nodes=["b"]) == 0
    assert setup.queue.wake(0, waits_for, setup.now, most=0, nodes=["a"]) == 1
    assert asked == ["dear"]


def test_with_more_kinds_than_are_asked_at_once_each_has_its_turn(setup: Setup) -> None:
    for number in range(6):
        setup.add(pod(f"p{number}", {"cpu": f"{number + 2}"}))
        setup.attempt()
    asked: list[str] = []

    def waits_for(info: PodInfo) -> int | None:
        asked.append(info.name)
        return setup.bench.engine.waits_for(info)

    for _ in range(3):  # changes come all the time
        setup.queue.wake(Aspect.USAGE | Aspect.ALLOCATABLE, waits_for, setup.now, most=2)
    assert asked == [f"p{number}" for number in range(6)]
