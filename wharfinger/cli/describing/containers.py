"""Containers and volumes, in pods and in templates of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wharfinger.api.tables.text import int_or_string
from wharfinger.api.types import core
from wharfinger.cli.describing.common import NONE, moment, resources

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout


def containers(
    out: Layout, title: str, found: Sequence[Any], *, level: int = 0,
    statuses: Mapping[str, core.ContainerStatus] | None = None,
) -> None:  # fmt: skip
    """Write containers; with their states when `statuses` (by name) are given."""
    if not found:
        return
    out.line(level, f"{title}:")
    for container in found:
        _container(out, container, level + 1, statuses.get(container.name) if statuses is not None else None)


def _container(out: Layout, container: core.Container, level: int, status: core.ContainerStatus | None) -> None:
    out.line(level, f"{container.name}:")
    inner = level + 1
    if status is not None:
        out.field(inner, "Container ID", status.containerID)
    out.field(inner, "Image", container.image)
    if status is not None:
        out.field(inner, "Image ID", status.imageID)
    ports = ", ".join(f"{port.containerPort}/{port.protocol or 'TCP'}" for port in container.ports)
    host_ports = ", ".join(f"{port.hostPort}/{port.protocol or 'TCP'}" for port in container.ports)
    plural = "s" if len(container.ports) > 1 else ""
    out.field(inner, f"Port{plural}", ports or NONE)
    out.field(inner, f"Host Port{plural}", host_ports or NONE)
    for name, words in (("Command", container.command), ("Args", container.args)):
        if words:
            out.line(inner, f"{name}:")
            for word in words:
                for line in word.split("\n"):
                    out.line(inner + 1, line)
    if status is not None:
        _state(out, inner, "State", status.state)
        if status.HasField("lastState") and status.lastState.HasField("terminated"):
            _state(out, inner, "Last State", status.lastState)
        out.field(inner, "Ready", str(bool(status.ready)))
        out.field(inner, "Restart Count", status.restartCount)
    resources(out, inner, "Limits", container.resources.limits)
    resources(out, inner, "Requests", container.resources.requests)
    for name, probe in (
        ("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe"),
    ):  # fmt: skip
        if container.HasField(probe):
            out.field(inner, name, _probe(getattr(container, probe)))
    _environment(out, inner, container)
    if not container.volumeMounts:
        out.field(inner, "Mounts", NONE)
    else:
        out.line(inner, "Mounts:")
        for mount in sorted(container.volumeMounts, key=lambda one: one.mountPath):
            flags = ["ro" if mount.readOnly else "rw"]
            if mount.subPath:
                flags.append(f'path="{mount.subPath}"')
            out.line(inner + 1, f"{mount.mountPath} from {mount.name} ({','.join(flags)})")


def _state(out: Layout, level: int, name: str, state: core.ContainerState) -> None:
    if state.HasField("running"):
        out.field(level, name, "Running")
        out.field(level + 1, "Started", moment(state.running.startedAt))
    elif state.HasField("terminated"):
        ended = state.terminated
        out.field(level, name, "Terminated")
        if ended.reason:
            out.field(level + 1, "Reason", ended.reason)
        if ended.message:
            out.field(level + 1, "Message", ended.message.strip().replace("\n", " "))
        out.field(level + 1, "Exit Code", ended.exitCode)
        if ended.signal:
            out.field(level + 1, "Signal", ended.signal)
        out.field(level + 1, "Started", moment(ended.startedAt))
        out.field(level + 1, "Finished", moment(ended.finishedAt))
    else:
        out.field(level, name, "Waiting")
        if state.waiting.reason:
            out.field(level + 1, "Reason", state.waiting.reason)
        if state.waiting.message:
            out.field(level + 1, "Message", state.waiting.message.strip().replace("\n", " "))


def _probe(probe: core.Probe) -> str:
    handler: Any = probe.handler
    action = "unknown"
    if handler.HasField("exec"):
        action = f"exec [{' '.join(handler.exec.command)}]"
    elif handler.HasField("httpGet"):
        get = handler.httpGet
        action = (
            f"http-get {(get.scheme or 'HTTP').lower()}://{get.host}:{int_or_string(get.port)}/{get.path.lstrip('/')}"
        )
    elif handler.HasField("tcpSocket"):
        action = f"tcp-socket {handler.tcpSocket.host}:{int_or_string(handler.tcpSocket.port)}"
    elif handler.HasField("grpc"):
        action = f"grpc <pod>:{handler.grpc.port} {handler.grpc.service}".rstrip()
    return (
        f"{action} delay={probe.initialDelaySeconds}s timeout={probe.timeoutSeconds}s period={probe.periodSeconds}s "
        f"#success={probe.successThreshold} #failure={probe.failureThreshold}"
    )


def _environment(out: Layout, level: int, container: core.Container) -> None:
    if container.envFrom:
        out.line(level, "Environment Variables from:")
        for source in container.envFrom:
            prefix = f" with prefix '{source.prefix}'" if source.prefix else ""
            if source.HasField("configMapRef"):
                reference: Any = source.configMapRef
                kind = "ConfigMap"
            else:
                reference, kind = source.secretRef, "Secret"
            name = reference.localObjectReference.name if hasattr(reference, "localObjectReference") else reference.name
            out.line(level + 1, name, f"{kind}{prefix}", f"Optional: {str(bool(reference.optional)).lower()}")
    if not container.env:
        out.field(level, "Environment", NONE)
        return
    out.line(level, "Environment:")
    for variable in container.env:
        out.field(level + 1, variable.name, _value(variable))


def _value(variable: core.EnvVar) -> str:
    if not variable.HasField("valueFrom"):
        return variable.value.replace("\n", " ")
    source = variable.valueFrom
    if source.HasField("fieldRef"):
        return f" ({source.fieldRef.apiVersion or 'v1'}:{source.fieldRef.fieldPath})"
    if source.HasField("resourceFieldRef"):
        reference = source.resourceFieldRef
        return f"{reference.containerName} ({reference.resource})".strip()
    for name, words in (("configMapKeyRef", "of config map"), ("secretKeyRef", "in secret")):
        if source.HasField(name):
            key: Any = getattr(source, name)
            of = key.localObjectReference.name if hasattr(key, "localObjectReference") else key.name
            return f"<set to the key '{key.key}' {words} '{of}'>  Optional: {str(bool(key.optional)).lower()}"
    return ""


def volumes(out: Layout, found: Sequence[core.Volume], *, level: int = 0) -> None:
    """Write volumes: what each is, and its settings."""
    if not found:
        if level == 0:
            out.field(level, "Volumes", NONE)
        return
    out.line(level, "Volumes:")
    from wharfinger.api.codec import to_json

    for volume in found:
        out.line(level + 1, f"{volume.name}:")
        document = to_json(volume)
        document.pop("name", None)
        for kind, settings in document.items():
            out.field(level + 2, "Type", _VOLUMES.get(kind, kind[:1].upper() + kind[1:]))
            for key in sorted(settings or {}):
                value = settings[key]
                if not isinstance(value, dict | list):
                    out.field(level + 2, key[:1].upper() + key[1:], value)
                elif key == "sources":
                    names = [next(iter(one), "") for one in value]
                    out.field(level + 2, "Sources", ", ".join(names))


_VOLUMES = {
    "emptyDir": "EmptyDir (a temporary directory that shares a pod's lifetime)",
    "hostPath": "HostPath (bare host directory volume)",
    "configMap": "ConfigMap (a volume populated by a ConfigMap)",
    "secret": "Secret (a volume populated by a Secret)",
    "downwardAPI": "DownwardAPI (a volume populated by information about the pod)",
    "persistentVolumeClaim": "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
    "projected": "Projected (a volume that contains injected data from multiple sources)",
}


def template(out: Layout, value: core.PodTemplateSpec) -> None:
    """Write a template of pods."""
    out.line(0, "Pod Template:")
    out.mapping(1, "Labels", value.metadata.labels)
    if value.metadata.annotations:
        out.mapping(1, "Annotations", value.metadata.annotations)
    if value.spec.serviceAccountName:
        out.field(1, "Service Account", value.spec.serviceAccountName)
    containers(out, "Init Containers", value.spec.initContainers, level=1)
    containers(out, "Containers", value.spec.containers, level=1)
    volumes(out, value.spec.volumes, level=1)
    out.mapping(1, "Node-Selectors", value.spec.nodeSelector)
