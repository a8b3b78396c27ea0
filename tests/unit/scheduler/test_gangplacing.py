"""A gang in one go: the order of its members, what is taken back, and who would make room."""

from __future__ import annotations

from controlplane.scheduler.gangplacing import place_gang
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.types import core

ONE = {"cpu": "1", "memory": "8Gi", "pods": "110"}


def placed(bench: Bench) -> set[str]:
    return {key.removeprefix("default/") for key in bench.table.placed}


def attempt(bench: Bench, *members: core.Pod, needed: int | None = None):  # type: ignore[no-untyped-def]
    return place_gang(bench.engine, [bench.info(one) for one in members], needed or len(members))


def test_members_that_few_nodes_could_take_come_first() -> None:
    bench = Bench(node("a", allocatable=ONE, labels={"disk": "ssd"}), node("b", allocatable=ONE))
    easy = pod("easy", {"cpu": "900m"})
    picky = pod("picky", {"cpu": "900m"}, selector={"disk": "ssd"})
    bench.place(pod("filler", {"cpu": "50m"}, node_name="b"))  # so that "easy" alone would choose a
    outcome = attempt(bench, easy, picky)
    assert {info.name: placement.node for info, placement in outcome.placements} == {"picky": "a", "easy": "b"}


def test_large_members_come_before_small_ones() -> None:
    bench = Bench(node("a", allocatable={**ONE, "cpu": "2"}), node("b", allocatable=ONE))
    small = [pod(f"small{index}", {"cpu": "500m"}) for index in range(2)]
    outcome = attempt(bench, *small, pod("large", {"cpu": "2"}))
    assert outcome.complete


def test_what_does_not_fit_is_taken_back_whole() -> None:
    bench = Bench(node("a", allocatable=ONE))
    bench.place(pod("there", {"cpu": "100m"}, node_name="a"))
    before = bench.table.requested.copy()
    outcome = attempt(bench, *(pod(f"m{index}", {"cpu": "400m"}) for index in range(4)))
    assert (len(outcome.placements), len(outcome.refused)) == (2, 2)
    assert not outcome.possible
    assert placed(bench) == {"there"}
    assert (bench.table.requested == before).all()


def test_more_than_needed_are_placed_when_they_fit() -> None:
    bench = Bench(node("a", allocatable=ONE))
    outcome = attempt(bench, *(pod(f"m{index}", {"cpu": "400m"}) for index in range(3)), needed=1)
    assert outcome.complete
    assert placed(bench) == {"m0", "m1"}


def test_victims_are_named_only_when_they_are_enough() -> None:
    bench = Bench(node("a", allocatable=ONE), node("b", allocatable=ONE))
    bench.place(pod("cheap", {"cpu": "1"}, node_name="a"), pod("dear", {"cpu": "1"}, node_name="b", priority=9))
    two = [pod(f"m{index}", {"cpu": "1"}, priority=5) for index in range(2)]
    outcome = attempt(bench, *two)
    assert not outcome.possible
    assert not bench.engine.nominations
    outcome = attempt(bench, *two, needed=1)
    assert [(info.name, found.node) for info, found in outcome.making_room] == [("m0", "a")]
    assert outcome.possible
    assert not outcome.complete
    assert not bench.engine.nominations, "nothing is kept before somebody says so"
    assert placed(bench) == {"cheap", "dear"}


def test_two_members_do_not_count_on_the_same_victim() -> None:
    bench = Bench(node("a", allocatable=ONE))
    bench.place(pod("cheap", {"cpu": "1"}, node_name="a"))
    outcome = attempt(bench, *(pod(f"m{index}", {"cpu": "600m"}, priority=5) for index in range(2)))
    assert not outcome.possible


def test_twins_of_a_refused_member_are_not_decided_again() -> None:
    bench = Bench(node("a", allocatable=ONE))
    outcome = attempt(bench, *(pod(f"m{index}", {"cpu": "2"}) for index in range(3)))
    first = outcome.refused[0][1]
    assert all(diagnosis is first for _, diagnosis in outcome.refused)
