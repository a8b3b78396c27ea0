"""The conditions of a pod. Pure.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
"""

from __future__ import annotations

from nodeagent.podspec import is_sidecar
from wharfinger.api.types import core, meta

READY_TO_START = "PodReadyToStartContainers"
INITIALIZED = "Initialized"
READY = "Ready"
CONTAINERS_READY = "ContainersReady"
SCHEDULED = "PodScheduled"
OWN = (READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED)
"""Those that the agent writes, in the order in which they stand; all others belong to somebody else."""

Verdict = tuple[bool, str, str]
"""Whether it holds, reason, message."""


def fill(
    status: core.PodStatus, *, pod: core.Pod, old: core.PodStatus, phase: str, sandbox_ready: bool, now: float
) -> None:
    """Write all conditions of a status whose containers are filled in.

    `phase` is the one that the containers make, which is the status' own one only when nothing runs any more.
    """
    containers = _containers_ready(status, pod, phase)
    verdicts: dict[str, Verdict] = {
        READY_TO_START: (sandbox_ready, "", ""),
        INITIALIZED: _initialized(status, pod, phase),
        READY: _ready(containers, pod),
        CONTAINERS_READY: containers,
        SCHEDULED: (True, "", ""),
    }
    status.conditions.extend(condition for condition in pod.status.conditions if condition.type not in OWN)
    before = {condition.type: condition for condition in (*old.conditions, *pod.status.conditions)}
    for name in OWN:
        holds, reason, message = verdicts[name]
        condition = status.conditions.add(
            type=name, status="True" if holds else "False", observedGeneration=pod.metadata.generation
        )
        condition.lastProbeTime.SetInParent()
        if reason:
            condition.reason = reason
        if message:
            condition.message = message
        known = before.get(name)
        if known is not None and known.status == condition.status and known.lastTransitionTime.seconds:
            condition.lastTransitionTime.CopyFrom(known.lastTransitionTime)
        else:
            condition.lastTransitionTime.CopyFrom(meta.Time(seconds=int(now)))


def _initialized(status: core.PodStatus, pod: core.Pod, phase: str) -> Verdict:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    waiting = []
    for container, init in zip(pod.spec.initContainers, status.initContainerStatuses, strict=True):
        done = init.started or init.ready if is_sidecar(container) else init.ready
        if not done:
            waiting.append(container.name)
    begun = any(main.containerID for main in status.containerStatuses)
    if not waiting or begun:
        return True, "", ""
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]"


def _containers_ready(status: core.PodStatus, pod: core.Pod, phase: str) -> Verdict:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    sidecars = {container.name for container in pod.spec.initContainers if is_sidecar(container)}
    counted = [init for init in status.initContainerStatuses if init.name in sidecars]
    counted += list(status.containerStatuses)
    unready = [one.name for one in counted if not one.ready]
    if phase == "Failed":
        return False, "PodFailed", ""
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return True, "", ""


def _ready(containers: Verdict, pod: core.Pod) -> Verdict:
    if not containers[0]:
        return containers
    held = {condition.type for condition in pod.status.conditions if condition.status == "True"}
    missing = [gate.conditionType for gate in pod.spec.readinessGates if gate.conditionType not in held]
    if missing:
        texts = ", ".join(f'corresponding condition of pod readiness gate "{name}" does not exist or is not True'
                          for name in missing)  # fmt: skip
        return False, "ReadinessGatesNotReady", texts
    return True, "", ""
