"""Between CRI's messages and the values of :mod:`nodeagent.runtime`. Pure."""

from __future__ import annotations

from nodeagent.runtime import (
    CONTAINER_NAME_LABEL,
    POD_NAME_LABEL,
    POD_NAMESPACE_LABEL,
    POD_UID_LABEL,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerUse,
    ImageRecord,
    SandboxRecord,
    SandboxSpec,
    Seccomp,
)
from wharfinger.proto.cri import runtime_v1_pb2 as cri

_STATES = {
    cri.CONTAINER_CREATED: ContainerState.CREATED,
    cri.CONTAINER_RUNNING: ContainerState.RUNNING,
    cri.CONTAINER_EXITED: ContainerState.EXITED,
    cri.CONTAINER_UNKNOWN: ContainerState.UNKNOWN,
}
_PROTOCOLS = {"TCP": cri.TCP, "UDP": cri.UDP, "SCTP": cri.SCTP}
_PROPAGATION = {
    "None": cri.PROPAGATION_PRIVATE,
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}
_SECCOMP = {
    "RuntimeDefault": cri.RuntimeDefault,
    "Unconfined": cri.Unconfined,
    "Localhost": cri.Localhost,
}
# What kubelet hides of /proc and /sys unless procMount says Unmasked.
_MASKED_PATHS = (
    "/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
    "/sys/devices/virtual/powercap",
)  # fmt: skip
_READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def sandbox_listed(item: cri.PodSandbox) -> SandboxRecord:
    """Return a sandbox as lists show it: no IPs."""
    return SandboxRecord(
        id=item.id,
        pod_uid=item.metadata.uid,
        pod_name=item.metadata.name,
        pod_namespace=item.metadata.namespace,
        attempt=item.metadata.attempt,
        ready=item.state == cri.SANDBOX_READY,
        created_at=item.created_at,
    )


def sandbox_status(item: cri.PodSandboxStatus) -> SandboxRecord:
    """Return a sandbox in full."""
    network = item.network
    ips = ([network.ip] if network.ip else []) + [additional.ip for additional in network.additional_ips]
    return SandboxRecord(
        id=item.id,
        pod_uid=item.metadata.uid,
        pod_name=item.metadata.name,
        pod_namespace=item.metadata.namespace,
        attempt=item.metadata.attempt,
        ready=item.state == cri.SANDBOX_READY,
        created_at=item.created_at,
        ips=tuple(ips),
        host_network=item.linux.namespaces.options.network == cri.NODE,
    )


def container_listed(item: cri.Container) -> ContainerRecord:
    """Return a container as lists show it: no times, exit code or log path."""
    return ContainerRecord(
        id=item.id,
        sandbox_id=item.pod_sandbox_id,
        pod_uid=item.labels.get(POD_UID_LABEL, ""),
        name=item.labels.get(CONTAINER_NAME_LABEL, item.metadata.name),
        attempt=item.metadata.attempt,
        state=_STATES[item.state],
        created_at=item.created_at,
        image=item.image.image,
        image_id=item.image_ref,
        annotations=dict(item.annotations),
    )


def container_use(item: cri.ContainerStats) -> ContainerUse:
    """Return what a container has used."""
    labels = item.attributes.labels
    return ContainerUse(
        id=item.attributes.id,
        name=labels.get(CONTAINER_NAME_LABEL, item.attributes.metadata.name),
        pod_uid=labels.get(POD_UID_LABEL, ""),
        pod_name=labels.get(POD_NAME_LABEL, ""),
        pod_namespace=labels.get(POD_NAMESPACE_LABEL, ""),
        cpu=item.cpu.usage_core_nano_seconds.value,
        memory=item.memory.working_set_bytes.value,
    )


def container_status(item: cri.ContainerStatus, sandbox_id: str) -> ContainerRecord:
    """Return a container in full."""
    return ContainerRecord(
        id=item.id,
        sandbox_id=sandbox_id,
        pod_uid=item.labels.get(POD_UID_LABEL, ""),
        name=item.labels.get(CONTAINER_NAME_LABEL, item.metadata.name),
        attempt=item.metadata.attempt,
        state=_STATES[item.state],
        created_at=item.created_at,
        started_at=item.started_at,
        finished_at=item.finished_at,
        exit_code=item.exit_code,
        reason=item.reason,
        message=item.message,
        image=item.image.image,
        image_id=item.image_ref,
        log_path=item.log_path,
        annotations=dict(item.annotations),
    )


def image_record(item: cri.Image) -> ImageRecord:
    """Return an image."""
    return ImageRecord(
        id=item.id,
        tags=tuple(item.repo_tags),
        digests=tuple(item.repo_digests),
        size=item.size,
        uid=item.uid.value if item.HasField("uid") else None,
        username=item.username,
    )


def sandbox_config(spec: SandboxSpec) -> cri.PodSandboxConfig:
    """Return CRI's configuration of a sandbox."""
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=spec.name, namespace=spec.namespace, uid=spec.uid, attempt=spec.attempt),
        hostname="" if spec.host_network else spec.hostname,
        log_directory=spec.log_directory,
        labels={
            **spec.labels,
            POD_NAME_LABEL: spec.name,
            POD_NAMESPACE_LABEL: spec.namespace,
            POD_UID_LABEL: spec.uid,
        },
        annotations=spec.annotations,
    )
    config.dns_config.servers.extend(spec.dns_servers)
    config.dns_config.searches.extend(spec.dns_searches)
    config.dns_config.options.extend(spec.dns_options)
    for port in spec.port_mappings:
        config.port_mappings.add(
            protocol=_PROTOCOLS[port.protocol],
            container_port=port.container_port,
            host_port=port.host_port,
            host_ip=port.host_ip,
        )
    linux = config.linux
    linux.cgroup_parent = spec.cgroup_parent
    for name, value in spec.sysctls.items():
        linux.sysctls[name] = value
    security = linux.security_context
    security.privileged = spec.privileged
    _namespaces(security.namespace_options, spec)
    if spec.run_as_user is not None:
        security.run_as_user.value = spec.run_as_user
    if spec.run_as_group is not None:
        security.run_as_group.value = spec.run_as_group
    security.supplemental_groups.extend(spec.supplemental_groups)
    security.seccomp.CopyFrom(_seccomp(spec.seccomp or Seccomp("RuntimeDefault")))
    return config


def container_config(spec: ContainerSpec, sandbox: SandboxSpec) -> cri.ContainerConfig:
    """Return CRI's configuration of a container."""
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=spec.name, attempt=spec.attempt),
        image=cri.ImageSpec(image=spec.image, user_specified_image=spec.user_image),
        command=spec.command,
        args=spec.args,
        working_dir=spec.working_dir,
        envs=[cri.KeyValue(key=name, value=value.encode()) for name, value in spec.env],
        labels=spec.labels,
        annotations=spec.annotations,
        log_path=spec.log_path,
        stdin=spec.stdin,
        stdin_once=spec.stdin_once,
        tty=spec.tty,
    )
    for mount in spec.mounts:
        config.mounts.add(
            container_path=mount.container_path,
            host_path=mount.host_path,
            readonly=mount.readonly,
            propagation=_PROPAGATION[mount.propagation],
        )
    resources = config.linux.resources
    resources.cpu_shares = spec.resources.cpu_shares
    resources.cpu_quota = spec.resources.cpu_quota
    resources.cpu_period = spec.resources.cpu_period
    resources.memory_limit_in_bytes = spec.resources.memory_limit
    resources.oom_score_adj = spec.resources.oom_score_adj
    security = config.linux.security_context
    given = spec.security
    _namespaces(security.namespace_options, sandbox)
    if spec.pid_target and security.namespace_options.pid == cri.CONTAINER:
        security.namespace_options.pid, security.namespace_options.target_id = cri.TARGET, spec.pid_target
    security.privileged = given.privileged
    if given.run_as_user is not None:
        security.run_as_user.value = given.run_as_user
    if given.run_as_group is not None:
        security.run_as_group.value = given.run_as_group
    security.run_as_username = given.run_as_username
    security.readonly_rootfs = given.readonly_rootfs
    security.no_new_privs = given.no_new_privileges
    security.capabilities.add_capabilities.extend(given.add_capabilities)
    security.capabilities.drop_capabilities.extend(given.drop_capabilities)
    security.supplemental_groups.extend(given.supplemental_groups)
    if not given.unmasked and not given.privileged:
        security.masked_paths.extend(_MASKED_PATHS)
        security.readonly_paths.extend(_READONLY_PATHS)
    security.seccomp.CopyFrom(_seccomp(given.seccomp or Seccomp("Unconfined")))
    return config


def _namespaces(options: cri.NamespaceOption, spec: SandboxSpec) -> None:
    options.network = cri.NODE if spec.host_network else cri.POD
    options.ipc = cri.NODE if spec.host_ipc else cri.POD
    if spec.host_pid:
        options.pid = cri.NODE
    else:
        options.pid = cri.POD if spec.share_process_namespace else cri.CONTAINER


def _seccomp(profile: Seccomp) -> cri.SecurityProfile:
    return cri.SecurityProfile(profile_type=_SECCOMP[profile.type], localhost_ref=profile.path)
