"""How a set of identical pods is kept at its number: claims, choice of victims, status. All pure.

Sources: "ReplicaSet" in Kubernetes' documentation (adoption, scaling down, pod deletion cost) and "Pod conditions"
for readiness and availability.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from controlplane.controllers.objects import (
    condition_of,
    controller_of,
    deleting,
    is_active,
    is_available,
    is_ready,
    seconds_of,
    wall_time,
)
from wharfinger.api.labels import Selector
from wharfinger.api.types import apps, core

BURST = 500
"""Pods created or deleted in one sync, at most."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
REJECTION_BASE = 1.0
REJECTION_MAX = 60.0
"""Seconds; how long to wait before replacing a pod that its node refused, doubling with each."""

Claim = Literal["ours", "adopt", "release", "no"]


def claim(pod: core.Pod, *, owner_uid: str, owner_deleting: bool, selector: Selector) -> Claim:
    """Decide what a pod is to an owner."""
    reference = controller_of(pod)
    matches = selector.matches(pod.metadata.labels)
    if reference is not None:
        if reference.uid != owner_uid:
            return "no"
        if matches:
            return "ours"
        return "no" if owner_deleting else "release"
    if owner_deleting or not matches or deleting(pod):
        return "no"
    return "adopt"


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """How many pods to create, or which to delete, to reach the wanted number."""

    create: int = 0
    delete: Sequence[core.Pod] = field(default=())


def plan_replicas(
    pods: Sequence[core.Pod], *, wanted: int, related: Iterable[core.Pod] = (), now: float
) -> ReplicaPlan:
    """Compare the active pods among `pods` with the wanted number.

    `related` are the active pods of all owners of the same kind under one parent (the ReplicaSets of a Deployment):
    pods on nodes with many of them go first. `now` is wall-clock seconds.
    """
    active = [pod for pod in pods if is_active(pod)]
    surplus = len(active) - wanted
    if surplus < 0:
        return ReplicaPlan(create=min(-surplus, BURST))
    if surplus == 0:
        return ReplicaPlan()
    surplus = min(surplus, BURST)
    if surplus < len(active):
        active = sorted_for_deletion(active, related=related, now=now)
    return ReplicaPlan(delete=active[:surplus])


def sorted_for_deletion(pods: Sequence[core.Pod], *, related: Iterable[core.Pod], now: float) -> list[core.Pod]:
    """Sort pods so that those whose loss hurts least come first."""
    crowd = Counter(pod.spec.nodeName for pod in related if is_active(pod))

    def rank(pod: core.Pod) -> tuple[object, ...]:
        ready = condition_of(pod.status.conditions, "Ready")
        is_up = ready is not None and ready.status == "True"
        return (
            bool(pod.spec.nodeName),
            {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0),
            is_up,
            deletion_cost(pod),
            -crowd[pod.spec.nodeName],
            _age_rank(seconds_of(ready.lastTransitionTime), now) if ready is not None and is_up else 0,
            *(-count for count in _restarts(pod)),
            _age_rank(seconds_of(pod.metadata.creationTimestamp), now),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def deletion_cost(pod: core.Pod) -> int:
    """Return the pod's deletion cost; a value that is no 32-bit number counts as none."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        cost = int(text)
    except ValueError:
        return 0
    return cost if -(2**31) <= cost < 2**31 and text.lstrip("-").isdigit() else 0


def _age_rank(since: float, now: float) -> int:
    # Ages are compared on a logarithmic scale, so that pods of about one age are chosen at random (by uid) and one
    # roll-out's failure domain is not wiped out. A pod without a stamp counts as younger than any.
    if not since:
        return -1
    age = now - since
    return int(math.log2(age)) + 1 if age >= 1 else 0


def _restarts(pod: core.Pod) -> tuple[int, int]:
    regular = max((status.restartCount for status in pod.status.containerStatuses), default=0)
    sidecars = max((status.restartCount for status in pod.status.initContainerStatuses), default=0)
    return regular, sidecars


def rejected_by_node(pod: core.Pod) -> bool:
    """Whether a node refused the pod before anything of it ran: making the next one at once would only repeat it."""
    status = pod.status
    return bool(
        status.phase == "Failed"
        and status.reason
        and status.reason not in ("Evicted", "DeadlineExceeded", "NodeLost", "Preempting", "Terminated")
        and not status.containerStatuses
        and not status.initContainerStatuses
    )


@dataclass(slots=True)
class RejectionBackoff:
    """How long one owner waits before it replaces pods that nodes refused. Times are monotonic seconds."""

    seen: set[str] = field(default_factory=set)
    delay: float = 0.0
    until: float = -math.inf

    def observe(self, pods: Iterable[core.Pod], now: float) -> None:
        """Take in an owner's pods; each refused one counts once."""
        refused = {pod.metadata.uid for pod in pods if rejected_by_node(pod)}
        if refused - self.seen:
            if now - self.until > 2 * REJECTION_MAX:
                self.delay = 0.0
            if now >= self.until:
                self.delay = min(max(self.delay * 2, REJECTION_BASE), REJECTION_MAX)
                self.until = now + self.delay
        self.seen = refused

    def remaining(self, now: float) -> float:
        """Return how long to wait still; 0 when there is nothing to wait for."""
        return max(0.0, self.until - now)


def plan_status(
    owner: apps.ReplicaSet, pods: Iterable[core.Pod], *, terminating: int, failure: tuple[str, str] | None, now: float
) -> apps.ReplicaSetStatus:
    """Return the status that a ReplicaSet ought to have.

    `pods` are its active ones, `failure` is (reason, message) of what went wrong in this sync, `now` wall-clock.
    """
    template = dict(owner.spec.template.metadata.labels)
    minimum = owner.spec.minReadySeconds
    status = apps.ReplicaSetStatus(observedGeneration=owner.metadata.generation)
    replicas = labelled = ready = available = 0
    for pod in pods:
        replicas += 1
        labelled += all(pod.metadata.labels.get(key) == value for key, value in template.items())
        if is_ready(pod):
            ready += 1
            available += is_available(pod, min_ready_seconds=minimum, now=now)
    status.replicas, status.fullyLabeledReplicas = replicas, labelled
    status.readyReplicas, status.availableReplicas = ready, available
    status.terminatingReplicas = terminating
    status.conditions.extend(item for item in owner.status.conditions if item.type != "ReplicaFailure")
    if failure is not None:
        reason, message = failure
        old = condition_of(owner.status.conditions, "ReplicaFailure")
        condition = status.conditions.add(type="ReplicaFailure", status="True", reason=reason, message=message)
        same = old is not None and old.status == "True" and old.reason == reason
        condition.lastTransitionTime.CopyFrom(old.lastTransitionTime if same and old is not None else wall_time(now))
    return status


def same_status(left: apps.ReplicaSetStatus, right: apps.ReplicaSetStatus) -> bool:
    """Whether two statuses say the same; a field that is unset equals its zero value."""
    numbers = (
        "replicas",
        "fullyLabeledReplicas",
        "observedGeneration",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
    )
    if any(getattr(left, name) != getattr(right, name) for name in numbers):
        return False
    return _conditions(left) == _conditions(right)


def _conditions(status: apps.ReplicaSetStatus) -> Mapping[str, tuple[str, str, str]]:
    return {item.type: (item.status, item.reason, item.message) for item in status.conditions}


def next_available_in(pods: Iterable[core.Pod], *, min_ready_seconds: int, now: float) -> float | None:
    """Return seconds until the next ready pod becomes available; None when none will."""
    if not min_ready_seconds:
        return None
    waits = [
        seconds_of(ready.lastTransitionTime) + min_ready_seconds - now
        for pod in pods
        if (ready := condition_of(pod.status.conditions, "Ready")) is not None and ready.status == "True"
    ]
    return min((wait for wait in waits if wait > 0), default=None)


def pod_name_prefix(owner: str) -> str:
    """Return the generateName of an owner's pods: its name and a dash, if that is still a name."""
    return f"{owner}-" if len(owner) <= 247 else owner[:247]


def batches(count: int) -> Iterable[int]:
    """Split a number of creates into 1, 2, 4, …: a broken template then fails once, not 500 times."""
    size = 1
    while count > 0:
        step = min(size, count)
        yield step
        count -= step
        size *= 2
