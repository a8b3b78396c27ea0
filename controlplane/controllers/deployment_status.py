"""What a Deployment says about itself: counts, availability, progress and its deadline. All pure.

Source: "Deployment status" in Kubernetes' documentation. The progress deadline compares our wall clock with a stamp
that another controller-manager may have written; it only calls a roll-out slow, nothing is undone by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.deployment_plan import Family, bounds, wanted
from controlplane.controllers.objects import condition_of, seconds_of, wall_time
from wharfinger.api.types import apps

NO_DEADLINE = 2**31 - 1


def plan_status(family: Family, *, now: float) -> apps.DeploymentStatus:
    """Return the status with its counts and the Available condition; `now` is wall-clock seconds."""
    deployment, every = family.deployment, family.all
    status = apps.DeploymentStatus(observedGeneration=deployment.metadata.generation)
    status.replicas = sum(item.status.replicas for item in every)
    status.updatedReplicas = family.new.status.replicas if family.new is not None else 0
    status.readyReplicas = sum(item.status.readyReplicas for item in every)
    status.availableReplicas = sum(item.status.availableReplicas for item in every)
    status.unavailableReplicas = max(0, sum(item.spec.replicas for item in every) - status.availableReplicas)
    status.terminatingReplicas = sum(item.status.terminatingReplicas for item in every)
    if deployment.status.HasField("collisionCount"):
        status.collisionCount = deployment.status.collisionCount
    status.conditions.extend(deployment.status.conditions)
    if status.availableReplicas >= wanted(deployment) - bounds(deployment)[1]:
        set_condition(
            status, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now=now
        )
    else:
        text = "Deployment does not have minimum availability."
        set_condition(status, "Available", "False", "MinimumReplicasUnavailable", text, now=now)
    return status


def set_condition(
    status: apps.DeploymentStatus, type_: str, state: str, reason: str, message: str, *, now: float, touch: bool = False
) -> None:
    """Set a condition; one that says the same already keeps its times, unless `touch` is set."""
    old = condition_of(status.conditions, type_)
    if old is not None and old.status == state and old.reason == reason and not touch:
        return
    condition = apps.DeploymentCondition(type=type_, status=state, reason=reason, message=message)
    condition.lastUpdateTime.CopyFrom(wall_time(now))
    same = old is not None and old.status == state
    condition.lastTransitionTime.CopyFrom(old.lastTransitionTime if same and old is not None else wall_time(now))
    drop_condition(status, type_)
    status.conditions.append(condition)


def drop_condition(status: apps.DeploymentStatus, type_: str) -> None:
    """Remove a condition."""
    left = [item for item in status.conditions if item.type != type_]
    del status.conditions[:]
    status.conditions.extend(left)


def has_deadline(deployment: apps.Deployment) -> bool:
    """Whether a roll-out that does not move is to be called failed."""
    spec = deployment.spec
    return spec.HasField("progressDeadlineSeconds") and spec.progressDeadlineSeconds != NO_DEADLINE


def is_complete(deployment: apps.Deployment, status: apps.DeploymentStatus) -> bool:
    """Whether the present revision is all there is, and is available."""
    target = wanted(deployment)
    return (
        status.updatedReplicas == target
        and status.replicas == target
        and status.availableReplicas == target
        and status.observedGeneration >= deployment.metadata.generation
    )


def judge_progress(family: Family, status: apps.DeploymentStatus, *, now: float) -> float | None:
    """Set the Progressing and ReplicaFailure conditions of a roll-out.

    Returns in how many seconds the deadline passes, when that is awaited.
    """
    deployment = family.deployment
    _copy_failure(family, status, now=now)
    if not has_deadline(deployment):
        drop_condition(status, "Progressing")
        return None
    present = condition_of(deployment.status.conditions, "Progressing")
    name = (
        f'ReplicaSet "{family.new.metadata.name}"'
        if family.new is not None
        else f'Deployment "{deployment.metadata.name}"'
    )
    settled = present is not None and present.reason == "NewReplicaSetAvailable"
    if not (settled and status.replicas == status.updatedReplicas):
        if is_complete(deployment, status):
            text = f"{name} has successfully progressed."
            set_condition(status, "Progressing", "True", "NewReplicaSetAvailable", text, now=now)
        elif _moves(deployment.status, status):
            set_condition(
                status, "Progressing", "True", "ReplicaSetUpdated", f"{name} is progressing.", now=now, touch=True
            )
        elif _timed_out(deployment, present, now):
            text = f"{name} has timed out progressing."
            set_condition(status, "Progressing", "False", "ProgressDeadlineExceeded", text, now=now)
    present = condition_of(status.conditions, "Progressing")
    if present is None or present.reason in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"):
        return None
    return max(0.0, seconds_of(present.lastUpdateTime) + deployment.spec.progressDeadlineSeconds - now) + 1.0


def _copy_failure(family: Family, status: apps.DeploymentStatus, *, now: float) -> None:
    holders: Sequence[apps.ReplicaSet] = [*([family.new] if family.new is not None else []), *family.old]
    for holder in holders:
        failure = condition_of(holder.status.conditions, "ReplicaFailure")
        if failure is not None and failure.status == "True":
            set_condition(status, "ReplicaFailure", "True", failure.reason, failure.message, now=now)
            return
    drop_condition(status, "ReplicaFailure")


def _moves(old: apps.DeploymentStatus, new: apps.DeploymentStatus) -> bool:
    return bool(
        new.updatedReplicas > old.updatedReplicas
        or new.replicas - new.updatedReplicas < old.replicas - old.updatedReplicas
        or new.readyReplicas > old.readyReplicas
        or new.availableReplicas > old.availableReplicas
    )


def _timed_out(deployment: apps.Deployment, present: apps.DeploymentCondition | None, now: float) -> bool:
    if present is None or present.reason == "NewReplicaSetAvailable":
        return False
    if present.reason == "ProgressDeadlineExceeded":
        return True
    return seconds_of(present.lastUpdateTime) + deployment.spec.progressDeadlineSeconds < now


def same_status(left: apps.DeploymentStatus, right: apps.DeploymentStatus) -> bool:
    """Whether two statuses say the same; a field that is unset equals its zero value."""
    numbers = (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    )  # fmt: skip
    if any(getattr(left, name) != getattr(right, name) for name in numbers):
        return False
    return _conditions(left) == _conditions(right)


def _conditions(status: apps.DeploymentStatus) -> dict[str, tuple[str, str, str, int]]:
    return {
        item.type: (item.status, item.reason, item.message, item.lastUpdateTime.seconds) for item in status.conditions
    }
