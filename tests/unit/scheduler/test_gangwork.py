"""Gangs are placed together or not at all, whatever comes in between."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from controlplane.scheduler import binder as binder_module
from controlplane.scheduler import leadership as leadership_module
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.gangplacing import GangRefusal
from controlplane.scheduler.gangs import Group
from controlplane.scheduler.observed import ObservedNode
from controlplane.scheduler.pending import pending
from controlplane.scheduler.profile import DEFAULT_PLUGINS, Profile
from tests.unit.scheduler.builders import node, pod
from tests.unit.scheduler.test_leadership import Client, Setup, Writer, accept, refuse
from wharfinger.api import errors
from wharfinger.api.types import core


def group(minimum: int, *, timeout: float = 60.0, uid: str = "g") -> Group:
    return Group(uid=uid, generation=1, min_member=minimum, timeout=timeout)


def member(name: str, cpu: str = "400m", *, gang: str = "train", priority: int = 0, on: str = "") -> core.Pod:
    made = pod(name, {"cpu": cpu}, priority=priority, node_name=on)
    made.spec.schedulingGroup.podGroupName = gang
    return made


class Gangs(Setup):
    """One node "a" with one cpu."""

    client: Client

    def group(self, minimum: int, *, name: str = "train", timeout: float = 60.0) -> None:
        self.term.engine.gangs.set_group(f"default/{name}", group(minimum, timeout=timeout, uid=name))

    def node(self, name: str, cpu: str = "1") -> None:
        made = node(name, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "110"})
        self.term.set_node(ObservedNode.of(made))

    async def turn(self, *, later: float = 0.0) -> None:
        """Let events take effect, wake, decide and bind once, as if `later` seconds had passed."""
        now = time.monotonic() + later
        work = self.term._gangs
        if work.busy(now):
            work.settle(now)
        changed, self.term._changed = self.term._changed, 0
        self.term.queue.wake(changed, work.waits_for, now)
        self.term.queue._end_pauses(now)
        await super().turn()
        if work.busy(now):
            work.settle(now)

    def state(self, name: str) -> str:
        found = self.term.queue.get(f"default/{name}")
        return found.state if found is not None else ""

    def why(self, name: str) -> str:
        found = self.term.queue.get(f"default/{name}")
        assert found is not None
        if found.gate is not None:
            return found.gate.reasons[0]
        assert isinstance(found.last, GangRefusal)
        return found.last.message

    def standing(self, name: str = "train") -> tuple[str, str]:
        work = self.term._gangs
        phase, reason, _ = work.standing(self.term.engine.gangs.get(f"default/{name}"))
        return phase, reason

    @property
    def bound(self) -> list[str]:
        return [entry for asked in self.client.asked for entry in asked]


@pytest_asyncio.fixture
async def setup(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gangs]:
    monkeypatch.setattr(binder_module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(Writer, "deleted", [])
    monkeypatch.setattr(leadership_module, "SLICE", 60.0)  # a turn decides all there is, on slow machines as well
    made = Gangs()
    made.client.answers = [accept]
    yield made
    await made.term._binder.close()
    await made.term._evictor.close()
    await made.term._reporter.close()


async def test_members_wait_until_enough_are_there_and_are_then_bound_in_one_call(setup: Gangs) -> None:
    setup.see(member("one"))
    await setup.turn()
    assert setup.why("one") == "PodGroup train does not exist"
    setup.group(2)
    await setup.turn()
    assert setup.why("one") == "1 of 2 members of PodGroup train are there"
    assert setup.standing() == ("Pending", "NotEnoughMembers")
    assert not setup.bound
    setup.see(member("two"))
    await setup.turn()
    assert setup.client.asked == [["one>a", "two>a"]]
    assert setup.standing() == ("Scheduled", "Scheduled")


async def test_when_too_few_fit_none_is_bound_and_nothing_is_kept(setup: Gangs) -> None:
    setup.group(3)
    for name in ("one", "two", "three"):
        setup.see(member(name))
    await setup.turn()
    assert not setup.bound
    assert setup.used == 0
    text = "2 of 3 members of PodGroup train fit at the same time; three: 0/1 nodes are available: 1 Insufficient cpu."
    assert {setup.why(name) for name in ("one", "two", "three")} == {text}
    assert setup.standing() == ("Pending", "Unschedulable")
    reply = pending(setup.term.engine, setup.term.queue, time.monotonic())
    assert [(entry.state, entry.cause, entry.count) for entry in reply.groups] == [("unschedulable", text, 3)]
    setup.see(pod("alone", {"cpu": "900m"}))
    await setup.turn()
    assert setup.bound == ["alone>a"], "others may have the room"


async def test_a_gang_is_woken_by_a_change_only_when_all_of_it_would_fit(setup: Gangs) -> None:
    setup.group(3)
    for name in ("one", "two", "three"):
        setup.see(member(name))
    await setup.turn()
    setup.node("b", "300m")
    await setup.turn()
    assert setup.state("one") == "unschedulable", "still only two fit"
    setup.node("b", "400m")
    await setup.turn()
    assert setup.state("one") == "backoff", "the pause holds"
    await setup.turn(later=2)
    assert sorted(setup.bound)[0] == "one>a" or sorted(setup.bound)[0] == "one>b"
    assert len(setup.bound) == 3
    assert setup.standing() == ("Scheduled", "Scheduled")


async def test_two_gangs_never_share_room_that_is_enough_for_one(setup: Gangs) -> None:
    for gang in ("x", "y"):
        setup.group(2, name=gang)
    for name, gang in (("x1", "x"), ("y1", "y"), ("x2", "x"), ("y2", "y")):
        setup.see(member(name, gang=gang))
    await setup.turn()
    assert setup.client.asked == [["x1>a", "x2>a"]]
    assert setup.why("y1").startswith("0 of 2 members of PodGroup y fit")
    setup.term.drop_pod("default/x1")
    setup.term.drop_pod("default/x2")
    await setup.turn(later=2)
    assert setup.client.asked[1:] == [["y1>a", "y2>a"]]


async def test_members_beyond_the_minimum_and_late_ones_are_placed_like_other_pods(setup: Gangs) -> None:
    setup.group(2)
    for name in ("one", "two", "three"):
        setup.see(member(name))
    await setup.turn()
    assert sorted(setup.bound) == ["one>a", "two>a"]
    assert setup.state("three") == "unschedulable"
    setup.see(member("late", "100m"))
    await setup.turn()
    assert setup.bound[2:] == ["late>a"]
    setup.node("b")
    await setup.turn(later=2)
    assert setup.bound[3:] == ["three>b"]


async def test_gates_hold_the_whole_gang(setup: Gangs) -> None:
    setup.group(2)
    gated = member("two")
    gated.spec.schedulingGates.add(name="example.com/wait")
    setup.see(member("one"))
    setup.see(gated)
    await setup.turn()
    assert not setup.bound
    assert setup.why("one") == "1 of 2 members of PodGroup train are there, 1 more wait for scheduling gates"
    del gated.spec.schedulingGates[:]
    setup.see(gated)
    await setup.turn()
    assert len(setup.bound) == 2


async def test_members_that_have_a_node_or_have_succeeded_count(setup: Gangs) -> None:
    setup.group(4)
    setup.see(member("placed", "100m", on="a"))
    done = member("done", on="a")
    done.status.phase = "Succeeded"
    setup.see(done)
    failed = member("failed", on="a")
    failed.status.phase = "Failed"
    setup.see(failed)
    leaving = member("leaving", "100m", on="a")
    leaving.metadata.deletionTimestamp.seconds = 1
    setup.see(leaving)
    setup.see(member("one"))
    await setup.turn()
    assert setup.why("one") == "3 of 4 members of PodGroup train are there"
    setup.see(member("two"))
    await setup.turn()
    assert sorted(setup.bound) == ["one>a", "two>a"]


async def test_a_member_that_is_deleted_closes_the_gate_again(setup: Gangs) -> None:
    setup.group(2)
    for name in ("one", "two"):
        setup.see(member(name, "600m"))
    await setup.turn()
    assert setup.state("one") == "unschedulable"
    setup.term.drop_pod("default/two")
    await setup.turn()
    assert setup.state("one") == "gated"


async def test_after_a_binding_was_refused_the_rest_of_the_gang_goes_first(setup: Gangs) -> None:
    def half(requests: object) -> object:
        first, second = accept(requests)[:1], refuse(errors.ConflictError("no"))(requests)[1:]  # type: ignore[arg-type]
        return [*first, *second]

    setup.client.answers = [half, accept]  # type: ignore[list-item]
    setup.group(2)
    for name in ("one", "two"):
        setup.see(member(name))
    setup.see(pod("other", {"cpu": "400m"}))
    setup.term.queue.take(setup.term.queue.get("default/other"))  # type: ignore[arg-type]
    await setup.turn()
    assert setup.bound == ["one>a", "two>a"]
    assert setup.standing() == ("Scheduling", "Incomplete")
    other = setup.term.queue.get("default/other")
    assert other is not None
    setup.term.queue.requeue(other)
    await setup.turn(later=2)
    assert setup.bound[2:] == ["two>a"], "before the other, for which nothing is left"
    assert setup.standing() == ("Scheduled", "Scheduled")


async def test_a_new_leader_completes_what_was_begun_before_other_pods_of_that_priority(setup: Gangs) -> None:
    setup.see(pod("older", {"cpu": "400m"}))
    setup.see(member("two"))
    setup.see(pod("higher", {"cpu": "400m"}, priority=5))
    setup.see(member("one", on="a"))
    setup.group(2)
    await setup.turn()
    assert setup.bound == ["higher>a"]
    setup.term.drop_pod("default/higher")
    await setup.turn(later=2)
    assert setup.bound[1:] == ["two>a"]


async def test_others_make_room_only_if_the_whole_gang_will_fit(setup: Gangs) -> None:
    setup.see(pod("cheap", {"cpu": "500m"}, node_name="a"))
    setup.see(pod("dear", {"cpu": "500m"}, node_name="a", priority=9))
    setup.group(2)
    for name in ("one", "two"):
        setup.see(member(name, priority=5))
    await setup.turn()
    assert not setup.term.engine.nominations
    assert not setup.term._evictor._tasks
    assert "0 of 2 members" in setup.why("one")
    setup.node("b", "400m")
    await setup.turn()
    await setup.turn(later=2)
    await _settled(setup)
    assert [name for name, _ in Writer.deleted] == ["cheap"]
    assert {setup.term.engine.nominations._nodes[f"default/{name}"] for name in ("one", "two")} == {"a", "b"}
    assert setup.standing() == ("Pending", "MakingRoom")
    assert "1 of 2 members of PodGroup train fit at the same time; room is being made on a" in setup.why("one")
    setup.see(pod("thief", {"cpu": "400m"}))
    await setup.turn()
    assert not setup.bound, "room is kept"
    setup.term.drop_pod("default/cheap")
    await setup.turn(later=9)
    assert sorted(setup.bound) == ["one>a", "two>b"] or sorted(setup.bound) == ["one>b", "two>a"]
    assert not setup.term.engine.nominations


async def test_room_is_given_back_when_the_time_is_over(setup: Gangs) -> None:
    setup.see(pod("cheap", {"cpu": "800m"}, node_name="a"))
    setup.group(2, timeout=30)
    setup.node("b", "400m")
    for name in ("one", "two"):
        setup.see(member(name, priority=5))
    await setup.turn()
    await _settled(setup)
    assert len(setup.term.engine.nominations._nodes) == 2
    assert setup.term._gangs.next_release < time.monotonic() + 31
    await setup.turn(later=31)
    assert not setup.term.engine.nominations
    assert setup.standing() == ("Pending", "Unschedulable")
    assert setup.term._gangs.next_release == float("inf")


async def test_room_is_given_back_when_a_member_is_deleted(setup: Gangs) -> None:
    setup.see(pod("cheap", {"cpu": "800m"}, node_name="a"))
    setup.group(2)
    setup.node("b", "400m")
    for name in ("one", "two"):
        setup.see(member(name, priority=5))
    await setup.turn()
    await _settled(setup)
    assert len(setup.term.engine.nominations._nodes) == 2
    setup.term.drop_pod("default/two")
    await setup.turn()
    assert not setup.term.engine.nominations
    assert setup.standing() == ("Pending", "NotEnoughMembers")


async def test_a_group_that_is_deleted_holds_its_members_back(setup: Gangs) -> None:
    setup.group(2)
    for name in ("one", "two"):
        setup.see(member(name, "600m"))
    await setup.turn()
    setup.term.engine.gangs.set_group("default/train", None)
    setup.node("b")
    await setup.turn(later=5)
    assert setup.state("one") == "gated"
    assert not setup.bound
    setup.group(2)
    await setup.turn(later=5)
    assert len(setup.bound) == 2


async def test_nothing_is_kept_of_gangs_that_are_gone(setup: Gangs) -> None:
    setup.group(2)
    for name in ("one", "two"):
        setup.see(member(name, "600m"))
    await setup.turn()
    assert setup.term._gangs._refusals
    setup.term.drop_pod("default/one")
    setup.term.drop_pod("default/two")
    setup.term.engine.gangs.set_group("default/train", None)
    await setup.turn()
    assert not setup.term.engine.gangs
    assert not setup.term.engine.gangs.changed
    assert not setup.term._gangs._refusals


async def test_profiles_without_the_plugin_place_members_like_other_pods(setup: Gangs) -> None:
    profile = Profile(enabled=[entry for entry in DEFAULT_PLUGINS if entry.name != "GangScheduling"])
    engine = Engine([profile])
    assert engine.pods.info(member("one")).gang is None


async def test_a_plugin_that_chokes_leaves_nothing_behind(setup: Gangs, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.group(2)
    for name in ("one", "two"):
        setup.see(member(name))
    decide, calls = setup.term.engine.decide, 0

    def second_fails(info: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("no")
        return decide(info)  # type: ignore[arg-type]

    monkeypatch.setattr(setup.term.engine, "decide", second_fails)
    await setup.turn()
    assert setup.used == 0
    assert {setup.state("one"), setup.state("two")} == {"backoff"}


async def test_a_changed_group_is_tried_again(setup: Gangs) -> None:
    setup.group(3)
    for name in ("one", "two", "three"):
        setup.see(member(name))
    await setup.turn()
    setup.group(2)
    await setup.turn(later=2)
    assert len(setup.bound) == 2


async def _settled(setup: Gangs) -> None:
    import asyncio

    await asyncio.gather(*setup.term._evictor._tasks)
