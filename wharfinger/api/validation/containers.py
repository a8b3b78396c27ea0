"""The containers of a pod: regular, init and ephemeral ones.

Rules: "Containers", "Init Containers", "Sidecar Containers" and "Ephemeral Containers" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from wharfinger.api.types import core
from wharfinger.api.validation import environment, names, paths, resources, security
from wharfinger.api.validation.common import PROTOCOLS, one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.handlers import validate_lifecycle, validate_liveness, validate_readiness

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
TERMINATION_POLICIES = ("FallbackToLogsOnError", "File")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255
_EPHEMERAL_FORBIDDEN = (
    "ports", "resources", "livenessProbe", "readinessProbe", "lifecycle", "startupProbe", "resizePolicy",
    "restartPolicy", "restartPolicyRules",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodContext:
    """What a container's rules need to know of its pod."""

    volumes: Mapping[str, core.VolumeSource]
    """The valid ones, by name."""
    claims: Collection[str]
    """Names of the pod's resource claims."""
    grace_period: int | None
    """Seconds."""
    restart_policy: str
    host_users: bool
    os: str


def validate_containers(containers: Sequence[core.Container], context: PodContext, errors: Errors, path: str) -> None:
    """Judge the regular containers."""
    if not containers:
        errors.required(path)
        return
    seen: set[str] = set()
    ports: set[tuple[str, str, int]] = set()
    conflicts: list[tuple[str, str]] = []
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _validate_common(container, context, errors, at)
        name = container.name
        if name in seen:
            errors.duplicate(f"{at}.name", name)
        seen.add(name)
        _validate_hooks(container, context, errors, at)
        if container.HasField("restartPolicy"):
            one_of(errors, f"{at}.restartPolicy", container.restartPolicy, RESTART_POLICIES)
        if container.restartPolicyRules:
            _validate_restart_rules(container, errors, at)
        _collect_host_ports(container, at, ports, conflicts)
    for field, port in conflicts:
        errors.duplicate(field, port)


def validate_init_containers(
    containers: Sequence[core.Container],
    regular: Sequence[core.Container],
    context: PodContext,
    errors: Errors,
    path: str,
) -> None:
    """Judge the init containers, sidecars among them."""
    seen = {container.name for container in regular}
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _validate_common(container, context, errors, at)
        if container.HasField("restartPolicy"):
            one_of(errors, f"{at}.restartPolicy", container.restartPolicy, RESTART_POLICIES)
        if container.restartPolicyRules:
            _validate_restart_rules(container, errors, at)
        name = container.name
        if name in seen:
            errors.duplicate(f"{at}.name", name)
        elif name:
            seen.add(name)
        conflicts: list[tuple[str, str]] = []
        _collect_host_ports(container, at, set(), conflicts)
        for field, port in conflicts:
            errors.duplicate(field, port)
        if container.restartPolicy == "Always":
            _validate_hooks(container, context, errors, at)
            continue
        for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.HasField(field):
                errors.forbidden(f"{at}.{field}", _NOT_FOR_INIT)


def validate_ephemeral_containers(spec: core.PodSpec, context: PodContext, errors: Errors, path: str) -> None:
    """Judge the containers added for debugging."""
    others = {container.name for container in spec.containers}
    others.update(container.name for container in spec.initContainers)
    seen = set(others)
    for index, ephemeral in enumerate(spec.ephemeralContainers):
        at = f"{path}[{index}]"
        container = ephemeral.ephemeralContainerCommon
        _validate_common(container, context, errors, at)
        validate_image_padding(container, errors, at)
        if container.name in seen:
            errors.duplicate(f"{at}.name", container.name)
        seen.add(container.name)
        if ephemeral.targetContainerName and ephemeral.targetContainerName not in others:
            errors.not_found(f"{at}.targetContainerName", ephemeral.targetContainerName)
        for field in _EPHEMERAL_FORBIDDEN:
            if _is_set(container, field):
                errors.forbidden(f"{at}.{field}", "cannot be set for an Ephemeral Container")
        for number, mount in enumerate(container.volumeMounts):
            for field in ("subPath", "subPathExpr"):
                if getattr(mount, field):
                    errors.forbidden(f"{at}.volumeMounts[{number}].{field}", "cannot be set for an Ephemeral Container")


def _is_set(message: Any, field: str) -> bool:
    value = getattr(message, field)
    if message.DESCRIPTOR.fields_by_name[field].is_repeated:
        return len(value) > 0
    if isinstance(value, Message) and field == "resources":
        return value.ByteSize() > 0
    return bool(message.HasField(field))


def _validate_hooks(container: core.Container, context: PodContext, errors: Errors, path: str) -> None:
    if container.HasField("lifecycle"):
        validate_lifecycle(
            container.lifecycle, errors, f"{path}.lifecycle", grace_period=context.grace_period, os=context.os
        )
    if container.HasField("livenessProbe"):
        validate_liveness(container.livenessProbe, errors, f"{path}.livenessProbe")
    if container.HasField("readinessProbe"):
        validate_readiness(container.readinessProbe, errors, f"{path}.readinessProbe")
    if container.HasField("startupProbe"):
        validate_liveness(container.startupProbe, errors, f"{path}.startupProbe")


def _validate_common(container: Any, context: PodContext, errors: Errors, path: str) -> None:
    name = container.name
    if not name:
        errors.required(f"{path}.name")
    else:
        complaints = names.dns1123_label(name)
        if complaints:
            errors.complaints(f"{path}.name", name, complaints)
    if not container.image:
        errors.required(f"{path}.image")
    if container.terminationMessagePolicy not in TERMINATION_POLICIES:
        one_of(
            errors, f"{path}.terminationMessagePolicy", container.terminationMessagePolicy, TERMINATION_POLICIES,
            required=True,
        )  # fmt: skip
    ports = container.ports
    if ports:
        _validate_ports(ports, errors, f"{path}.ports")
    variables = container.env
    if variables:
        environment.validate_variables(variables, errors, f"{path}.env")
    sources = container.envFrom
    if sources:
        environment.validate_sources(sources, errors, f"{path}.envFrom")
    mounts, devices = container.volumeMounts, container.volumeDevices
    if mounts:
        _validate_mounts(container, context.volumes, errors, f"{path}.volumeMounts")
    if devices:
        _validate_devices(container, context.volumes, errors, f"{path}.volumeDevices")
    if container.imagePullPolicy not in PULL_POLICIES:
        one_of(errors, f"{path}.imagePullPolicy", container.imagePullPolicy, PULL_POLICIES, required=True)
    if container.HasField("resources"):
        resources.validate_requirements(container.resources, errors, f"{path}.resources", claims=context.claims)
    policies = container.resizePolicy
    if policies:
        _validate_resize_policy(policies, context.restart_policy, errors, f"{path}.resizePolicy")
    if container.HasField("securityContext"):
        security.validate_container(
            container.securityContext, errors, f"{path}.securityContext", host_users=context.host_users
        )


def validate_image_padding(container: Any, errors: Errors, path: str) -> None:
    """Note an image with blanks around it; templates may have those, pods may not."""
    image = container.image
    if image != image.strip():
        errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _validate_ports(ports: Sequence[core.ContainerPort], errors: Errors, path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.name
        if name:
            complaints = names.port_name(name)
            if complaints:
                errors.complaints(f"{path}[{index}].name", name, complaints)
            elif name in seen:
                errors.duplicate(f"{path}[{index}].name", name)
            else:
                seen.add(name)
        number = port.containerPort
        if not number:
            errors.required(f"{path}[{index}].containerPort")
        elif not 1 <= number <= 65535:
            errors.complaints(f"{path}[{index}].containerPort", number, names.port_number(number))
        host = port.hostPort
        if host and not 1 <= host <= 65535:
            errors.complaints(f"{path}[{index}].hostPort", host, names.port_number(host))
        if port.protocol not in PROTOCOLS:
            one_of(errors, f"{path}[{index}].protocol", port.protocol, PROTOCOLS, required=True)


def _collect_host_ports(
    container: core.Container, path: str, taken: set[tuple[str, str, int]], conflicts: list[tuple[str, str]]
) -> None:
    for index, port in enumerate(container.ports):
        if port.hostPort:
            key = (port.protocol, port.hostIP, port.hostPort)
            if key in taken:
                conflicts.append((f"{path}.ports[{index}].hostPort", f"{key[0]}/{key[1]}/{key[2]}"))
            taken.add(key)


def _validate_mounts(container: Any, volumes: Mapping[str, core.VolumeSource], errors: Errors, path: str) -> None:
    devices = {device.name: device.devicePath for device in container.volumeDevices}
    taken: set[str] = set()
    for index, mount in enumerate(container.volumeMounts):
        name, target = mount.name, mount.mountPath
        if not name:
            errors.required(f"{path}[{index}].name")
        volume = volumes.get(name)
        if volume is None:
            errors.not_found(f"{path}[{index}].name", name)
        if not target:
            errors.required(f"{path}[{index}].mountPath")
        if target in taken:
            errors.invalid(f"{path}[{index}].mountPath", target, "must be unique")
        taken.add(target)
        if devices:
            if name in devices:
                errors.invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices")
            if target in devices.values():
                errors.invalid(
                    f"{path}[{index}].mountPath", target, "must not already exist as a path in volumeDevices"
                )
        if mount.subPath:
            paths.descending(mount.subPath, errors, f"{path}.subPath")
        if mount.subPathExpr:
            if mount.subPath:
                errors.invalid(
                    f"{path}[{index}].subPathExpr", mount.subPathExpr, "may not be set together with subPath"
                )
            paths.descending(mount.subPathExpr, errors, f"{path}.subPathExpr")
        if mount.HasField("mountPropagation"):
            _validate_propagation(mount.mountPropagation, container, errors, f"{path}.mountPropagation")
        if mount.HasField("recursiveReadOnly"):
            _validate_recursive(mount, errors, f"{path}.recursiveReadOnly")


def _validate_propagation(propagation: str, container: Any, errors: Errors, path: str) -> None:
    one_of(errors, path, propagation, ("Bidirectional", "HostToContainer", "None"))
    if propagation == "Bidirectional" and not container.securityContext.privileged:
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _validate_recursive(mount: core.VolumeMount, errors: Errors, path: str) -> None:
    mode = mount.recursiveReadOnly
    if mode in ("Enabled", "IfPossible"):
        if not mount.readOnly:
            errors.forbidden(path, "may only be specified when readOnly is true")
        if mount.mountPropagation not in ("", "None"):
            errors.forbidden(path, "may only be specified when mountPropagation is None or not specified")
    else:
        one_of(errors, path, mode, ("Disabled", "Enabled", "IfPossible"))


def _validate_devices(container: Any, volumes: Mapping[str, core.VolumeSource], errors: Errors, path: str) -> None:
    mounts = {mount.name: mount.mountPath for mount in container.volumeMounts}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.volumeDevices):
        at, name, target = f"{path}[{index}]", device.name, device.devicePath
        volume = volumes.get(name)
        if not name:
            errors.required(f"{at}.name")
        if name in seen_names:
            errors.invalid(f"{at}.name", name, "must be unique")
        if volume is None:
            errors.not_found(f"{at}.name", name)
        elif not volume.HasField("persistentVolumeClaim") and not volume.HasField("ephemeral"):
            errors.invalid(f"{at}.name", name, "must be a volume of type persistentVolumeClaim or ephemeral")
        if not target:
            errors.required(f"{at}.devicePath")
        if target in seen_paths:
            errors.invalid(f"{at}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            errors.invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')")
        else:
            seen_paths.add(target)
        if name in mounts:
            errors.invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if target in mounts.values():
            errors.invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts")
        if name:
            seen_names.add(name)


def _validate_resize_policy(
    policies: Sequence[core.ContainerResizePolicy], pod_restart_policy: str, errors: Errors, path: str
) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resourceName in seen:
            errors.duplicate(f"{path}[{index}]", policy.resourceName)
        seen.add(policy.resourceName)
        one_of(errors, path, policy.resourceName, ("cpu", "memory"), required=True)
        one_of(errors, path, policy.restartPolicy, ("NotRequired", "RestartContainer"), required=True)
        if pod_restart_policy == "Never" and policy.restartPolicy != "NotRequired":
            errors.invalid(path, policy.restartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'")


def _validate_restart_rules(container: core.Container, errors: Errors, path: str) -> None:
    rules = container.restartPolicyRules
    at = f"{path}.restartPolicyRules"
    if not container.HasField("restartPolicy"):
        errors.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    if len(rules) > _MAX_RESTART_RULES:
        errors.too_long(at, _MAX_RESTART_RULES)
    for index, rule in enumerate(rules):
        one_of(errors, f"{at}[{index}].action", rule.action, ("Restart", "RestartAllContainers"), required=True)
        if not rule.HasField("exitCodes"):
            errors.required(f"{at}[{index}].exitCodes", "must be specified")
            continue
        codes = rule.exitCodes
        one_of(errors, f"{at}[{index}].exitCodes.operator", codes.operator, ("In", "NotIn"), required=True)
        if len(codes.values) > _MAX_EXIT_CODES:
            errors.too_long(f"{at}[{index}].exitCodes.values", _MAX_EXIT_CODES)
        if codes.operator == "In" and not codes.values:
            errors.required(f"{at}[{index}].exitCodes.values", "must specify at least one exit code")
