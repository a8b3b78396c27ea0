"""Simulations use the very engine on a snapshot, and leave the original as it was."""

from __future__ import annotations

import numpy as np
import pytest

from controlplane.scheduler.gangs import Group
from controlplane.scheduler.simulate import simulate, snapshot
from tests.unit.scheduler.builders import Bench, affinity, node, pod
from wharfinger.api import errors
from wharfinger.api.types import core, gangs
from wharfinger.proto.native import scheduling_v1_pb2 as native

ONE = {"cpu": "1", "memory": "8Gi", "pods": "110"}


def request(*pods: core.Pod, count: int = 1, **more: object) -> native.SimulateRequest:
    entries = [native.SimulatedPods(pod=entry.SerializeToString(), count=count) for entry in pods]
    return native.SimulateRequest(pods=entries, **more)  # type: ignore[arg-type]


def test_pods_count_for_those_after_them_and_nothing_is_changed() -> None:
    bench = Bench(node("a", allocatable=ONE), node("b", allocatable=ONE))
    bench.place(pod("x", {"cpu": "500m"}, node_name="b"))
    before, position = bench.table.requested.copy(), bench.table.position
    reply = simulate(bench.engine, request(pod("w", {"cpu": "500m"}), count=4))
    assert [(p.pod, p.node) for p in reply.placements][3] == ("w-3", "")
    assert sorted(p.node for p in reply.placements) == ["", "a", "a", "b"]
    assert reply.placements[3].message == "0/2 nodes are available: 2 Insufficient cpu."
    assert (bench.table.requested == before).all()
    assert bench.table.position == position
    assert set(bench.table.placed) == {"default/x"}


def test_nodes_are_added_left_out_and_replaced_by_those_of_a_file() -> None:
    bench = Bench(node("a", allocatable=ONE), node("b", allocatable=ONE))
    wanted = pod("w", {"cpu": "2"})
    assert not simulate(bench.engine, request(wanted)).placements[0].node
    big = node("big").SerializeToString()
    assert simulate(bench.engine, request(wanted, nodes=[big])).placements[0].node == "big"
    assert simulate(bench.engine, request(wanted, nodes=[big], only_these_nodes=True)).nodes == 1
    reply = simulate(bench.engine, request(pod("s", {"cpu": "1"}), count=2, without_nodes=["a"]))
    assert [p.node for p in reply.placements] == ["b", ""]


def test_who_would_have_to_make_room_is_said() -> None:
    bench = Bench(node("a", allocatable=ONE))
    bench.place(pod("cheap", {"cpu": "1"}, node_name="a"))
    found = simulate(bench.engine, request(pod("dear", {"cpu": "1"}, priority=5))).placements[0]
    assert (found.node, found.would_preempt_on, list(found.victims)) == ("", "a", ["default/cheap"])


def test_a_snapshot_knows_of_affinity_and_shares_no_counts() -> None:
    bench = Bench(node("a", labels={"zone": "1"}), node("b", labels={"zone": "2"}))
    shy = pod("shy", labels={"app": "x"}, node_name="a")
    affinity(
        shy.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.add(), "zone", {"app": "x"}
    )
    bench.place(shy)
    reply = simulate(bench.engine, request(pod("y", labels={"app": "x"})))
    assert reply.placements[0].node == "b"
    copy = snapshot(bench.engine)
    copy.table.remove("default/shy")
    assert bench.feasible(pod("y", labels={"app": "x"})) == {"b"}
    assert np.count_nonzero(copy.table.alive) == 2


def test_gangs_go_together_and_members_that_are_there_count() -> None:
    bench = Bench(node("a", allocatable=ONE))
    bench.engine.gangs.set_group("default/train", Group(uid="g", generation=1, min_member=3, timeout=60))
    member = pod("m", {"cpu": "400m"})
    member.spec.schedulingGroup.podGroupName = "train"
    reply = simulate(bench.engine, request(member, count=2))
    assert [p.message for p in reply.placements] == ["GangScheduling: 2 of 3 members of PodGroup train are there"] * 2
    reply = simulate(bench.engine, request(member, count=3))
    assert [p.node for p in reply.placements] == ["", "", ""]
    assert reply.placements[0].message.startswith("2 of 3 members of PodGroup train fit at the same time; m-2: 0/1")
    other = pod("there", {"cpu": "200m"}, node_name="a")
    bench.place(other)
    bench.engine.gangs.set_placed("default/there", "default/train")
    reply = simulate(bench.engine, request(member, count=2))
    assert [p.node for p in reply.placements] == ["a", "a"]
    small = gangs.PodGroup()
    small.metadata.name, small.metadata.namespace, small.spec.minMember = "train", "default", 2
    fresh = Bench(node("a", allocatable=ONE))
    reply = simulate(fresh.engine, request(member, count=3, pod_groups=[small.SerializeToString()]))
    assert [p.node for p in reply.placements] == ["a", "a", ""]
    assert not fresh.engine.gangs


def test_what_cannot_be_read_is_refused() -> None:
    bench = Bench(node("a"))
    with pytest.raises(errors.BadRequestError, match="serves default-scheduler"):
        simulate(bench.engine, request(pod(scheduler="other")))
    with pytest.raises(errors.BadRequestError, match="at most 5000"):
        simulate(bench.engine, request(pod(), count=5001))
    with pytest.raises(errors.BadRequestError, match="cannot be read"):
        simulate(bench.engine, native.SimulateRequest(pods=[native.SimulatedPods(pod=b"\xff")]))
