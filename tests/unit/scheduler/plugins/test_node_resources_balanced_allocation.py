from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import Bench, node, pod

PLUGIN = "NodeResourcesBalancedAllocation"


def test_a_pod_that_restores_balance_scores_above_75_and_one_that_breaks_it_below() -> None:
    bench = Bench(node("even"), node("cpu-heavy"))
    bench.place(pod("p", {"cpu": "3"}, node_name="cpu-heavy"))
    raw, _ = bench.scores(pod(requests={"memory": "4Gi"}), PLUGIN)
    assert raw["cpu-heavy"] > 75 > raw["even"]
    raw, _ = bench.scores(pod(requests={"cpu": "1", "memory": "2Gi"}), PLUGIN)
    assert raw["even"] == 75


def test_pods_that_request_nothing_are_left_out() -> None:
    assert Bench(node("a")).scores(pod(), PLUGIN) == ({}, {})


def test_more_than_two_resources() -> None:
    resources = [{"name": "cpu"}, {"name": "memory"}, {"name": "example.com/gpu"}]
    profile = Profile(arguments={PLUGIN: {"resources": resources}})
    room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    bench = Bench(
        node("plain", allocatable=room), node("gpu", allocatable={**room, "example.com/gpu": "4"}), profile=profile
    )
    asked = pod(requests={"cpu": "1", "memory": "2Gi", "example.com/gpu": "1"})
    raw, _ = bench.scores(asked, PLUGIN)
    assert raw == {"plain": 75, "gpu": 75}
