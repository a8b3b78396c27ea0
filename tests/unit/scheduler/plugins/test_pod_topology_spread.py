"""Spreading over domains; the recorded decisions test the rules at large."""

from __future__ import annotations

from controlplane.scheduler.framework import Code
from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import Bench, node, pod, spread
from wharfinger.api import labels

NAME = "PodTopologySpread"
ZONES = (
    node("a1", labels={"zone": "a"}),
    node("a2", labels={"zone": "a"}),
    node("b1", labels={"zone": "b"}),
    node("c1"),
)
WEB = {"app": "web"}


def test_no_domain_gets_ahead_by_more_than_the_skew() -> None:
    bench = Bench(*ZONES)
    web = spread(pod(labels=WEB), "zone", WEB)
    assert bench.feasible(web) == {"a1", "a2", "b1"}
    bench.place(pod("w1", labels=WEB, node_name="a1"))
    assert bench.feasible(web) == {"b1"}
    refusals = bench.refusals(web, NAME)
    assert refusals["a2"].code is Code.UNSCHEDULABLE
    assert refusals["c1"].code is Code.UNRESOLVABLE
    details = bench.details(web, NAME)
    assert details["a2"] == "zone=a has 1 of such pods, the emptiest domain 0; at most 1 more are allowed"
    assert details["c1"] == "has no label zone, over which the pod must be spread"
    bench.place(pod("w2", labels=WEB, node_name="b1"))
    assert bench.feasible(web) == {"a1", "a2", "b1"}
    bench.table.remove_node("b1")
    assert bench.feasible(web) == {"a1", "a2"}, "a domain that is gone holds up nobody"


def test_pods_that_are_being_deleted_do_not_count() -> None:
    bench = Bench(*ZONES)
    leaving = pod("w1", labels=WEB, node_name="a1")
    leaving.metadata.deletionTimestamp.seconds = 1
    bench.place(leaving)
    assert bench.feasible(spread(pod(labels=WEB), "zone", WEB)) == {"a1", "a2", "b1"}


def test_nodes_that_the_pod_cannot_use_do_not_count_unless_it_says_so() -> None:
    bench = Bench(*ZONES)
    bench.place(pod("w1", labels=WEB, node_name="a1"))
    picky = pod(labels=WEB, selector={"zone": "a"})
    assert bench.feasible(spread(picky, "zone", WEB)) == {"a1", "a2"}
    strict = pod(labels=WEB, selector={"zone": "a"})
    assert bench.feasible(spread(strict, "zone", WEB, nodeAffinityPolicy="Ignore")) == set()


def test_labels_of_single_pods_count_once_a_selector_names_them() -> None:
    bench = Bench(*ZONES)
    index = "apps.kubernetes.io/pod-index"
    first, second = (bench.info(pod(f"p{n}", labels={**WEB, index: str(n)})) for n in range(2))
    assert first.cls is second.cls
    assert not bench.engine.pods.selecting
    bench.info(spread(pod(labels=WEB), "zone", {index: "1"}))
    assert bench.engine.pods.selecting == {index}
    first, second = (bench.info(pod(f"p{n}", labels={**WEB, index: str(n)})) for n in range(2))
    assert first.cls is not second.cls


def test_pods_of_a_service_are_spread_by_default() -> None:
    bench = Bench(*(node(f"n{n}", labels={"topology.kubernetes.io/zone": f"z{n}"}) for n in range(2)))
    web = pod(labels=WEB)
    bench.place(pod("w1", labels=WEB, node_name="n0"))
    assert bench.scores(web, NAME) == ({}, {})
    bench.table.workloads.set_service("default", "web", WEB)
    bench.table.basis += 1
    _, scaled = bench.scores(web, NAME)
    assert scaled["n1"] == 100 > scaled["n0"]


def test_default_constraints_of_the_profile() -> None:
    hard = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    profile = Profile(arguments={NAME: {"defaultingType": "List", "defaultConstraints": [hard]}})
    bench = Bench(*ZONES, profile=profile)
    bench.table.workloads.set_owner("ReplicaSet", "default", "web", labels.from_map(WEB))
    owned = pod(labels=WEB)
    owned.metadata.ownerReferences.add(kind="ReplicaSet", name="web", controller=True)
    bench.place(pod("w1", labels=WEB, node_name="a1"))
    assert bench.feasible(owned) == {"b1"}
    assert bench.feasible(pod(labels=WEB)) == {"a1", "a2", "b1", "c1"}, "nobody owns it"
