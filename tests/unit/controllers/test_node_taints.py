"""Taints by conditions."""

import pytest

from controlplane.controllers.node_taints import NOT_READY, UNREACHABLE, UNSCHEDULABLE, plan_taints
from tests.unit.controllers.builders import node
from wharfinger.api.types import core


def shown(taints: list[core.Taint]) -> set[str]:
    return {f"{taint.key}:{taint.effect}" for taint in taints}


@pytest.mark.parametrize(
    ("condition", "status", "key"),
    [
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
        ("NetworkUnavailable", "True", "network-unavailable"),
    ],
)
def test_pressure_keeps_pods_away(condition: str, status: str, key: str) -> None:
    obj = node()
    obj.status.conditions.add(type=condition, status=status)
    assert plan_taints(obj, may_execute=False).added == (f"node.kubernetes.io/{key}:NoSchedule",)


def test_a_silent_node_gets_its_evicting_taint_only_with_leave() -> None:
    plan = plan_taints(node(ready="Unknown"), may_execute=False)
    assert plan.added == (f"{UNREACHABLE}:NoSchedule",)
    assert plan.wants_no_execute == UNREACHABLE
    plan = plan_taints(node(ready="Unknown"), may_execute=True)
    assert set(plan.added) == {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}
    assert all(taint.timeAdded.seconds for taint in plan.taints)


def test_one_evicting_taint_replaces_the_other_without_leave() -> None:
    obj = node(ready="False", taints=((UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")))
    plan = plan_taints(obj, may_execute=False)
    assert shown(list(plan.taints)) == {f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"}


def test_a_healthy_node_loses_ours_and_keeps_the_users_taints() -> None:
    obj = node(
        taints=((NOT_READY, "NoExecute"), (NOT_READY, "NoSchedule"), ("dedicated", "NoSchedule"), ("mine", "NoExecute"))
    )
    plan = plan_taints(obj, may_execute=False)
    assert shown(list(plan.taints)) == {"dedicated:NoSchedule", "mine:NoExecute"}
    assert set(plan.removed) == {f"{NOT_READY}:NoExecute", f"{NOT_READY}:NoSchedule"}


def test_the_brake_takes_evicting_taints_off_and_leaves_the_others() -> None:
    obj = node(ready="Unknown", taints=((UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")))
    plan = plan_taints(obj, may_execute=True, suspended=True)
    assert shown(list(plan.taints)) == {f"{UNREACHABLE}:NoSchedule"}


def test_cordon_and_uncordon() -> None:
    obj = node()
    obj.spec.unschedulable = True
    plan = plan_taints(obj, may_execute=False)
    assert plan.added == (f"{UNSCHEDULABLE}:NoSchedule",)
    obj = node(taints=((UNSCHEDULABLE, "NoSchedule"),))
    assert plan_taints(obj, may_execute=False).removed == (f"{UNSCHEDULABLE}:NoSchedule",)


def test_a_node_in_step_is_left_alone() -> None:
    assert not plan_taints(node(), may_execute=True).changed
    assert not plan_taints(node(ready=""), may_execute=True).changed
