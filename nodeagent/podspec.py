"""Small questions to a pod's spec that several modules ask. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from nodeagent.runtime import ContainerRecord, ContainerState
from wharfinger.api.types import core

DEFAULT_GRACE_SECONDS = 30
FOREVER = "Always"


def is_sidecar(container: core.Container) -> bool:
    """Whether an init container runs beside the others instead of before them."""
    return container.restartPolicy == FOREVER


def ephemeral_containers(pod: core.Pod) -> list[core.Container]:
    """Return the ephemeral containers as ordinary ones (their fields have the same numbers); none is restarted."""
    result = []
    for one in pod.spec.ephemeralContainers:
        container = core.Container.FromString(one.ephemeralContainerCommon.SerializeToString())
        container.restartPolicy = "Never"
        result.append(container)
    return result


def all_containers(pod: core.Pod) -> Iterator[tuple[str, core.Container]]:
    """Yield field path and container of each container: init containers first, as they start, ephemeral ones last."""
    for container in pod.spec.initContainers:
        yield f"spec.initContainers{{{container.name}}}", container
    for container in pod.spec.containers:
        yield f"spec.containers{{{container.name}}}", container
    for container in ephemeral_containers(pod):
        yield f"spec.ephemeralContainers{{{container.name}}}", container


def container_hash(container: core.Container) -> str:
    """Return a mark that changes when the container must be restarted: as in kubelet, of name and image."""
    return hashlib.sha256(f"{container.name}\0{container.image}".encode()).hexdigest()[:8]


def pod_key(pod: core.Pod) -> str:
    """Return ``namespace/name``."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def is_deleting(pod: core.Pod) -> bool:
    """Whether a delete has been asked for."""
    return pod.metadata.HasField("deletionTimestamp")


def grace_seconds(pod: core.Pod) -> int:
    """Return how long containers have between being asked to end and being killed, at least 1."""
    if is_deleting(pod) and pod.metadata.HasField("deletionGracePeriodSeconds"):
        return max(1, pod.metadata.deletionGracePeriodSeconds)
    if pod.spec.HasField("terminationGracePeriodSeconds"):
        return max(1, pod.spec.terminationGracePeriodSeconds)
    return DEFAULT_GRACE_SECONDS


def restarts(pod: core.Pod, container: core.Container, record: ContainerRecord | None, *, init: bool) -> bool:
    """Whether a container is to be (re)started, given its newest record: restart policy and rules.

    An init container that has done its work is not; one that failed is, unless the policy is Never.
    """
    if record is None or record.state in (ContainerState.CREATED, ContainerState.UNKNOWN):
        return True
    if record.state is ContainerState.RUNNING:
        return False
    return restarts_after(pod, container, record.exit_code, init=init)


def restarts_after(pod: core.Pod, container: core.Container, exit_code: int, *, init: bool) -> bool:
    """Whether a container that ended with `exit_code` is to be restarted."""
    for rule in container.restartPolicyRules:
        codes = rule.exitCodes
        if (exit_code in codes.values) == (codes.operator == "In") and rule.action == "Restart":
            return True
    policy = container.restartPolicy or pod.spec.restartPolicy or FOREVER
    if init and not is_sidecar(container):
        return exit_code != 0 and policy != "Never"
    return policy == FOREVER or (policy == "OnFailure" and exit_code != 0)
