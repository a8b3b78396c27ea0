"""Pods and what is in their templates."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from wharfinger.api.defaults.app_armor import PREFIX as APP_ARMOR
from wharfinger.api.types import core, meta
from wharfinger.api.validation.warnings import projections, texts, volumes

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "seccomp.security.alpha.kubernetes.io/pod": 'non-functional in v1.27+; use the "seccompProfile" field instead',
}
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_NULL_SELECTOR = "a null labelSelector results in matching no pod"

_REMEMBERED = 2048
_LARGEST_REMEMBERED = 8192
_QUIET: OrderedDict[bytes, None] = OrderedDict()
"""Specifications about which there is nothing to say."""

_COMPARED = 16
"""Ports of one number that each further one is compared with: a list of thousands must not hold up the server."""


def of_pod(pod: core.Pod) -> list[str]:
    """Return what to say about a new pod."""
    return texts.host_name(pod.metadata.name) + of_template(pod, "")


def of_template(template: core.Pod | core.PodTemplateSpec, path: str) -> list[str]:
    """Return what to say about a pod or a template; `path` is empty or ends with a dot."""
    own, spec = template.metadata, template.spec
    found = _of_annotations(own, spec, path) if own.annotations else []
    key = spec.SerializeToString()
    if key in _QUIET:
        _QUIET.move_to_end(key)
        return found
    warnings = _of_spec(spec, f"{path}spec")
    if not warnings and len(key) <= _LARGEST_REMEMBERED:
        _QUIET[key] = None
        if len(_QUIET) > _REMEMBERED:
            _QUIET.popitem(last=False)
    return found + warnings


def _of_annotations(own: meta.ObjectMeta, spec: core.PodSpec, path: str) -> list[str]:
    annotations = own.annotations
    found = [f"{path}metadata.annotations[{key}]: {text}" for key, text in _ANNOTATIONS.items() if key in annotations]
    for _, container in _containers(spec, ""):
        key = _SECCOMP + container.name
        if key in annotations:
            found.append(f"{path}metadata.annotations[{key}]: non-functional in v1.27+; use the seccompProfile field")
        key = APP_ARMOR + container.name
        if key in annotations and not container.securityContext.HasField("appArmorProfile"):
            found.append(f"{path}metadata.annotations[{key}]: deprecated since v1.30; use the appArmorProfile field")
    return found


def _of_spec(spec: core.PodSpec, path: str) -> list[str]:
    found = texts.node_labels(spec.nodeSelector, f"{path}.nodeSelector")
    if spec.HasField("affinity"):
        found += _of_affinity(spec.affinity, f"{path}.affinity")
    for index, spread in enumerate(spec.topologySpreadConstraints):
        at = f"{path}.topologySpreadConstraints[{index}]"
        found += texts.node_label(spread.topologyKey, f"{at}.topologyKey")
        if not spread.HasField("labelSelector"):
            found.append(f"{at}.labelSelector: {_NULL_SELECTOR}")
    found += _of_aliases(spec, f"{path}.hostAliases")
    found += _of_pull_secrets(spec, f"{path}.imagePullSecrets")
    for index, volume in enumerate(spec.volumes):
        found += volumes.of_source(volume.volumeSource, f"{path}.volumes[{index}]")
        found += projections.overlaps(volume.volumeSource, f"{path}.volumes[{index}]")
    found += texts.amounts(spec.overhead, f"{path}.overhead")
    if spec.terminationGracePeriodSeconds < 0:
        found.append(f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are treated as 1")
    for index, server in enumerate(spec.dnsConfig.nameservers):
        found += texts.address(server, f"{path}.dnsConfig.nameservers[{index}]")
    for at, container in _containers(spec, path):
        found += texts.amounts(container.resources.limits, f"{at}.resources.limits")
        found += texts.amounts(container.resources.requests, f"{at}.resources.requests")
        found += _of_environment(container, at)
    found += _of_ports(spec, path)
    return found


def _containers(spec: core.PodSpec, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every container with its path; ephemeral ones too, which look alike."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(getattr(spec, field)):
            yield f"{path}.{field}[{index}]", container
    for index, ephemeral in enumerate(spec.ephemeralContainers):
        yield f"{path}.ephemeralContainers[{index}]", ephemeral.ephemeralContainerCommon


def _of_affinity(affinity: core.Affinity, path: str) -> list[str]:
    nodes = affinity.nodeAffinity
    at = f"{path}.nodeAffinity"
    found = texts.node_terms(
        (f"{at}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate(nodes.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms)
    )
    found += texts.node_terms(
        (f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference", wish.preference)
        for index, wish in enumerate(nodes.preferredDuringSchedulingIgnoredDuringExecution)
    )
    for field in ("podAffinity", "podAntiAffinity"):
        rules = getattr(affinity, field)
        at = f"{path}.{field}.requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.requiredDuringSchedulingIgnoredDuringExecution):
            if not term.HasField("labelSelector"):
                found.append(f"{at}[{index}].labelSelector: {_NULL_SELECTOR}")
        at = f"{path}.{field}.preferredDuringSchedulingIgnoredDuringExecution"
        for index, wish in enumerate(rules.preferredDuringSchedulingIgnoredDuringExecution):
            if not wish.podAffinityTerm.HasField("labelSelector"):
                found.append(f"{at}[{index}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}")
    return found


def _of_aliases(spec: core.PodSpec, path: str) -> list[str]:
    found, addresses = [], set()
    for index, alias in enumerate(spec.hostAliases):
        if alias.ip in addresses:
            found.append(f"{path}[{index}].ip: duplicate ip {alias.ip!r}")
        addresses.add(alias.ip)
        found += texts.address(alias.ip, f"{path}[{index}].ip")
        hosts = set()
        for number, host in enumerate(alias.hostnames):
            if host in hosts:
                found.append(f"{path}[{index}].hostnames[{number}]: duplicate hostname {host!r}")
            hosts.add(host)
    return found


def _of_pull_secrets(spec: core.PodSpec, path: str) -> list[str]:
    found, secrets = [], set()
    for index, secret in enumerate(spec.imagePullSecrets):
        if not secret.name:
            found.append(f"{path}[{index}].name: invalid empty name {secret.name!r}")
        elif secret.name in secrets:
            found.append(f"{path}[{index}].name: duplicate name {secret.name!r}")
        secrets.add(secret.name)
    return found


def _of_environment(container: Any, path: str) -> list[str]:
    found, known = [], set()
    for index, variable in enumerate(container.env):
        before = f"$({variable.name})"
        builds_on_it = before in variable.value and variable.value != before and not variable.HasField("valueFrom")
        if variable.name in known and not builds_on_it:
            found.append(
                f"{path}.env[{index}]: hides previous definition of {variable.name!r}, which may be dropped when using "
                "apply"
            )
        known.add(variable.name)
    return found


def _of_ports(spec: core.PodSpec, path: str) -> list[str]:
    """Return what is odd about the ports of all containers, which share the pod's network."""
    found: list[str] = []
    known: dict[tuple[int, str], list[tuple[str, core.ContainerPort]]] = {}
    for at, container in _containers(spec, path):
        for index, port in enumerate(container.ports):
            here = f"{at}.ports[{index}]"
            if port.hostIP and not port.hostPort:
                found.append(f"{here}: hostIP set without hostPort")
            others = known.setdefault((port.containerPort, port.protocol), [])
            for there, other in others[:_COMPARED]:
                what = _likeness(port, other)
                if what:
                    found.append(f"{here}: {what} port definition with {there}")
            others.append((here, port))
    return found


def _likeness(port: core.ContainerPort, other: core.ContainerPort) -> str:
    if (port.hostIP, port.hostPort) == (other.hostIP, other.hostPort):
        return "duplicate"
    if not port.hostPort or not other.hostPort:
        return "overlapping"
    if port.hostPort == other.hostPort and bool(port.hostIP) != bool(other.hostIP):
        return "dangerously ambiguous"
    return ""
