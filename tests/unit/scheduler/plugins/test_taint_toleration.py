import pytest

from controlplane.scheduler.framework import Code
from tests.unit.scheduler.builders import Bench, node, pod, tolerate


def test_untolerated_taints_refuse() -> None:
    bench = Bench(node("a", taints=["dedicated=gpu:NoSchedule"]), node("b", taints=["x=y:NoExecute"]), node("c"))
    refusals = bench.refusals(pod(), "TaintToleration")
    assert set(refusals) == {"a", "b"}
    assert refusals["a"].code is Code.UNRESOLVABLE
    assert refusals["a"].reasons == ("node(s) had untolerated taint(s)",)
    assert bench.details(pod(), "TaintToleration")["a"] == "untolerated dedicated=gpu:NoSchedule"
    assert bench.changes(pod(), "TaintToleration", "a") == ["add toleration dedicated=gpu:NoSchedule"]


@pytest.mark.parametrize(
    ("key", "value", "effect", "operator", "passes"),
    [
        ("dedicated", "gpu", "NoSchedule", "Equal", True),
        ("dedicated", "gpu", "", "Equal", True),
        ("dedicated", "", "NoSchedule", "Exists", True),
        ("", "", "", "Exists", True),
        ("dedicated", "cpu", "NoSchedule", "Equal", False),
        ("dedicated", "gpu", "NoExecute", "Equal", False),
        ("other", "gpu", "NoSchedule", "Equal", False),
    ],
)
def test_what_tolerates(key: str, value: str, effect: str, operator: str, passes: bool) -> None:
    bench = Bench(node("a", taints=["dedicated=gpu:NoSchedule"]))
    asked = tolerate(pod(), key, value, effect=effect, operator=operator)
    assert (bench.feasible(asked) == {"a"}) is passes


def test_soft_taints_only_cost_score() -> None:
    soft = ["a=1:PreferNoSchedule", "b=1:PreferNoSchedule"]
    bench = Bench(node("clean"), node("one", taints=soft[:1]), node("two", taints=soft))
    assert bench.feasible(pod()) == {"clean", "one", "two"}
    assert bench.scores(pod(), "TaintToleration") == (
        {"clean": 0, "one": 1, "two": 2},
        {"clean": 100, "one": 50, "two": 0},
    )


def test_normalising_looks_at_feasible_nodes_only() -> None:
    soft = ["a=1:PreferNoSchedule", "b=1:PreferNoSchedule"]
    bench = Bench(node("clean"), node("one", taints=soft[:1]), node("two", taints=soft, unschedulable=True))
    assert bench.scores(pod(), "TaintToleration")[1]["one"] == 0
