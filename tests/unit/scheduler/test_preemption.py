"""Nominations and victims, beyond what the recorded decisions say."""

from __future__ import annotations

import random

import numpy as np

from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.nominationverdicts import refusals_by_nomination
from tests.unit.scheduler.builders import Bench, affinity, node, pod
from wharfinger.api.types import core

ONE = {"cpu": "1", "memory": "8Gi", "pods": "110"}


def full(*names: str) -> Bench:
    bench = Bench(*(node(name, allocatable=ONE) for name in names))
    for name in names:
        bench.place(pod(f"on-{name}", {"cpu": "1"}, node_name=name))
    return bench


def failed(bench: Bench, entry: core.Pod) -> Diagnosis:
    found = bench.engine.decide(bench.info(entry))
    assert isinstance(found, Diagnosis)
    return found


def test_looking_for_victims_changes_nothing() -> None:
    bench = full("a", "b")
    dear = bench.info(pod("dear", {"cpu": "1"}, priority=9))
    found = bench.engine.decide(dear)
    assert isinstance(found, Diagnosis)
    before, position, placed = bench.table.requested.copy(), bench.table.position, set(bench.table.placed)
    result = bench.engine.preempt(dear, found)
    assert result is not None
    assert {candidate.node for candidate in result.best} == {"a", "b"}
    assert result.chosen in result.best
    assert (bench.table.requested == before).all()
    assert (bench.table.position, set(bench.table.placed)) == (position, placed)


def test_a_node_is_kept_for_the_nominated_pod_and_only_against_lesser_ones() -> None:
    bench = full("a")
    dear = bench.info(pod("dear", {"cpu": "1"}, priority=9))
    bench.engine.nominate(dear, "a")
    bench.table.remove("default/on-a")
    assert failed(bench, pod("cheap", {"cpu": "1"})).message == "0/1 nodes are available: 1 Insufficient cpu."
    assert failed(bench, pod("equal", {"cpu": "1"}, priority=9)).counts["Insufficient cpu"] == 1
    assert bench.engine.waits_for(bench.info(pod("cheap", {"cpu": "1"}))) is not None
    assert bench.engine.waits_for(dear) is None
    placed = bench.engine.decide(dear)
    assert isinstance(placed, Placement)
    assert not bench.engine.nominations


def test_a_more_important_pod_does_not_wait_for_a_nominated_one() -> None:
    bench = full("a")
    bench.engine.nominate(bench.info(pod("dear", {"cpu": "1"}, priority=9)), "a")
    bench.table.remove("default/on-a")
    assert isinstance(bench.engine.decide(bench.info(pod("king", {"cpu": "1"}, priority=10))), Placement)


def test_nodes_with_nominated_pods_are_asked_at_once_as_they_would_be_one_by_one() -> None:
    bench = Bench(*(node(f"n{index}", allocatable={"cpu": "2", "pods": "3"}) for index in range(6)))
    for index in range(6):
        entry = pod(f"dear-{index}", {"cpu": f"{index}00m"}, priority=index)
        bench.engine.nominate(bench.info(entry), f"n{index // 2}")
        bench.place(pod(f"p{index}", {"cpu": f"{index * 3}00m"}, node_name=f"n{index}"))
    for asked in (pod("x", {"cpu": "1200m"}, priority=2), pod("dear-3", {"cpu": "1"}, priority=0)):
        info = bench.info(asked)
        state = bench.engine.state(info)
        quick = refusals_by_nomination(info, state, bench.engine.nominations)
        before = bench.table.requested.copy()
        for column in state.filters:
            column.filter.sums_only = False
        slow = refusals_by_nomination(info, state, bench.engine.nominations)
        assert quick == slow
        assert quick
        assert np.array_equal(bench.table.requested, before)


def test_who_is_in_the_way_by_affinity_goes() -> None:
    bench = Bench(node("a"), node("b"))
    for name in ("a", "b"):
        shy = pod(f"shy-{name}", labels={"app": "x"}, priority=1 if name == "a" else 2, node_name=name)
        terms = shy.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
        affinity(terms.add(), "kubernetes.io/hostname", {"app": "x"})
        bench.place(shy)
    dear = bench.info(pod("dear", labels={"app": "x"}, priority=9))
    found = bench.engine.decide(dear)
    assert isinstance(found, Diagnosis)
    result = bench.engine.preempt(dear, found)
    assert result is not None
    assert result.chosen is not None
    assert [key for key, _ in result.chosen.victims] == ["default/shy-a"], "the less important one"


def test_what_is_remembered_of_searches_is_what_a_fresh_search_finds() -> None:
    draw = random.Random(7)
    bench = Bench(*(node(f"n{index}", allocatable={"cpu": "2", "pods": "9"}) for index in range(5)))
    engine = bench.engine
    asked = bench.info(pod("dear", {"cpu": "1500m"}, priority=5))
    for step in range(150):
        name = f"n{draw.randrange(5)}"
        entry = pod(f"p{step}", {"cpu": f"{draw.randrange(1, 8)}00m"}, priority=draw.randrange(7), node_name=name)
        if draw.random() < 0.3:
            engine.nominate(bench.info(entry), name)
        elif draw.random() < 0.3 and bench.table.placed:
            bench.table.remove(draw.choice(sorted(bench.table.placed)))
        else:
            entry.status.startTime.seconds = draw.randrange(100)
            bench.place(entry)
        if draw.random() < 0.1:
            key, resident = draw.choice(sorted(bench.table.placed.items(), key=lambda item: item[0]))
            usage, peer = resident.usage, resident.peer
            bench.table.place(key, resident.node, usage, peer, priority=draw.randrange(7), started=50.0)
        found = engine.decide(asked)
        if isinstance(found, Placement):
            bench.table.remove(asked.key)
            continue
        results = []
        for _ in range(2):
            found.preemptions.clear()
            result = engine.preempt(asked, found)
            assert result is not None
            results.append((result.candidates, result.rejected, result.best, result.message))
            assert engine.would_make_room(asked) == bool(result.candidates)
            engine._searches.clear()
            assert engine.would_make_room(asked) == bool(result.candidates)
        assert results[0] == results[1]
