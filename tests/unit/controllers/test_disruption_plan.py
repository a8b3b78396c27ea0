"""What budgets allow."""

from __future__ import annotations

import pytest

from controlplane.controllers.disruption_plan import (
    DELETION_SECONDS,
    Evicted,
    Size,
    UnknownScaleError,
    expected_pods,
    failed_status,
    plan_status,
    same_status,
)
from tests.unit.controllers.builders import pod
from wharfinger.api.types import core, intstr, meta, policy


def number(value: int | str) -> intstr.IntOrString:
    return (
        intstr.IntOrString(type=0, intVal=value) if isinstance(value, int) else intstr.IntOrString(type=1, strVal=value)
    )


def budget(*, least: int | str | None = None, most: int | str | None = None) -> policy.PodDisruptionBudget:
    obj = policy.PodDisruptionBudget()
    obj.metadata.name, obj.metadata.uid, obj.metadata.generation = "b", "uid-b", 3
    if least is not None:
        obj.spec.minAvailable.CopyFrom(number(least))
    if most is not None:
        obj.spec.maxUnavailable.CopyFrom(number(most))
    return obj


PODS = [pod(f"p{i}", owner="u", ready=5) for i in range(4)]
SIZES = {item.metadata.uid: Size("u", 7) for item in PODS}


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (2, None, (4, 2)),
        ("50%", None, (7, 4)),
        (None, 1, (7, 6)),
        (None, "30%", (7, 4)),
        (None, 9, (7, 0)),
        ("100%", None, (7, 7)),
    ],
)
def test_expectations(least: int | str | None, most: int | str | None, expected: tuple[int, int]) -> None:
    assert expected_pods(budget(least=least, most=most), PODS, SIZES) == expected


def test_pods_without_controller_do_not_count_and_unknown_ones_are_an_error() -> None:
    assert expected_pods(budget(most=1), [*PODS, pod("alone", ready=5)], SIZES) == (7, 6)
    with pytest.raises(UnknownScaleError, match="web"):
        expected_pods(budget(most=1), PODS, {})
    assert expected_pods(budget(least=1), PODS, {}) == (4, 1)


def allowed(
    pods: list[core.Pod], *, expected: int = 4, desired: int = 2, pending: dict[str, meta.Time] | None = None
) -> int:
    status = plan_status(budget(least=desired), pods, expected=expected, desired=desired, pending=pending or {})
    return int(status.disruptionsAllowed)


def test_what_is_allowed() -> None:
    assert allowed(PODS) == 2
    assert allowed([*PODS[:2], pod("x"), pod("y")]) == 0
    assert allowed([*PODS[:3], pod("z", ready=5, deleting=True)]) == 1
    assert allowed(PODS, pending={"p0": meta.Time(seconds=1)}) == 1
    assert allowed(PODS[:1]) == 0
    assert allowed(PODS, expected=0, desired=0) == 0


def test_granted_evictions_are_awaited_for_a_while() -> None:
    evicted, obj = Evicted(), budget(least=1)
    for name in ("p0", "p1", "gone"):
        obj.status.disruptedPods[name].seconds = 1
    pods = {"p0": PODS[0], "p1": pod("p1", deleting=True)}
    left, stayed, again = evicted.pending(obj, pods, 100.0)
    assert (set(left), stayed, again) == ({"p0"}, [], DELETION_SECONDS)
    left, stayed, again = evicted.pending(obj, pods, 100.0 + DELETION_SECONDS)
    assert (left, stayed, again) == ({}, ["p0"], None)


def test_the_condition_tells_and_keeps_its_time() -> None:
    obj = budget(least=1)
    status = plan_status(obj, PODS, expected=4, desired=1, pending={})
    assert [(item.type, item.status, item.reason) for item in status.conditions] == [
        ("DisruptionAllowed", "True", "SufficientPods")
    ]
    obj.status.CopyFrom(status)
    obj.status.conditions[0].lastTransitionTime.seconds = 7
    again = plan_status(obj, PODS[:3], expected=4, desired=1, pending={})
    assert again.conditions[0].lastTransitionTime.seconds == 7
    assert not same_status(again, obj.status)
    assert same_status(plan_status(obj, PODS, expected=4, desired=1, pending={}), obj.status)


def test_what_cannot_be_worked_out_allows_nothing() -> None:
    obj = budget(most=1)
    obj.status.disruptionsAllowed = 5
    status = failed_status(obj, "because")
    assert status.disruptionsAllowed == 0
    assert (status.conditions[0].reason, status.conditions[0].message) == ("SyncFailed", "because")
    assert status.observedGeneration == 3
