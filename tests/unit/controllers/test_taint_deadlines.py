"""The timetable of evictions."""

import math

from controlplane.controllers.node_taints import NOT_READY, UNREACHABLE
from controlplane.controllers.taint_deadlines import TaintDeadlines
from tests.unit.controllers.builders import pod
from wharfinger.api.types import core


def taint(key: str, value: str = "", effect: str = "NoExecute") -> core.Taint:
    return core.Taint(key=key, value=value, effect=effect)


def names(table: TaintDeadlines, now: float) -> list[str]:
    return sorted(item.pod.partition("/")[2] for item in table.due(now))


def test_a_pod_without_toleration_goes_at_once_and_one_that_tolerates_stays() -> None:
    table = TaintDeadlines()
    pods = [
        pod("none", node="n1"),
        pod("for-ever", node="n1", tolerations=((UNREACHABLE, None),)),
        pod("a-while", node="n1", tolerations=((UNREACHABLE, 300),)),
        pod("never", node="n1", tolerations=((UNREACHABLE, -1),)),
    ]
    table.observe_node("n1", [taint(UNREACHABLE)], pods, 100.0)
    assert names(table, 100.0) == ["never", "none"]
    assert table.next_deadline() == 400.0
    assert names(table, 399.9) == []
    assert names(table, 400.0) == ["a-while"]
    assert table.next_deadline() == math.inf


def test_taints_without_noexecute_evict_nobody() -> None:
    table = TaintDeadlines()
    table.observe_node(
        "n1", [taint("a", effect="NoSchedule"), taint("b", effect="PreferNoSchedule")], [pod(node="n1")], 0.0
    )
    assert table.due(math.inf) == []


def test_a_taint_that_goes_in_time_cancels() -> None:
    table = TaintDeadlines()
    one = pod(node="n1", tolerations=((UNREACHABLE, 300),))
    table.observe_node("n1", [taint(UNREACHABLE)], [one], 0.0)
    assert table.observe_node("n1", [], [], 200.0) is True
    assert table.due(math.inf) == []
    table.observe_node("n1", [taint(UNREACHABLE)], [one], 250.0)
    assert table.next_deadline() == 550.0


def test_not_ready_and_unreachable_are_one_and_keep_the_time() -> None:
    table = TaintDeadlines()
    one = pod(node="n1", tolerations=((UNREACHABLE, 300), (NOT_READY, 300)))
    table.observe_node("n1", [taint(NOT_READY)], [one], 0.0)
    table.observe_node("n1", [taint(UNREACHABLE)], [one], 200.0)
    assert table.next_deadline() == 300.0


def test_each_taint_has_its_own_time() -> None:
    table = TaintDeadlines()
    one = pod(node="n1", tolerations=(("a", 300), ("b", 10)))
    table.observe_node("n1", [taint("a")], [one], 0.0)
    table.observe_node("n1", [taint("a"), taint("b")], [one], 100.0)
    assert table.next_deadline() == 110.0
    table.observe_node("n1", [taint("a")], [one], 105.0)
    assert table.next_deadline() == 300.0


def test_a_pod_that_comes_later_has_the_whole_time() -> None:
    table = TaintDeadlines()
    table.observe_node("n1", [taint("a")], [], 0.0)
    table.observe_pod(pod("late", node="n1", tolerations=(("a", 60),)), 100.0)
    table.observe_pod(pod("elsewhere", node="n2"), 100.0)
    assert table.next_deadline() == 160.0
    table.observe_pod(pod("late", node="n1", tolerations=(("a", 60),)), 150.0)  # an update changes nothing
    assert table.next_deadline() == 160.0


def test_deleted_and_departed_pods_are_forgotten() -> None:
    table = TaintDeadlines()
    table.observe_node("n1", [taint("a")], [pod("p", node="n1", tolerations=(("a", 60),)), pod("q", node="n1")], 0.0)
    table.observe_pod(pod("p", node="n1", deleting=True), 1.0)
    table.forget_pod(pod("q", node="n1"))
    assert table.due(math.inf) == []


def test_restart_begins_every_time_anew() -> None:
    table = TaintDeadlines()
    table.observe_node("n1", [taint("a")], [pod("p", node="n1", tolerations=(("a", 60),))], 0.0)
    table.restart(59.0)
    assert table.due(100.0) == []
    assert table.next_deadline() == 119.0
    assert names(table, 119.0) == ["p"]


def test_what_could_not_be_done_is_due_again() -> None:
    table = TaintDeadlines()
    table.observe_node("n1", [taint("a")], [pod("p", node="n1")], 0.0)
    (eviction,) = table.due(0.0)
    assert table.due(50.0) == []
    table.retry(eviction, 51.0)
    assert names(table, 51.0) == ["p"]
    table.observe_node("n1", [], [], 52.0)
    table.retry(eviction, 53.0)
    assert table.due(math.inf) == []


def test_a_pod_made_anew_under_the_name_has_a_time_of_its_own() -> None:
    table = TaintDeadlines()
    table.observe_node("n1", [taint("a")], [pod("p", node="n1", tolerations=(("a", 60),))], 0.0)
    again = pod("p", node="n1", tolerations=(("a", 60),))
    again.metadata.uid = "another"
    table.observe_pod(again, 50.0)
    assert table.next_deadline() == 110.0


def test_values_tell_taints_apart() -> None:
    table = TaintDeadlines()
    one = pod(node="n1")
    one.spec.tolerations.add(key="a", operator="Equal", value="x", effect="NoExecute", tolerationSeconds=60)
    table.observe_node("n1", [taint("a", "x")], [one], 0.0)
    assert table.next_deadline() == 60.0
    table.observe_node("n1", [taint("a", "y")], [one], 1.0)
    (eviction,) = table.due(1.0)
    assert eviction.taint == "a=y:NoExecute"
