import numpy as np

from controlplane.scheduler.framework import Aspect
from controlplane.scheduler.nodetable import CPU, PODS, NodeTable
from controlplane.scheduler.observed import ObservedNode
from controlplane.scheduler.podinfo import PodTable
from tests.unit.scheduler.builders import node, observed, pod


def usage(cpu: str = "1"):
    return PodTable().usage(pod(requests={"cpu": cpu}))


def test_pods_of_a_node_that_comes_later_are_counted() -> None:
    table = NodeTable()
    table.place("ns/a", "late", usage("1500m"))
    table.set_node(observed("late"))
    row = table.rows["late"]
    assert table.requested[CPU, row] == 1500
    assert table.requested[PODS, row] == 1


def test_a_node_that_goes_and_comes_back_still_has_its_pods() -> None:
    table = NodeTable()
    table.set_node(observed("a"))
    table.place("ns/a", "a", usage())
    assert table.remove_node("a")
    assert not table.alive.any()
    assert not table.requested.any()
    table.set_node(observed("a"))
    assert table.requested[CPU, table.rows["a"]] == 1000


def test_placing_again_changes_nothing_and_elsewhere_moves() -> None:
    table = NodeTable()
    table.set_node(observed("a"))
    table.set_node(observed("b"))
    taken = usage()
    assert table.place("ns/p", "a", taken)
    position = table.position
    assert not table.place("ns/p", "a", usage())
    assert table.position == position
    assert table.place("ns/p", "b", taken)
    assert table.requested[CPU, table.rows["a"]] == 0
    assert table.requested[CPU, table.rows["b"]] == 1000
    assert table.remove("ns/p") == "b"
    assert table.remove("ns/p") is None


def test_rows_are_used_again_and_columns_grow() -> None:
    table = NodeTable()
    for index in range(40):
        table.set_node(observed(f"n{index}"))
    assert table.size >= 40
    row = table.rows["n7"]
    table.remove_node("n7")
    table.set_node(observed("new"))
    assert table.rows["new"] == row
    assert len(table) == 40
    assert np.count_nonzero(table.alive) == 40


def test_a_heartbeat_changes_nothing() -> None:
    table = NodeTable()
    assert table.set_node(observed("a")) & Aspect.EXISTENCE
    beat = node("a")
    beat.status.conditions.add(type="Ready", status="True")
    assert table.set_node(ObservedNode.of(beat)) == 0


def test_what_changed_is_told() -> None:
    table = NodeTable()
    table.set_node(observed("a"))
    assert table.set_node(observed("a", labels={"x": "y"})) == Aspect.LABELS
    assert table.set_node(observed("a", labels={"x": "y"}, taints=["t=1:NoSchedule"])) == Aspect.TAINTS
    assert table.set_node(observed("a", allocatable={"cpu": "9"})) == Aspect.TAINTS | Aspect.LABELS | Aspect.ALLOCATABLE


def test_label_columns_follow_changes() -> None:
    table = NodeTable()
    table.set_node(observed("a", labels={"disk": "ssd"}))
    column = table.label("disk")
    assert column.values[column.ids[table.rows["a"]]] == "ssd"
    table.set_node(observed("b", labels={"disk": "hdd"}))
    assert column.values[column.ids[table.rows["b"]]] == "hdd"
    table.set_node(observed("a"))
    assert column.values[column.ids[table.rows["a"]]] is None


def test_changes_too_long_ago_are_not_known() -> None:
    table = NodeTable()
    table.set_node(observed("a"))
    taken = usage()
    for _ in range(20_000):
        table.place("ns/p", "a", taken)
        table.remove("ns/p")
    assert table.changes_since(0) is None
    assert table.changes_since(table.position) == ([], 0)
    assert table.changes_since(table.position - 2) == ([table.rows["a"]] * 2, Aspect.USAGE | Aspect.PEERS)
