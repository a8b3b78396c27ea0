"""How many of a budget's pods may be disrupted now: pure.

Source: "Specifying a Disruption Budget for your Application" in Kubernetes' documentation. An eviction that the
apiserver granted stands in ``status.disruptedPods`` until the pod is seen to go; if it has not gone after two minutes
of our own time, it counts as never evicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.controllers.objects import condition_of, controller_of, deleting, is_ready, wall_time
from wharfinger.api.types import core, intstr, meta, policy

DELETION_SECONDS = 120.0


class UnknownScaleError(Exception):
    """Raised when a budget in percent, or of unavailable pods, covers a pod whose controller's size is not known."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods a controller wants."""

    controller: str
    """Its uid: each controller counts once."""
    replicas: int


@dataclass(slots=True)
class Evicted:
    """When each granted eviction was first seen here, by budget and pod, in monotonic seconds."""

    since: dict[str, dict[str, float]] = field(default_factory=dict)

    def pending(
        self, budget: policy.PodDisruptionBudget, pods: Mapping[str, core.Pod], now: float
    ) -> tuple[dict[str, meta.Time], list[str], float | None]:
        """Return the evictions that are still to be carried out, the pods that stayed, and when to look again."""
        uid = budget.metadata.uid
        known, kept = self.since.get(uid, {}), dict[str, float]()
        left: dict[str, meta.Time] = {}
        stayed: list[str] = []
        for name, stamp in budget.status.disruptedPods.items():
            pod = pods.get(name)
            if pod is None or deleting(pod):
                continue
            began = kept[name] = known.get(name, now)
            if now - began >= DELETION_SECONDS:
                stayed.append(name)
                del kept[name]
            else:
                left[name] = stamp
        if kept:
            self.since[uid] = kept
        else:
            self.since.pop(uid, None)
        again = min((began + DELETION_SECONDS - now for began in kept.values()), default=None)
        return left, stayed, again

    def forget(self, uid: str) -> None:
        """Drop a budget."""
        self.since.pop(uid, None)


def needs_sizes(budget: policy.PodDisruptionBudget) -> bool:
    """Whether the budget is told in terms of what the pods' controllers want."""
    spec = budget.spec
    return spec.HasField("maxUnavailable") or (spec.HasField("minAvailable") and spec.minAvailable.type != 0)


def expected_pods(
    budget: policy.PodDisruptionBudget, pods: Sequence[core.Pod], sizes: Mapping[str, Size]
) -> tuple[int, int]:
    """Return (pods expected, pods that must stay healthy).

    `sizes` are of the pods' controllers, by uid of the pod; pods without a controller do not count. Raises
    UnknownScaleError.
    """
    spec = budget.spec
    if not needs_sizes(budget):
        minimum = spec.minAvailable.intVal if spec.HasField("minAvailable") else 0
        return len(pods), minimum
    wanted: dict[str, int] = {}
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            continue
        size = sizes.get(pod.metadata.uid)
        if size is None:
            who = f'{reference.kind} "{reference.name}"'
            raise UnknownScaleError(f'the size of {who}, which controls pod "{pod.metadata.name}", is not known')
        wanted[size.controller] = size.replicas
    expected = sum(wanted.values())
    if spec.HasField("maxUnavailable"):
        return expected, max(0, expected - _resolve(spec.maxUnavailable, expected))
    return expected, _resolve(spec.minAvailable, expected)


def _resolve(value: intstr.IntOrString, total: int) -> int:
    if value.type == 0:
        return value.intVal
    return math.ceil(int(value.strVal.removesuffix("%")) * total / 100)


def plan_status(
    budget: policy.PodDisruptionBudget,
    pods: Iterable[core.Pod],
    *,
    expected: int,
    desired: int,
    pending: Mapping[str, meta.Time],
) -> policy.PodDisruptionBudgetStatus:
    """Return the status that the budget ought to have."""
    healthy = sum(is_ready(pod) and not deleting(pod) and pod.metadata.name not in pending for pod in pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = policy.PodDisruptionBudgetStatus(
        observedGeneration=budget.metadata.generation,
        disruptionsAllowed=allowed,
        currentHealthy=healthy,
        desiredHealthy=desired,
        expectedPods=expected,
    )
    for name, stamp in pending.items():
        status.disruptedPods[name].CopyFrom(stamp)
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status.conditions.append(_condition(budget, "True" if allowed else "False", reason, ""))
    return status


def failed_status(budget: policy.PodDisruptionBudget, message: str) -> policy.PodDisruptionBudgetStatus:
    """Return the status when the budget cannot be worked out: nothing is allowed, and why."""
    status = policy.PodDisruptionBudgetStatus()
    status.CopyFrom(budget.status)
    status.observedGeneration, status.disruptionsAllowed = budget.metadata.generation, 0
    del status.conditions[:]
    status.conditions.append(_condition(budget, "False", "SyncFailed", message))
    return status


def _condition(budget: policy.PodDisruptionBudget, state: str, reason: str, message: str) -> meta.Condition:
    old = condition_of(budget.status.conditions, "DisruptionAllowed")
    condition = meta.Condition(
        type="DisruptionAllowed",
        status=state,
        reason=reason,
        message=message,
        observedGeneration=budget.metadata.generation,
    )
    same = old is not None and old.status == state
    condition.lastTransitionTime.CopyFrom(old.lastTransitionTime if same and old is not None else wall_time())
    return condition


def same_status(left: policy.PodDisruptionBudgetStatus, right: policy.PodDisruptionBudgetStatus) -> bool:
    """Whether two statuses say the same; a field that is unset equals its zero value."""
    numbers = ("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    if any(getattr(left, name) != getattr(right, name) for name in numbers):
        return False
    if set(left.disruptedPods) != set(right.disruptedPods):
        return False
    return _told(left) == _told(right)


def _told(status: policy.PodDisruptionBudgetStatus) -> list[tuple[str, str, str, str]]:
    return [(item.type, item.status, item.reason, item.message) for item in status.conditions]
