import pytest

from controlplane.scheduler.framework import Code
from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import Bench, node, pod

PLUGIN = "NodeResourcesFit"


def test_what_is_short_is_said_with_numbers() -> None:
    bench = Bench(node("a"), node("b", allocatable={"cpu": "1", "memory": "8Gi", "pods": "110"}))
    bench.place(pod("big", {"cpu": "2500m"}, node_name="a"))
    asked = pod(requests={"cpu": "2"})
    refusals = bench.refusals(asked, PLUGIN)
    assert {name: (r.code, r.reasons) for name, r in refusals.items()} == {
        "a": (Code.UNSCHEDULABLE, ("Insufficient cpu",)),
        "b": (Code.UNRESOLVABLE, ("Insufficient cpu",)),
    }
    assert bench.details(asked, PLUGIN) == {
        "a": "needs 2 cpu, 1.5 free of 4",
        "b": "needs 2 cpu, 1 free of 1",
    }
    assert bench.changes(asked, PLUGIN, "a") == ["free 500m cpu on a"]
    assert bench.changes(asked, PLUGIN, "b") == ["request at most 1 cpu"]


def test_a_request_larger_than_the_node_is_to_shrink_to_what_is_free() -> None:
    bench = Bench(node("a"), node("full"))
    bench.place(pod("some", {"cpu": "2500m"}, node_name="a"))
    bench.place(pod("all", {"cpu": "4"}, node_name="full"))
    asked = pod(requests={"cpu": "9"})
    assert bench.changes(asked, PLUGIN, "a") == ["request at most 1500m cpu"]
    assert bench.changes(asked, PLUGIN, "full") == ["do not request cpu"]


def test_exactly_free_fits_and_one_more_does_not() -> None:
    bench = Bench(node("a"))
    bench.place(pod("half", {"memory": "4Gi"}, node_name="a"))
    assert bench.feasible(pod(requests={"memory": "4Gi"})) == {"a"}
    one_more = pod(requests={"memory": str(4 * 2**30 + 1)})
    assert bench.feasible(one_more) == set()
    assert bench.details(one_more, PLUGIN)["a"] == "needs 4294967297 memory, 4294967296 free of 8589934592"


def test_pods_are_counted_even_if_they_request_nothing() -> None:
    bench = Bench(node("a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "1"}))
    bench.place(pod("first", node_name="a"))
    refusal = bench.refusals(pod(), PLUGIN)["a"]
    assert (refusal.code, refusal.reasons) == (Code.UNSCHEDULABLE, ("Too many pods",))
    assert bench.details(pod(), PLUGIN) == {"a": "has 1 pods, allows 1"}


def test_extended_resources_that_no_node_has() -> None:
    bench = Bench(node("a"))
    asked = pod(requests={"example.com/gpu": "1"})
    assert bench.refusals(asked, PLUGIN)["a"].reasons == ("Insufficient example.com/gpu",)
    bench.set_node(node("gpu", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9", "example.com/gpu": "2"}))
    assert bench.feasible(asked) == {"gpu"}


def test_init_containers_count_with_their_peak_and_overhead_on_top() -> None:
    bench = Bench(node("a"))
    asked = pod(requests={"cpu": "1"})
    asked.spec.initContainers.add(name="init").resources.requests["cpu"].string = "3"
    asked.spec.overhead["cpu"].string = "1"
    assert bench.feasible(asked) == {"a"}
    asked.spec.overhead["cpu"].string = "1001m"
    assert bench.feasible(asked) == set()


def test_the_emptiest_node_scores_best_by_default() -> None:
    bench = Bench(node("empty"), node("half"))
    bench.place(pod("big", {"cpu": "2", "memory": "4Gi"}, node_name="half"))
    raw, _ = bench.scores(pod(requests={"cpu": "1", "memory": "2Gi"}), PLUGIN)
    assert raw == {"empty": 75, "half": 25}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type": "MostAllocated"}, {"empty": 25, "half": 75}),
        (
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            },
            {"empty": 25, "half": 75},
        ),
    ],
)
def test_other_strategies(strategy: dict[str, object], expected: dict[str, int]) -> None:
    profile = Profile(arguments={PLUGIN: {"scoringStrategy": strategy}})
    bench = Bench(node("empty"), node("half"), profile=profile)
    bench.place(pod("big", {"cpu": "2", "memory": "4Gi"}, node_name="half"))
    assert bench.scores(pod(requests={"cpu": "1", "memory": "2Gi"}), PLUGIN)[0] == expected


def test_ignored_resources_are_left_to_others() -> None:
    asked = pod(requests={"example.com/gpu": "1"})
    for arguments in ({"ignoredResources": ["example.com/gpu"]}, {"ignoredResourceGroups": ["example.com"]}):
        bench = Bench(node("a"), profile=Profile(arguments={PLUGIN: arguments}))
        assert bench.feasible(asked) == {"a"}


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"scoringStrategy\.type"):
        Profile(arguments={PLUGIN: {"scoringStrategy": {"type": "Random"}}})
