"""A container's environment: literals, fields of the pod, resource amounts, config maps and secrets, and ``$(VAR)``.

https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol

from nodeagent.resources import amount
from wharfinger.api.quantity import Quantity
from wharfinger.api.quantity import parse as parse_quantity
from wharfinger.api.types import core

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.+)'\]")
_VARIABLE = re.compile(r"[^=\x00-\x1f\x7f-\uffff]+")


class ConfigError(Exception):
    """Raised when a container cannot be configured; the text is its waiting message (CreateContainerConfigError)."""


class ConfigSource(Protocol):
    """Where config maps, secrets and tokens come from."""

    async def config_map(self, namespace: str, name: str) -> core.ConfigMap | None:
        """Return a config map; None when there is none. Raises ConfigError when that cannot be told."""

    async def secret(self, namespace: str, name: str) -> core.Secret | None:
        """Return a secret; None when there is none. Raises ConfigError when that cannot be told."""

    async def token(self, pod: core.Pod, audience: str, seconds: int) -> str:
        """Return a token of the pod's account. Raises ConfigError when there is none to be had."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; unknown names stay, ``$$`` is a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return values.get(match.group(1), match.group(0))

    return _REFERENCE.sub(replacement, text)


async def environment(
    pod: core.Pod,
    container: core.Container,
    *,
    status: core.PodStatus,
    source: ConfigSource,
    allocatable: Mapping[str, Quantity],
    services: Mapping[str, str],
) -> dict[str, str]:
    """Return all variables in order; later ones may refer to earlier ones.

    `services` are those that the node adds first. Raises ConfigError.
    """
    values = dict(services)
    for group in container.envFrom:
        values.update(await _group(pod.metadata.namespace, group, source))
    for variable in container.env:
        if not variable.HasField("valueFrom"):
            values[variable.name] = expand(variable.value, values)
            continue
        value = await _referred(pod, container, variable, status=status, source=source, allocatable=allocatable)
        if value is not None:
            values[variable.name] = value
    return values


async def _group(namespace: str, group: core.EnvFromSource, source: ConfigSource) -> dict[str, str]:
    found: dict[str, str] = {}
    if group.HasField("configMapRef"):
        reference = group.configMapRef
        name, optional = reference.localObjectReference.name, reference.optional
        config_map = await source.config_map(namespace, name)
        if config_map is None and not optional:
            raise ConfigError(f'configmap "{name}" not found')
        found = dict(config_map.data) if config_map else {}
    elif group.HasField("secretRef"):
        name, optional = group.secretRef.localObjectReference.name, group.secretRef.optional
        secret = await source.secret(namespace, name)
        if secret is None and not optional:
            raise ConfigError(f'secret "{name}" not found')
        found = {key: value.decode(errors="replace") for key, value in secret.data.items()} if secret else {}
    return {group.prefix + key: found[key] for key in sorted(found) if _VARIABLE.fullmatch(group.prefix + key)}


async def _referred(
    pod: core.Pod,
    container: core.Container,
    variable: core.EnvVar,
    *,
    status: core.PodStatus,
    source: ConfigSource,
    allocatable: Mapping[str, Quantity],
) -> str | None:
    origin = variable.valueFrom
    namespace = pod.metadata.namespace
    if origin.HasField("fieldRef"):
        return pod_field(pod, origin.fieldRef.fieldPath, status)
    if origin.HasField("resourceFieldRef"):
        return resource_field(pod, container, origin.resourceFieldRef, allocatable)
    if origin.HasField("configMapKeyRef"):
        key = origin.configMapKeyRef
        name = key.localObjectReference.name
        config_map = await source.config_map(namespace, name)
        if config_map is not None and key.key in config_map.data:
            return config_map.data[key.key]
        if key.optional:
            return None
        raise ConfigError(_missing("configmap", "ConfigMap", namespace, name, key.key, config_map is None))
    if origin.HasField("secretKeyRef"):
        secret_key = origin.secretKeyRef
        name = secret_key.localObjectReference.name
        secret = await source.secret(namespace, name)
        if secret is not None and secret_key.key in secret.data:
            return secret.data[secret_key.key].decode(errors="replace")
        if secret_key.optional:
            return None
        raise ConfigError(_missing("secret", "Secret", namespace, name, secret_key.key, secret is None))
    raise ConfigError(f"env {variable.name}: this source of a value is not supported by this node agent")


def _missing(lower: str, kind: str, namespace: str, name: str, key: str, whole: bool) -> str:
    if whole:
        return f'{lower} "{name}" not found'
    return f"couldn't find key {key} in {kind} {namespace}/{name}"


def pod_field(pod: core.Pod, path: str, status: core.PodStatus) -> str:
    """Return a field of the pod as text. Raises ConfigError for a path that is not served."""
    if match := _SUBSCRIPT.fullmatch(path):
        table = pod.metadata.labels if match.group(1) == "metadata.labels" else pod.metadata.annotations
        return table.get(match.group(2), "")
    simple = {
        "metadata.name": lambda: pod.metadata.name,
        "metadata.namespace": lambda: pod.metadata.namespace,
        "metadata.uid": lambda: pod.metadata.uid,
        "metadata.labels": lambda: _table(pod.metadata.labels),
        "metadata.annotations": lambda: _table(pod.metadata.annotations),
        "spec.nodeName": lambda: pod.spec.nodeName,
        "spec.serviceAccountName": lambda: pod.spec.serviceAccountName,
        "status.hostIP": lambda: status.hostIP,
        "status.hostIPs": lambda: ",".join(entry.ip for entry in status.hostIPs),
        "status.podIP": lambda: status.podIP,
        "status.podIPs": lambda: ",".join(entry.ip for entry in status.podIPs),
    }
    if path not in simple:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(simple[path]())


def _table(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values))


def resource_field(
    pod: core.Pod,
    container: core.Container,
    selector: core.ResourceFieldSelector,
    allocatable: Mapping[str, Quantity],
) -> str:
    """Return an amount in units of the selector's divisor, rounded up. Raises ConfigError."""
    kind, _, name = selector.resource.partition(".")
    if selector.containerName and selector.containerName != container.name:
        found = [one for one in (*pod.spec.containers, *pod.spec.initContainers) if one.name == selector.containerName]
        if not found:
            raise ConfigError(f"container {selector.containerName} not found")
        container = found[0]
    if kind not in ("limits", "requests") or not name:
        raise ConfigError(f"unsupported container resource: {selector.resource}")
    amounts = container.resources.limits if kind == "limits" else container.resources.requests
    value = amount(amounts, name)
    if value is None:
        value = allocatable.get(name, Quantity(0)) if kind == "limits" else Quantity(0)
    divisor = parse_quantity(selector.divisor.string) if selector.divisor.string else None
    unit = divisor.nanos if divisor else 1_000_000_000
    return str(-(-value.nanos // unit))
