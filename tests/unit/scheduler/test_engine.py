from collections import Counter

import pytest

from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import WHOLE_DIAGNOSES
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.labels import from_map


def test_the_message_counts_each_node_once_by_its_first_refusal() -> None:
    bench = Bench(
        node("full-1"),
        node("full-2"),
        node("tainted", taints=["a=b:NoSchedule"], allocatable={"cpu": "1", "pods": "9"}),
    )
    bench.place(pod("x", {"cpu": "4"}, node_name="full-1"), pod("y", {"cpu": "4"}, node_name="full-2"))
    failed = bench.engine.decide(bench.info(pod(requests={"cpu": "2"})))
    assert isinstance(failed, Diagnosis)
    assert failed.message == ("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
    assert failed.counts == Counter({"Insufficient cpu": 2, "node(s) had untolerated taint(s)": 1})
    assert not failed.final


def test_no_nodes_at_all() -> None:
    failed = Bench().engine.decide(Bench().info(pod()))
    assert isinstance(failed, Diagnosis)
    assert failed.message == "no nodes available to schedule pods"


def test_pods_spread_and_are_counted_at_once() -> None:
    bench = Bench(*(node(f"n{index}") for index in range(4)))
    nodes = []
    for index in range(8):
        found = bench.engine.decide(bench.info(pod(f"p{index}", {"cpu": "1", "memory": "1Gi"})))
        assert isinstance(found, Placement)
        nodes.append(found.node)
    assert set(Counter(nodes).values()) == {2}


@pytest.mark.parametrize("labels", [{}, {"topology.kubernetes.io/zone": "a"}], ids=["no zones", "zones"])
def test_pods_of_a_controller_are_spread_over_hosts_one_after_the_other(labels: dict[str, str]) -> None:
    bench = Bench(node("roomy", labels=labels, allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"}), node("b"))
    bench.place(pod("busy", {"cpu": "2"}, node_name="b"))
    selector = from_map({"app": "web"})
    bench.table.workloads.set_owner("ReplicaSet", "default", "web", selector)
    nodes = []
    for index in range(6):
        made = pod(f"p{index}", {"cpu": "10m"}, labels={"app": "web"})
        made.metadata.ownerReferences.add(kind="ReplicaSet", name="web", uid="u", controller=True)
        found = bench.engine.decide(bench.info(made))
        assert isinstance(found, Placement)
        nodes.append(found.node)
    assert nodes.count("b") >= 2


def test_ties_are_drawn_by_the_seed_and_over_all_equals() -> None:
    def chosen() -> list[str]:
        bench = Bench(*(node(f"n{index}") for index in range(4)))
        found = []
        for index in range(40):
            info = bench.info(pod(f"p{index}", {"cpu": "1"}))
            decision = bench.engine.decide(info)
            assert isinstance(decision, Placement)
            assert decision.ties == 4
            bench.engine.forget(info)
            found.append(decision.node)
        return found

    assert chosen() == chosen()
    assert len(set(chosen())) == 4


def test_pods_that_fail_alike_share_one_diagnosis_and_old_ones_are_thinned() -> None:
    bench = Bench(node("a"))
    first = bench.engine.decide(bench.info(pod("p", {"cpu": "9"})))
    second = bench.engine.decide(bench.info(pod("q", {"cpu": "9"})))
    assert first is second
    assert isinstance(first, Diagnosis)
    for index in range(WHOLE_DIAGNOSES):
        bench.engine.decide(bench.info(pod("r", {"cpu": f"{10 + index}"})))
    assert first.codes is None
    assert first.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_states_of_kinds_long_gone_are_dropped() -> None:
    bench = Bench(node("a"))
    bench.engine._states.clear()
    import controlplane.scheduler.engine as module

    limit = max(4, module.CELLS // bench.table.size)
    assert limit * bench.table.size <= module.CELLS
