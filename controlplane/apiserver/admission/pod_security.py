"""PodSecurity: a namespace's labels say which of the Pod Security Standards its pods must keep.

``pod-security.kubernetes.io/enforce`` refuses pods, ``warn`` warns whoever makes them, directly or through a workload's
template, and ``audit`` has it written into the audit event; each with a version (``-version``), the newest by default.
A label that makes no sense counts as restricted for enforce, so that a typing error opens nothing; new ones are
refused. Without labels anything goes, as in Kubernetes. The audit event of a pod also says which policy was enforced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver import audit
from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.admission.pod_security_checks import LATEST, Level, violations
from wharfinger.api import errors
from wharfinger.api.errors import FieldError, ForbiddenError
from wharfinger.api.types import core

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_NAMESPACES, _PODS = "/registry/namespaces/", "/registry/pods/"
PREFIX = "pod-security.kubernetes.io/"
_MODES = ("enforce", "audit", "warn")
_LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")
_TEMPLATED = frozenset(
    {
        "replicationcontrollers", "podtemplates", "replicasets.apps", "deployments.apps", "statefulsets.apps",
        "daemonsets.apps", "jobs.batch", "cronjobs.batch",
    }
)  # fmt: skip
_MOST_PODS = 3000
"""Pods that are looked at when a namespace becomes stricter."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A level at a version."""

    level: Level = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def objections(self, pod: core.Pod) -> str:
        """Return what there is to object to a pod, in words; empty for nothing."""
        return ", ".join(map(str, violations(pod, self.level, self.minor)))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace asks for."""

    enforce: Rule = Rule()
    warn: Rule = Rule()
    audit: Rule = Rule()
    flaws: str = ""
    """What makes no sense in the labels."""


def read_policy(labels: Mapping[str, str]) -> tuple[Policy, list[FieldError]]:
    """Read a namespace's labels; what makes no sense is taken as strict as possible, and reported."""
    causes: list[FieldError] = []
    rules: dict[str, Rule] = {}
    for mode in _MODES:
        level: Level = "privileged"
        minor = LATEST
        name = PREFIX + mode
        if name in labels:
            given = next((known for known in _LEVELS if known == labels[name]), None)
            if given is None:
                detail = f"must be one of {', '.join(_LEVELS)}"
                causes.append(FieldError.invalid(f"metadata.labels[{name}]", labels[name], detail))
            level = given or ("restricted" if mode == "enforce" else "privileged")
        wanted = labels.get(f"{name}-version", "latest")
        match = _VERSION.fullmatch(wanted)
        if match is not None:
            minor = int(match[1])
        elif wanted != "latest":
            detail = 'must be "latest" or "v1.x"'
            causes.append(FieldError.invalid(f"metadata.labels[{name}-version]", wanted, detail))
        rules[mode] = Rule(level, minor)
    flaws = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return Policy(rules["enforce"], rules["warn"], rules["audit"], flaws), causes


class PodSecurity(Step):
    """Checks pods, warns about templates, and keeps the labels sound."""

    name: ClassVar[str] = "PodSecurity"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: dict[str, tuple[int, Policy | None]] = {}
        """By namespace, at its revision; None: nothing to do."""

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Namespaces, pods and what makes pods, when created or changed."""
        resource = kind.group_resource
        return operation in ("create", "update") and resource in ("namespaces", "pods", *_TEMPLATED)

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse with 403 what the level does not allow; warn about what another one would not."""
        resource = request.kind.group_resource
        if resource == "namespaces":
            if not request.subresource:
                self._namespace(request, obj, old)
            return None
        policy = self._policy(request.namespace)
        if resource == "pods":
            if (old is None and not request.subresource) or request.subresource == "ephemeralcontainers":
                audit.annotate(f"{PREFIX}enforce-policy", str((policy or _PRIVILEGED).enforce))
                if policy is not None:
                    self._pod(request, obj, policy)
        elif not request.subresource and policy is not None:
            self._template(request, obj, policy)
        return None

    def _policy(self, namespace: str) -> Policy | None:
        entry = self._cache.get(_NAMESPACES + namespace)
        if entry is None:
            return None
        known = self._known.get(namespace)
        if known is None or known[0] != entry.mod_revision:
            labels = entry.decoded.metadata.labels
            concerned = any(name.startswith(PREFIX) for name in labels)
            policy = read_policy(labels)[0] if concerned else None
            known = self._known[namespace] = (entry.mod_revision, None if policy == Policy() else policy)
            if len(self._known) > 10_000:
                self._known.clear()
        return known[1]

    @staticmethod
    def _pod(request: Request, pod: core.Pod, policy: Policy) -> None:
        _audit(pod, policy)
        why = policy.enforce.objections(pod)
        if why:
            name = pod.metadata.name
            raise ForbiddenError(
                f'pods "{name}" is forbidden: violates PodSecurity "{policy.enforce}": {why}', name=name, kind="pods"
            )
        _warn(request, pod, policy)

    @staticmethod
    def _template(request: Request, obj: Any, policy: Policy) -> None:
        match request.kind.resource:
            case "podtemplates":
                template = obj.template
            case "cronjobs":
                template = obj.spec.jobTemplate.spec.template
            case _:
                template = obj.spec.template
        pod = core.Pod(metadata=template.metadata, spec=template.spec)
        _audit(pod, policy)
        _warn(request, pod, policy)

    def _namespace(self, request: Request, obj: Any, old: Any) -> None:
        policy, causes = read_policy(obj.metadata.labels)
        before = read_policy(old.metadata.labels) if old is not None else (Policy(), [])
        if causes and causes != before[1]:
            raise errors.invalid("Namespace", "", obj.metadata.name, causes)
        rule = policy.enforce
        if old is None or rule == before[0].enforce or rule.level == "privileged":
            return
        found: dict[str, list[str]] = {}
        for entry in self._cache.list(_PODS, namespace=obj.metadata.name, limit=_MOST_PODS).entries:
            why = rule.objections(entry.decoded)
            if why:
                found.setdefault(why, []).append(entry.name)
        if not found:
            return
        lines = [f'existing pods in namespace "{obj.metadata.name}" violate the new PodSecurity enforce level "{rule}"']
        for why, names in sorted(found.items(), key=lambda item: item[1][0]):
            others = len(names) - 1
            more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
            lines.append(f"{names[0]}{more}: {why}")
        request.warnings += [line for line in lines if line not in request.warnings]


_PRIVILEGED = Policy()


def _audit(pod: core.Pod, policy: Policy) -> None:
    """Write into the audit event what another level would object to; nothing is looked at when there is none."""
    if audit.current() is None:
        return
    if policy.flaws:
        audit.annotate(f"{PREFIX}error", f"Failed to parse policy: {policy.flaws}")
    why = policy.audit.objections(pod)
    if why:
        audit.annotate(f"{PREFIX}audit-violations", f'would violate PodSecurity "{policy.audit}": {why}')


def _warn(request: Request, pod: core.Pod, policy: Policy) -> None:
    why = policy.warn.objections(pod)
    if why:
        text = f'would violate PodSecurity "{policy.warn}": {why}'
        if text not in request.warnings:
            request.warnings.append(text)
