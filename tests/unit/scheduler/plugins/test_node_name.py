from controlplane.scheduler.framework import Code
from tests.unit.scheduler.builders import Bench, node, pod


def test_only_the_named_node_is_left() -> None:
    bench = Bench(node("a"), node("b"))
    refusals = bench.refusals(pod(node_name="b"), "NodeName")
    assert set(refusals) == {"a"}
    assert refusals["a"].code is Code.UNRESOLVABLE
    assert bench.details(pod(node_name="b"), "NodeName") == {"a": "the pod names b"}


def test_a_pod_without_a_name_costs_nothing() -> None:
    assert "NodeName" not in [column.filter.plugin for column in Bench(node("a")).state(pod()).filters]


def test_a_named_node_that_comes_later_passes() -> None:
    bench = Bench(node("a"))
    assert bench.feasible(pod(node_name="b")) == set()
    bench.set_node(node("b"))
    assert bench.feasible(pod(node_name="b")) == {"b"}
