"""From a pod's container to what the runtime is asked for: image, command, environment, mounts, rights, limits.

Everything that can be wrong with a container before it exists is found here and named (CreateContainerConfigError).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeagent.env import ConfigError, expand
from nodeagent.fencing import TOLERATION_ANNOTATION, toleration_seconds
from nodeagent.podspec import container_hash, grace_seconds
from nodeagent.resources import container_resources
from nodeagent.runtime import (
    CONTAINER_NAME_LABEL,
    GRACE_PERIOD_ANNOTATION,
    HASH_ANNOTATION,
    POD_NAME_LABEL,
    POD_NAMESPACE_LABEL,
    POD_UID_LABEL,
    RESTART_COUNT_ANNOTATION,
    TERMINATION_FILE_ANNOTATION,
    TERMINATION_PATH_ANNOTATION,
    TERMINATION_POLICY_ANNOTATION,
    ContainerSpec,
    ImageRecord,
    Mount,
    Seccomp,
    Security,
)
from wharfinger.api.types import core

DEFAULT_TERMINATION_PATH = "/dev/termination-log"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container's configuration needs beside the pod."""

    image: ImageRecord
    environment: Mapping[str, str]
    mounts: Sequence[Mount]
    termination_file: Path
    """On the node; made by the caller."""
    memory_capacity: int
    """The node's, in bytes."""
    seccomp_root: Path
    """Where Localhost profiles lie."""


def container_spec(
    pod: core.Pod, container: core.Container, restart_count: int, given: Surroundings, *, pid_target: str = ""
) -> ContainerSpec:
    """Return what the runtime makes the container from; it sees the processes of `pid_target`. Raises ConfigError."""
    termination_path = container.terminationMessagePath or DEFAULT_TERMINATION_PATH
    metadata = pod.metadata
    return ContainerSpec(
        name=container.name,
        attempt=restart_count,
        image=given.image.id,
        user_image=container.image,
        command=[expand(word, given.environment) for word in container.command],
        args=[expand(word, given.environment) for word in container.args],
        working_dir=container.workingDir,
        env=list(given.environment.items()),
        mounts=[*given.mounts, Mount(termination_path, str(given.termination_file))],
        labels={
            POD_NAME_LABEL: metadata.name,
            POD_NAMESPACE_LABEL: metadata.namespace,
            POD_UID_LABEL: metadata.uid,
            CONTAINER_NAME_LABEL: container.name,
        },
        annotations={
            HASH_ANNOTATION: container_hash(container),
            RESTART_COUNT_ANNOTATION: str(restart_count),
            TERMINATION_PATH_ANNOTATION: termination_path,
            TERMINATION_POLICY_ANNOTATION: container.terminationMessagePolicy or "File",
            TERMINATION_FILE_ANNOTATION: str(given.termination_file),
            GRACE_PERIOD_ANNOTATION: str(grace_seconds(pod)),
            **({} if (tolerated := toleration_seconds(pod)) is None else {TOLERATION_ANNOTATION: f"{tolerated:g}"}),
        },
        log_path=f"{container.name}/{restart_count}.log",
        stdin=container.stdin,
        stdin_once=container.stdinOnce,
        tty=container.tty,
        resources=container_resources(pod, container, given.memory_capacity),
        security=security(pod, container, given.image, given.seccomp_root),
        pid_target=pid_target,
    )


def security(pod: core.Pod, container: core.Container, image: ImageRecord, seccomp_root: Path) -> Security:
    """Return what the container may: its own settings before the pod's. Raises ConfigError."""
    whole, own = pod.spec.securityContext, container.securityContext
    user = _first(own, whole, "runAsUser")
    group = _first(own, whole, "runAsGroup")
    if _first(own, whole, "runAsNonRoot"):
        _check_non_root(container, image, user)
    username = "" if user is not None or image.uid is not None else image.username
    if user is None and image.uid is not None:
        user = image.uid
    groups = list(whole.supplementalGroups)
    if whole.HasField("fsGroup") and whole.fsGroup not in groups:
        groups.append(whole.fsGroup)
    forbids = own.HasField("allowPrivilegeEscalation") and not own.allowPrivilegeEscalation
    return Security(
        privileged=own.privileged,
        run_as_user=user,
        run_as_group=group,
        run_as_username=username,
        readonly_rootfs=own.readOnlyRootFilesystem,
        add_capabilities=[name.removeprefix("CAP_") for name in own.capabilities.add],
        drop_capabilities=[name.removeprefix("CAP_") for name in own.capabilities.drop],
        no_new_privileges=forbids and not own.privileged,
        supplemental_groups=groups,
        seccomp=seccomp(own, whole, seccomp_root),
        unmasked=own.procMount == "Unmasked",
    )


def seccomp(own: core.SecurityContext | None, whole: core.PodSecurityContext, seccomp_root: Path) -> Seccomp | None:
    """Return the seccomp profile that is set, the container's before the pod's."""
    for context in (own, whole):
        if context is not None and context.HasField("seccompProfile"):
            profile = context.seccompProfile
            path = str(seccomp_root / profile.localhostProfile) if profile.type == "Localhost" else ""
            return Seccomp(profile.type, path)
    return None


def _check_non_root(container: core.Container, image: ImageRecord, user: int | None) -> None:
    if user is not None:
        if user == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy (container: {container.name})")
        return
    if image.uid == 0 or (image.uid is None and not image.username):
        raise ConfigError(f"container has runAsNonRoot and image will run as root (container: {container.name})")
    if image.uid is None:
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({image.username}), "
            f"cannot verify user is non-root (container: {container.name})"
        )


def _first(own: core.SecurityContext, whole: core.PodSecurityContext, name: str) -> int | None:
    for context in (own, whole):
        if context.HasField(name):
            value: int = getattr(context, name)
            return value
    return None
