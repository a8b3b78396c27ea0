import pytest

from controlplane.scheduler.framework import Code
from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.types import core

PLUGIN = "NodeAffinity"


def requiring(*expressions: tuple[str, str, list[str]]) -> core.Pod:
    made = pod()
    required = made.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    term = required.nodeSelectorTerms.add()
    for key, operator, values in expressions:
        term.matchExpressions.add(key=key, operator=operator, values=values)
    return made


def test_a_node_selector_must_match() -> None:
    bench = Bench(node("ssd", labels={"disk": "ssd"}), node("hdd", labels={"disk": "hdd"}), node("none"))
    asked = pod(selector={"disk": "ssd"})
    refusals = bench.refusals(asked, PLUGIN)
    assert set(refusals) == {"hdd", "none"}
    assert refusals["hdd"].code is Code.UNRESOLVABLE
    assert bench.details(asked, PLUGIN) == {
        "hdd": "has disk=hdd, needs disk=ssd",
        "none": "has no label disk, needs disk=ssd",
    }
    assert bench.changes(asked, PLUGIN, "none") == ["label none disk=ssd"]
    bench.set_node(node("none", labels={"disk": "ssd"}))
    assert bench.feasible(asked) == {"ssd", "none"}


@pytest.mark.parametrize(
    ("operator", "values", "matching"),
    [
        ("In", ["1", "9"], {"one"}),
        ("NotIn", ["1"], {"five", "word", "none"}),
        ("Exists", [], {"one", "five", "word"}),
        ("DoesNotExist", [], {"none"}),
        ("Gt", ["1"], {"five"}),
        ("Lt", ["5"], {"one"}),
        ("Gt", ["x"], set()),
        ("In", [], set()),
    ],
)
def test_operators(operator: str, values: list[str], matching: set[str]) -> None:
    bench = Bench(
        node("one", labels={"n": "1"}), node("five", labels={"n": "5"}), node("word", labels={"n": "w"}), node("none")
    )
    assert bench.feasible(requiring(("n", operator, values))) == matching


def test_terms_are_alternatives_and_expressions_are_not() -> None:
    bench = Bench(node("ab", labels={"a": "1", "b": "1"}), node("a", labels={"a": "1"}), node("c", labels={"c": "1"}))
    asked = requiring(("a", "Exists", []), ("b", "Exists", []))
    assert bench.feasible(asked) == {"ab"}
    required = asked.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    required.nodeSelectorTerms.add().matchExpressions.add(key="c", operator="Exists")
    assert bench.feasible(asked) == {"ab", "c"}
    required.nodeSelectorTerms.add()  # matches nothing
    assert bench.feasible(asked) == {"ab", "c"}


def test_fields_name_nodes_and_terms_that_exclude_each_other_refuse_the_pod() -> None:
    bench = Bench(node("a"), node("b"))
    asked = pod()
    required = asked.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    term = required.nodeSelectorTerms.add()
    term.matchFields.add(key="metadata.name", operator="In", values=["b"])
    assert bench.feasible(asked) == {"b"}
    term.matchFields.add(key="metadata.name", operator="In", values=["a"])
    state = bench.state(asked)
    assert state.refusal is not None
    assert state.refusal.reasons == ("pod affinity terms conflict",)
    assert state.feasible_count == 0


def test_preferences_add_up_and_are_scaled_to_the_best() -> None:
    bench = Bench(node("ab", labels={"a": "1", "b": "1"}), node("b", labels={"b": "1"}), node("none"))
    asked = pod()
    preferred = asked.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution
    for weight, key in ((30, "a"), (10, "b")):
        preferred.add(weight=weight).preference.matchExpressions.add(key=key, operator="Exists")
    assert bench.scores(asked, PLUGIN) == ({"ab": 40, "b": 10, "none": 0}, {"ab": 100, "b": 25, "none": 0})


def test_added_affinity_holds_for_every_pod() -> None:
    added = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]}]
        }
    }
    profile = Profile(arguments={PLUGIN: {"addedAffinity": added}})
    bench = Bench(node("in", labels={"pool": "x"}), node("out"), profile=profile)
    assert bench.refusals(pod(), PLUGIN)["out"].reasons == ("node(s) didn't match scheduler-enforced node affinity",)
    assert bench.feasible(pod()) == {"in"}


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        Profile(arguments={PLUGIN: {"nonsense": 1}})
