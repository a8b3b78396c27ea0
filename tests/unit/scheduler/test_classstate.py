"""Whatever happens, in whatever order: what is kept current row by row equals what is computed from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controlplane.scheduler.classstate import ClassState
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.gangplacing import place_gang
from controlplane.scheduler.nodetable import PODS, NodeTable
from controlplane.scheduler.observed import ObservedNode
from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import affinity, node, observed, pod, spread, tolerate
from wharfinger.api.types import core

NAMES = [f"n{index}" for index in range(6)]


def sociable() -> list[core.Pod]:
    """Kinds of pods with terms about each other."""
    near = pod(requests={"cpu": "100m"}, labels={"app": "near"})
    near_terms = near.spec.affinity.podAffinity
    affinity(near_terms.requiredDuringSchedulingIgnoredDuringExecution.add(), "zone", {"app": "near"})
    preferred = near_terms.preferredDuringSchedulingIgnoredDuringExecution.add(weight=7)
    affinity(preferred.podAffinityTerm, "disk", {"app": "apart"})
    apart = pod(requests={"cpu": "100m"}, labels={"app": "apart"})
    apart_terms = apart.spec.affinity.podAntiAffinity
    affinity(apart_terms.requiredDuringSchedulingIgnoredDuringExecution.add(), "zone", {"app": "apart"})
    affinity(apart_terms.requiredDuringSchedulingIgnoredDuringExecution.add(), "disk", {"app": "spread"})
    even = spread(pod(requests={"cpu": "100m"}, labels={"app": "spread"}), "zone", {"app": "spread"})
    spread(even, "disk", {"app": "near"}, when="ScheduleAnyway")
    soft = spread(pod(labels={"app": "spread"}), "zone", {"app": "spread"}, when="ScheduleAnyway", skew=2)
    hosts = spread(pod(labels={"app": "hosts"}), "kubernetes.io/hostname", {"app": "hosts"}, when="ScheduleAnyway")
    return [near, apart, even, soft, hosts]


def kinds() -> list[core.Pod]:
    affine = pod(requests={"cpu": "300m", "memory": "64Mi"}, image="app:2")
    preferred = affine.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution
    preferred.add(weight=5).preference.matchExpressions.add(key="zone", operator="In", values=["a"])
    preferred.add(weight=3).preference.matchExpressions.add(key="disk", operator="Exists")
    required = affine.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    required.nodeSelectorTerms.add().matchExpressions.add(key="zone", operator="NotIn", values=["c"])
    return [
        *sociable(),
        pod(requests={"cpu": "500m"}, image="app:1"),
        pod(requests={"cpu": "1", "memory": "1Gi"}, selector={"disk": "ssd"}),
        pod(requests={"example.com/gpu": "1"}),
        pod(ports=[(80, "TCP", ""), (443, "TCP", "10.0.0.1")]),
        tolerate(pod(requests={"memory": "2Gi"}), "t", "1", effect="NoSchedule"),
        affine,
    ]


KINDS = kinds()


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.engine = Engine(seed=3)
        self.count = 0
        self.placed: list[Any] = []
        self.decisions: list[tuple[Placement, np.ndarray[Any, Any]]] = []

    @rule(
        name=st.sampled_from(NAMES),
        cpu=st.sampled_from(["0", "1", "2500m"]),
        gpu=st.sampled_from([None, "1"]),
        pods=st.sampled_from(["2", "110"]),
        labels=st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "c", "ssd"])),
        taints=st.lists(
            st.sampled_from(["t=1:NoSchedule", "s=1:PreferNoSchedule", "r=1:PreferNoSchedule"]), unique=True
        ),
        cordoned=st.booleans(),
        images=st.dictionaries(st.sampled_from(["app:1", "app:2"]), st.just(900_000_000)),
    )
    def set_node(self, name: str, cpu: str, gpu: str | None, pods: str, **rest: Any) -> None:
        room = {"cpu": cpu, "memory": "4Gi", "pods": pods, **({"example.com/gpu": gpu} if gpu else {})}
        made = node(
            name,
            allocatable=room,
            labels=rest["labels"],
            taints=rest["taints"],
            unschedulable=rest["cordoned"],
            images=rest["images"],
        )
        self.engine.table.set_node(ObservedNode.of(made))

    @rule(name=st.sampled_from(NAMES))
    def remove_node(self, name: str) -> None:
        self.engine.table.remove_node(name)

    @rule(kind=st.integers(0, len(KINDS) - 1))
    def decide(self, kind: int) -> None:
        self.count += 1
        made = core.Pod()
        made.CopyFrom(KINDS[kind])
        made.metadata.name = f"p{self.count}"
        info = self.engine.pods.info(made)
        state = self.engine.state(info)
        table = self.engine.table
        before = (state.total.copy(), table.requested.copy())
        decision = self.engine.decide(info)
        if isinstance(decision, Diagnosis):
            assert not state.feasible.any()
            return
        self.placed.append(info)
        assert before[0][decision.row] == before[0].max() == decision.total
        needed = table.vector(info.cls.usage) > 0
        row = decision.row
        assert (table.requested[:, row] <= table.allocatable[:, row])[needed].all(), "over capacity"
        self.engine.forget(info)
        assert (table.requested == before[1]).all(), "forgetting leaves the table as it was"
        table.place(info.key, decision.node, info.cls.usage, info.cls.peer)
        self.decisions.append((decision, before[0]))

    @rule(
        chosen=st.lists(st.integers(0, len(KINDS) - 1), min_size=1, max_size=5),
        needed=st.integers(1, 5),
        priority=st.integers(0, 1),
        commit=st.booleans(),
    )
    def decide_a_gang(self, chosen: list[int], needed: int, priority: int, *, commit: bool) -> None:
        members = []
        for kind in chosen:
            self.count += 1
            made = core.Pod()
            made.CopyFrom(KINDS[kind])
            made.metadata.name, made.spec.priority = f"p{self.count}", priority
            members.append(self.engine.pods.info(made))
        table = self.engine.table
        before = (table.requested.copy(), set(table.placed))
        outcome = place_gang(self.engine, members, min(needed, len(members)))
        assert not self.engine.nominations, "what is kept is for the caller to say"
        there = {info.key for info in members if info.key in table.placed}
        if not outcome.complete:
            assert not there
            assert set(table.placed) == before[1]
            assert (table.requested == np.pad(before[0], [(0, len(table.requested) - len(before[0])), (0, 0)])).all()
            return
        assert len(there) >= min(needed, len(members))
        assert there == {info.key for info, _ in outcome.placements}
        for info, placement in outcome.placements:
            asked = table.vector(info.cls.usage) > 0
            assert (table.requested[:, placement.row] <= table.allocatable[:, placement.row])[asked].all()
            if commit:
                self.placed.append(info)
            else:
                self.engine.forget(info)
        if not commit:
            assert set(table.placed) == before[1]

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.placed:
            info = self.placed.pop(data.draw(st.integers(0, len(self.placed) - 1)))
            self.engine.table.remove(info.key)

    @rule()
    def past_decisions_can_be_explained(self) -> None:
        for decision, total in self.decisions[-3:]:
            state = decision.state()
            picture = state.history.at(decision.position, state) if state else None
            if state is None or picture is None or len(picture.alive) != len(total):
                continue
            feasible = picture.alive.copy()
            for codes in picture.codes:
                feasible &= codes == 0
            again = np.zeros(len(total), np.int64)
            for scored, raw in zip(state.scores, picture.raw, strict=True):
                again += scored.weight * scored.score.scale(raw, scored.score.bounds(raw[feasible]))
            assert (np.where(feasible, again, -1) == total).all()

    @invariant()
    def table_equals_a_fresh_build(self) -> None:
        table = self.engine.table
        fresh = NodeTable()
        for key, resident in table.placed.items():
            fresh.place(key, resident.node, resident.usage)
        for name, row in table.rows.items():
            found = table.nodes[row]
            assert found is not None
            fresh.set_node(found)
            other = fresh.rows[name]
            assert table.nonzero[:, row].tolist() == fresh.nonzero[:, other].tolist()
            for resource in {*table.resources, *fresh.resources}:
                ours, theirs = table.resources.get(resource), fresh.resources.get(resource)
                for column in ("allocatable", "requested"):
                    value = 0 if ours is None else int(getattr(table, column)[ours, row])
                    again = 0 if theirs is None else int(getattr(fresh, column)[theirs, other])
                    assert value == again, (resource, column)
        free = ~table.alive
        assert not table.requested[:, free].any()
        assert not table.allocatable[:, free].any()
        claims = {
            (key, table.names[row], address): count
            for key, rows in table.ports.items()
            for row, addresses in rows.items()
            for address, count in addresses.items()
        }
        assert claims == {
            (key, fresh.names[row], address): count
            for key, rows in fresh.ports.items()
            for row, addresses in rows.items()
            for address, count in addresses.items()
        }
        assert {name: len(image.rows) for name, image in table.images.items()} == {
            name: len(image.rows) for name, image in fresh.images.items()
        }

    @invariant()
    def states_equal_fresh_states(self) -> None:
        table = self.engine.table
        for kind in KINDS:
            info = self.engine.pods.info(kind)
            state = self.engine.state(info)
            fresh = ClassState(Profile(), info.cls, table)
            fresh.sync()
            if state._layout != table.layout:
                state.sync()
            assert (state.feasible == fresh.feasible).all()
            assert state.feasible_count == fresh.feasible_count == int(fresh.feasible.sum())
            assert (state.total == fresh.total).all()
            for ours, theirs in zip(state.filters, fresh.filters, strict=True):
                assert (ours.codes[table.alive] == theirs.codes[table.alive]).all()


TestMachine = pytest.mark.filterwarnings("error::RuntimeWarning")(Machine.TestCase)
TestMachine.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_used_row_counts_are_never_above_the_limit_of_pods() -> None:
    engine = Engine(seed=1)
    engine.table.set_node(observed("a", allocatable={"cpu": "100", "memory": "8Gi", "pods": "3"}))
    results = [engine.decide(engine.pods.info(pod(f"p{index}"))) for index in range(5)]
    assert [isinstance(result, Placement) for result in results] == [True, True, True, False, False]
    assert engine.table.requested[PODS, 0] <= 3
