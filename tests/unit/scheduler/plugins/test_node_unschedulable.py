from controlplane.scheduler.framework import Code
from tests.unit.scheduler.builders import Bench, node, pod, tolerate


def test_a_cordoned_node_is_refused_until_it_is_uncordoned() -> None:
    bench = Bench(node("a", unschedulable=True), node("b"))
    assert {name: r.code for name, r in bench.refusals(pod(), "NodeUnschedulable").items()} == {"a": Code.UNRESOLVABLE}
    assert bench.details(pod(), "NodeUnschedulable") == {"a": "is cordoned"}
    assert bench.changes(pod(), "NodeUnschedulable", "a") == ["uncordon a"]
    bench.set_node(node("a"))
    assert bench.feasible(pod()) == {"a", "b"}


def test_the_toleration_of_the_taint_is_enough() -> None:
    bench = Bench(node("a", unschedulable=True))
    daemon = tolerate(pod(), "node.kubernetes.io/unschedulable", effect="NoSchedule", operator="Exists")
    assert bench.refusals(daemon, "NodeUnschedulable") == {}
