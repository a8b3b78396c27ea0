"""Roll-outs, step by step, against ReplicaSets that obey."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers import deployment_plan as plan
from controlplane.controllers import deployment_status as telling
from controlplane.controllers.objects import condition_of
from wharfinger.api.types import apps, intstr

NOW = 1_000_000.0


def deployment(
    replicas: int = 3, *, surge: int | str = "25%", unavailable: int | str = "25%", image: str = "v1"
) -> apps.Deployment:
    obj = apps.Deployment()
    metadata = obj.metadata
    metadata.name, metadata.namespace, metadata.uid, metadata.generation = "web", "default", "uid-web", 1
    spec = obj.spec
    spec.replicas = replicas
    spec.progressDeadlineSeconds = 600
    spec.selector.matchLabels["app"] = "web"
    spec.template.metadata.labels["app"] = "web"
    spec.template.spec.containers.add(name="c", image=image)
    spec.strategy.type = "RollingUpdate"
    for field, value in (("maxSurge", surge), ("maxUnavailable", unavailable)):
        number = (
            intstr.IntOrString(type=0, intVal=value)
            if isinstance(value, int)
            else intstr.IntOrString(type=1, strVal=value)
        )
        getattr(spec.strategy.rollingUpdate, field).CopyFrom(number)
    return obj


class Cluster:
    """ReplicaSets that make their pods in steps of their own."""

    def __init__(self, obj: apps.Deployment, seed: int = 1) -> None:
        self.deployment = obj
        self.sets: list[apps.ReplicaSet] = []
        self.random = random.Random(seed)
        self.broken: set[str] = set()
        self.now = NOW

    def family(self) -> plan.Family:
        return plan.sort_out(self.deployment, self.sets)

    def pods(self) -> int:
        return sum(item.status.replicas for item in self.sets)

    def available(self) -> int:
        return sum(item.status.availableReplicas for item in self.sets)

    def obey(self) -> None:
        """Let each ReplicaSet come a bit nearer to its size."""
        for item in self.sets:
            status = item.status
            if status.replicas > item.spec.replicas:
                status.replicas = item.spec.replicas
                status.availableReplicas = min(status.availableReplicas, status.replicas)
            status.replicas = item.spec.replicas
            if item.metadata.name not in self.broken and status.availableReplicas < status.replicas:
                status.availableReplicas += self.random.randint(0, status.replicas - status.availableReplicas)
            status.readyReplicas = status.availableReplicas

    def step(self) -> None:
        """One sync of the controller."""
        family = self.family()
        if plan.needs_scaling(family):
            self.apply(plan.plan_scaling(family))
        elif family.new is None:
            made = plan.new_replicaset(family)
            made.metadata.creationTimestamp.seconds = int(self.now)
            self.now += 1
            self.sets.append(made)
        else:
            plan.annotate_new(family.new, family)
            self.apply(plan.plan_rolling(family))
        status = telling.plan_status(self.family(), now=self.now)
        telling.judge_progress(self.family(), status, now=self.now)
        self.deployment.status.CopyFrom(status)

    def apply(self, scales: list[plan.Scale]) -> None:
        for scale in scales:
            scale.replicaset.CopyFrom(plan.resized(scale.replicaset, self.deployment, scale.replicas))

    def settle(self, steps: int = 300) -> None:
        surge, unavailable = plan.bounds(self.deployment)
        target = plan.wanted(self.deployment)
        enough = self.available() >= target - unavailable
        for _ in range(steps):
            self.step()
            self.obey()
            if enough:
                assert self.available() >= target - unavailable
                assert sum(item.spec.replicas for item in self.sets) <= target + surge
            enough = enough or self.available() >= target - unavailable
            self.step()
            if self.done():
                return

    def done(self) -> bool:
        return telling.is_complete(self.deployment, self.deployment.status)

    def roll(self, image: str) -> None:
        self.deployment.spec.template.spec.containers[0].image = image
        self.deployment.metadata.generation += 1

    def sizes(self) -> list[int]:
        return [item.spec.replicas for item in self.sets]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (4, "25%", "25%", (1, 1)),
        (3, "25%", "25%", (1, 0)),
        (10, "25%", "25%", (3, 2)),
        (3, 0, "10%", (0, 1)),
        (2, 5, 9, (5, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_bounds(replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]) -> None:
    assert plan.bounds(deployment(replicas, surge=surge, unavailable=unavailable)) == expected


def test_first_rollout_makes_one_set_of_the_whole_size() -> None:
    cluster = Cluster(deployment(3))
    cluster.settle()
    assert cluster.done()
    (only,) = cluster.sets
    assert only.spec.replicas == 3
    assert only.metadata.name.startswith("web-")
    suffix = only.metadata.labels[plan.HASH_LABEL]
    assert (
        only.spec.selector.matchLabels[plan.HASH_LABEL] == suffix == only.spec.template.metadata.labels[plan.HASH_LABEL]
    )
    assert only.metadata.annotations[plan.REVISION] == "1"
    progressing = condition_of(cluster.deployment.status.conditions, "Progressing")
    assert progressing is not None
    assert progressing.reason == "NewReplicaSetAvailable"


SHARES = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda number: f"{number}%"))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 20), SHARES, SHARES, st.integers(0, 1000))
def test_a_rolling_update_keeps_to_its_bounds_and_ends(
    replicas: int, surge: int | str, unavailable: int | str, seed: int
) -> None:
    cluster = Cluster(deployment(replicas, surge=surge, unavailable=unavailable), seed)
    cluster.settle()
    assert cluster.done()
    cluster.roll("v2")
    cluster.settle()
    assert cluster.done()
    assert cluster.sizes() == [0, replicas]


def test_going_back_reuses_the_old_set_with_a_new_revision() -> None:
    cluster = Cluster(deployment(4))
    cluster.settle()
    cluster.roll("v2")
    cluster.settle()
    cluster.roll("v1")
    cluster.settle()
    assert cluster.sizes() == [4, 0]
    first = cluster.sets[0].metadata.annotations
    assert (first[plan.REVISION], first[plan.REVISION_HISTORY]) == ("3", "1")
    assert cluster.sets[1].metadata.annotations[plan.REVISION] == "2"


def test_a_revision_that_never_becomes_available_stops_and_times_out() -> None:
    cluster = Cluster(deployment(4, surge=1, unavailable=1))
    cluster.settle()
    cluster.roll("broken")
    cluster.step()
    cluster.broken.add(cluster.sets[-1].metadata.name)
    for _ in range(20):
        cluster.step()
        cluster.obey()
    assert cluster.available() == 3
    assert sum(cluster.sizes()) == 5
    cluster.now += 700
    cluster.step()
    progressing = condition_of(cluster.deployment.status.conditions, "Progressing")
    assert progressing is not None
    assert (progressing.status, progressing.reason) == ("False", "ProgressDeadlineExceeded")
    cluster.roll("v1")  # and back
    cluster.settle()
    assert cluster.done()


def test_unavailable_old_pods_go_first() -> None:
    cluster = Cluster(deployment(4, surge=0, unavailable=1))
    cluster.settle()
    cluster.sets[0].status.availableReplicas = 2
    cluster.roll("v2")
    cluster.step()
    cluster.step()
    assert cluster.sizes() == [3, 0]  # one of the two that nobody misses: three must stay wanted
    cluster.step()
    assert cluster.sizes() == [3, 1]
    cluster.settle()
    assert cluster.sizes() == [0, 4]


def test_scaling_amid_a_rollout_is_in_proportion() -> None:
    cluster = Cluster(deployment(10, surge=3, unavailable=2))
    cluster.settle()
    cluster.roll("v2")
    cluster.step()
    cluster.apply([plan.Scale(cluster.sets[0], 8), plan.Scale(cluster.sets[1], 5)])
    cluster.broken.add(cluster.sets[1].metadata.name)
    cluster.obey()
    cluster.deployment.spec.replicas = 15
    assert plan.needs_scaling(cluster.family())
    cluster.step()
    assert sum(cluster.sizes()) == 18
    assert cluster.sizes() == [11, 7]


def test_scaling_to_nothing_and_back() -> None:
    cluster = Cluster(deployment(5))
    cluster.settle()
    cluster.deployment.spec.replicas = 0
    cluster.settle()
    assert cluster.sizes() == [0]
    cluster.deployment.spec.replicas = 2
    cluster.settle()
    assert cluster.sizes() == [2]


def test_old_revisions_beyond_the_limit_are_surplus() -> None:
    cluster = Cluster(deployment(1))
    cluster.deployment.spec.revisionHistoryLimit = 2
    for image in ("a", "b", "c", "d", "e"):
        cluster.roll(image)
        cluster.settle()
    family = cluster.family()
    assert [plan.revision_of(item) for item in plan.surplus_history(family)] == [1, 2]
    family.old[0].status.replicas = 1
    assert [plan.revision_of(item) for item in plan.surplus_history(family)] == [2]


def test_recreate_waits_for_nothing_but_its_number() -> None:
    obj = deployment(3)
    obj.spec.strategy.type = "Recreate"
    assert plan.bounds(obj) == (0, 0)
    made = plan.new_replicaset(plan.Family(obj, None))
    assert made.spec.replicas == 3


def test_hashes_tell_templates_apart_and_collisions_change_them() -> None:
    one, two = deployment(image="a").spec.template, deployment(image="b").spec.template
    assert plan.template_hash(one, 0) != plan.template_hash(two, 0)
    assert plan.template_hash(one, 0) == plan.template_hash(deployment(image="a").spec.template, 0)
    assert plan.template_hash(one, 0) != plan.template_hash(one, 1)
    assert len(plan.template_hash(one, 0)) == 10


def test_annotations_are_passed_on_but_not_those_of_the_machinery() -> None:
    obj = deployment()
    obj.metadata.annotations.update({"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
    made = plan.new_replicaset(plan.Family(obj, None))
    assert made.metadata.annotations["team"] == "a"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in made.metadata.annotations


def test_a_failure_of_the_replicaset_is_the_deployments() -> None:
    cluster = Cluster(deployment(1))
    cluster.step()
    cluster.sets[0].status.conditions.add(type="ReplicaFailure", status="True", reason="FailedCreate", message="quota")
    cluster.step()
    failure = condition_of(cluster.deployment.status.conditions, "ReplicaFailure")
    assert failure is not None
    assert failure.message == "quota"
    del cluster.sets[0].status.conditions[:]
    cluster.step()
    assert condition_of(cluster.deployment.status.conditions, "ReplicaFailure") is None
