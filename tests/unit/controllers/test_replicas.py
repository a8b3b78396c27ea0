"""Claims, numbers, victims and status of a ReplicaSet's pods."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.objects import is_active
from controlplane.controllers.replicas import (
    BURST,
    REJECTION_MAX,
    RejectionBackoff,
    batches,
    claim,
    deletion_cost,
    next_available_in,
    plan_replicas,
    plan_status,
    pod_name_prefix,
    rejected_by_node,
    same_status,
    sorted_for_deletion,
)
from tests.unit.controllers.builders import pod, replicaset
from wharfinger.api import labels
from wharfinger.api.types import core

UID = "uid-web"
SELECTOR = labels.from_map({"app": "web"})
NOW = 1_000_000.0


def verdict(obj: core.Pod, *, deleting: bool = False) -> str:
    return claim(obj, owner_uid=UID, owner_deleting=deleting, selector=SELECTOR)


def test_claims() -> None:
    other = {"app": "db"}
    assert verdict(pod(owner=UID)) == "ours"
    assert verdict(pod(owner=UID), deleting=True) == "ours"
    assert verdict(pod(owner=UID, labels=other)) == "release"
    assert verdict(pod(owner=UID, labels=other), deleting=True) == "no"
    assert verdict(pod(owner="somebody")) == "no"
    assert verdict(pod()) == "adopt"
    assert verdict(pod(), deleting=True) == "no"
    assert verdict(pod(deleting=True)) == "no"
    assert verdict(pod(labels=other)) == "no"


def test_numbers() -> None:
    pods = [pod("a"), pod("b", phase="Failed"), pod("c", phase="Succeeded"), pod("d", deleting=True)]
    assert plan_replicas(pods, wanted=3, now=NOW).create == 2
    assert not plan_replicas(pods, wanted=1, now=NOW).create
    assert [victim.metadata.name for victim in plan_replicas(pods, wanted=0, now=NOW).delete] == ["a"]
    assert plan_replicas([], wanted=5000, now=NOW).create == BURST
    assert len(plan_replicas([pod(str(i)) for i in range(900)], wanted=10, now=NOW).delete) == BURST


def first(*pods: core.Pod, related: list[core.Pod] | None = None) -> str:
    shuffled = random.Random(7).sample(pods, len(pods))
    return str(sorted_for_deletion(shuffled, related=related or list(pods), now=NOW)[0].metadata.name)


def test_victims_by_rank() -> None:
    old, young = int(NOW - 90_000), int(NOW - 60)
    good = pod("z", node="n", ready=old, created=old)
    assert first(good, pod("victim", ready=old, created=old)) == "victim"  # not placed
    assert first(good, pod("victim", node="m", phase="Pending", created=old)) == "victim"
    assert first(good, pod("victim", node="m", created=old)) == "victim"  # not ready
    assert first(good, pod("victim", node="m", ready=old, created=old, cost="-1")) == "victim"
    assert first(pod("z", node="n", ready=old, cost="5"), pod("victim", node="m", ready=old)) == "victim"
    assert first(good, pod("victim", node="m", ready=young, created=old)) == "victim"
    assert first(good, pod("victim", node="m", ready=old, created=old, restarts=3)) == "victim"
    assert first(good, pod("victim", node="m", ready=old, created=young)) == "victim"


def test_crowded_nodes_give_first_and_cost_comes_before_crowding() -> None:
    old = int(NOW - 90_000)
    alone = pod("alone", node="n", ready=old, created=old)
    crowd = [pod(f"crowd{i}", node="m", ready=old, created=old) for i in range(2)]
    assert first(alone, *crowd).startswith("crowd")
    cheap = pod("alone", node="n", ready=old, created=old, cost="-5")
    assert first(cheap, *crowd) == "alone"
    # Pods of a sibling (another revision of the same Deployment) count as the crowd too.
    siblings = [pod(f"s{i}", node="n", ready=old, owner="sibling") for i in range(3)]
    assert first(alone, pod("b", node="m", ready=old, created=old), related=[alone, *siblings]) == "alone"


def test_ages_of_one_magnitude_do_not_decide() -> None:
    a = pod("a", node="n", ready=int(NOW - 70), created=int(NOW - 70))
    b = pod("b", node="m", ready=int(NOW - 100), created=int(NOW - 100))
    a.metadata.uid, b.metadata.uid = "2", "1"
    assert first(a, b) == "b"


@pytest.mark.parametrize(
    ("text", "cost"), [("", 0), ("x", 0), ("1_0", 0), ("+5", 0), ("-7", -7), ("2147483648", 0), ("99", 99)]
)
def test_deletion_cost(text: str, cost: int) -> None:
    assert deletion_cost(pod(cost=text)) == cost


@given(st.lists(st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]), max_size=30), st.integers(0, 40))
def test_a_plan_leads_to_the_wanted_number(phases: list[str], wanted: int) -> None:
    pods = [pod(f"p{i}", phase=phase) for i, phase in enumerate(phases)]
    plan = plan_replicas(pods, wanted=wanted, now=NOW)
    active = sum(is_active(item) for item in pods)
    assert active + plan.create - len(plan.delete) == wanted
    assert all(is_active(item) for item in plan.delete)
    assert len({item.metadata.uid for item in plan.delete}) == len(plan.delete)


@given(st.integers(0, 2000))
def test_batches_double_and_add_up(count: int) -> None:
    sizes = list(batches(count))
    assert sum(sizes) == count
    assert all(size == 2**i for i, size in enumerate(sizes[:-1]))


def test_status() -> None:
    owner = replicaset(minimum=30)
    pods = [
        pod("a", ready=int(NOW - 100)),
        pod("b", ready=int(NOW - 10)),
        pod("c"),
    ]
    owner.spec.template.metadata.labels["extra"] = "1"
    pods[0].metadata.labels["extra"] = "1"
    status = plan_status(owner, pods, terminating=2, failure=None, now=NOW)
    assert (status.replicas, status.readyReplicas, status.availableReplicas) == (3, 2, 1)
    assert (status.fullyLabeledReplicas, status.observedGeneration, status.terminatingReplicas) == (1, 4, 2)
    assert next_available_in(pods, min_ready_seconds=30, now=NOW) == 20.0
    assert next_available_in(pods, min_ready_seconds=0, now=NOW) is None
    owner.status.CopyFrom(status)
    assert same_status(plan_status(owner, pods, terminating=2, failure=None, now=NOW + 1), owner.status)


def test_a_failure_is_told_and_taken_back() -> None:
    owner = replicaset()
    owner.status.conditions.add(type="Other", status="True")
    status = plan_status(owner, [], terminating=0, failure=("FailedCreate", "quota"), now=NOW)
    assert [(c.type, c.reason, c.message) for c in status.conditions][1] == ("ReplicaFailure", "FailedCreate", "quota")
    owner.status.CopyFrom(status)
    again = plan_status(owner, [], terminating=0, failure=("FailedCreate", "other"), now=NOW + 50)
    assert again.conditions[1].lastTransitionTime.seconds == NOW
    assert not same_status(again, owner.status)
    healed = plan_status(owner, [], terminating=0, failure=None, now=NOW)
    assert [c.type for c in healed.conditions] == ["Other"]


def test_refused_pods_are_told_from_pods_that_failed_or_were_evicted() -> None:
    assert rejected_by_node(pod(phase="Failed", reason="OutOfcpu"))
    assert rejected_by_node(pod(phase="Failed", reason="NodeAffinity"))
    assert not rejected_by_node(pod(phase="Failed", reason="Evicted"))
    assert not rejected_by_node(pod(phase="Failed"))
    assert not rejected_by_node(pod(phase="Failed", reason="OutOfcpu", restarts=1))
    assert not rejected_by_node(pod(phase="Running", reason="OutOfcpu"))


def test_each_refusal_makes_the_owner_wait_longer() -> None:
    backoff, now, waits = RejectionBackoff(), 0.0, []
    refused: list[core.Pod] = []
    for attempt in range(9):
        refused.append(pod(f"p{attempt}", phase="Failed", reason="OutOfcpu"))
        backoff.observe(refused, now)
        waits.append(backoff.remaining(now))
        now += backoff.remaining(now)
        backoff.observe(refused, now)
        assert backoff.remaining(now) == 0.0  # seen already
    assert waits == [1, 2, 4, 8, 16, 32, REJECTION_MAX, REJECTION_MAX, REJECTION_MAX]
    now += 3 * REJECTION_MAX
    backoff.observe([*refused, pod("later", phase="Failed", reason="OutOfcpu")], now)
    assert backoff.remaining(now) == 1.0


def test_many_refused_at_once_count_once() -> None:
    backoff = RejectionBackoff()
    backoff.observe([pod(f"p{i}", phase="Failed", reason="OutOfpods") for i in range(50)], 0.0)
    assert backoff.remaining(0.0) == 1.0


def test_names_of_pods() -> None:
    assert pod_name_prefix("web") == "web-"
    assert len(pod_name_prefix("x" * 253)) <= 247
