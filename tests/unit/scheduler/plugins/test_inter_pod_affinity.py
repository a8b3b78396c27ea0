"""Affinity and anti-affinity, both ways; the recorded decisions test the rules at large."""

from __future__ import annotations

from controlplane.scheduler.framework import Code
from tests.unit.scheduler.builders import Bench, affinity, node, pod
from wharfinger.api.types import core

NAME = "InterPodAffinity"
ZONES = (
    node("a1", labels={"zone": "a"}),
    node("a2", labels={"zone": "a"}),
    node("b1", labels={"zone": "b"}),
    node("c1"),
)


def near(target: core.Pod, app: str, key: str = "zone") -> core.Pod:
    terms = target.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
    affinity(terms.add(), key, {"app": app})
    return target


def apart(target: core.Pod, app: str, key: str = "zone") -> core.Pod:
    terms = target.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
    affinity(terms.add(), key, {"app": app})
    return target


def test_near_to_others_and_the_first_of_a_group() -> None:
    bench = Bench(*ZONES)
    assert bench.feasible(near(pod(), "db")) == set()
    assert bench.feasible(near(pod(labels={"app": "db"}), "db")) == {"a1", "a2", "b1"}, "the first may be anywhere"
    bench.place(pod("db", labels={"app": "db"}, node_name="a1"))
    assert bench.feasible(near(pod(), "db")) == {"a1", "a2"}
    details = bench.details(near(pod(), "db"), NAME)
    assert details["b1"] == "no pod that matches [app=db] in zone=b"
    assert details["c1"] == "has no label zone, which the pod's affinity needs"
    assert bench.refusals(near(pod(), "db"), NAME)["b1"].code is Code.UNRESOLVABLE


def test_apart_from_others_in_both_directions() -> None:
    bench = Bench(*ZONES)
    plain = pod(labels={"app": "web"})
    assert bench.feasible(plain) == {"a1", "a2", "b1", "c1"}
    bench.place(apart(pod("shy", labels={"app": "shy"}, node_name="a1"), "web"))
    assert bench.feasible(plain) == {"b1", "c1"}, "those that were not looked at before are seen"
    assert bench.details(plain, NAME)["a2"] == "default/shy does not want this pod near"
    assert bench.changes(plain, NAME, "a2") == ["remove default/shy (to fit on a2)"]
    assert bench.feasible(apart(pod(), "shy")) == {"b1", "c1"}
    assert bench.details(apart(pod(), "shy"), NAME)["a1"] == "default/shy in zone=a matches [app=shy]"
    bench.table.remove("default/shy")
    assert bench.feasible(plain) == {"a1", "a2", "b1", "c1"}


def test_namespaces_by_label_follow_the_namespace() -> None:
    bench = Bench(*ZONES)
    bench.place(pod("db", labels={"app": "db"}, namespace="other", node_name="a1"))
    wanting = pod()
    near(wanting, "db")
    term = wanting.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]
    term.namespaceSelector.matchLabels["team"] = "core"
    bench.table.set_namespace("other", {})
    assert bench.feasible(wanting) == set()
    bench.table.set_namespace("other", {"team": "core"})
    assert bench.feasible(wanting) == {"a1", "a2"}


def test_label_keys_are_merged_into_the_selector() -> None:
    bench = Bench(*ZONES)
    bench.place(pod("old", labels={"app": "web", "version": "1"}, node_name="a1"))
    new = apart(pod(labels={"app": "web", "version": "2"}), "web")
    new.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys.append("version")
    assert "a1" in bench.feasible(new)


def test_preferences_of_both_sides_add_up() -> None:
    bench = Bench(*ZONES)
    bench.place(near(pod("friend", labels={"app": "friend"}, node_name="b1"), "web"))
    web = pod(labels={"app": "web"})
    preferred = web.spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.add(weight=10)
    affinity(preferred.podAffinityTerm, "zone", {"app": "friend"})
    raw, scaled = bench.scores(web, NAME)
    assert raw == {"a1": 0, "a2": 0, "b1": 11, "c1": 0}
    assert scaled == {"a1": 0, "a2": 0, "b1": 100, "c1": 0}
