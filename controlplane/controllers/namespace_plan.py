"""What a dying namespace has left, and how that is told: pure.

The conditions are Kubernetes' own; beyond its counts the messages name some of the objects, because "which one?" is
what everybody asks next (kubernetes/kubernetes#60807).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.controllers.objects import condition_of, wall_time
from wharfinger.api.types import core

FINALIZER = "kubernetes"
"""In ``spec.finalizers`` until the namespace is empty."""
SHOWN = 3
"""Objects of one kind that a message names."""
POLL_SECONDS = 1.0
FINALIZER_POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """One object that is still there."""

    name: str
    finalizers: tuple[str, ...] = ()
    grace_seconds: int = 0


@dataclass(slots=True)
class Leftovers:
    """What one pass over a namespace found after it had deleted."""

    objects: dict[str, list[Leftover]] = field(default_factory=dict)
    """By resource (``deployments.apps``); only those with something left."""
    failures: dict[str, str] = field(default_factory=dict)
    """Resources that could not be emptied, with the error."""
    waiting: tuple[str, ...] = ()
    """Resources not begun yet, because pods go first."""

    @property
    def done(self) -> bool:
        """Whether the namespace is empty."""
        return not self.objects and not self.failures and not self.waiting

    def next_look(self) -> float:
        """Return seconds until another pass is worth while; changes of pods come earlier by themselves."""
        if self.failures:
            return POLL_SECONDS
        grace = max((item.grace_seconds for items in self.objects.values() for item in items), default=0)
        if grace:
            return max(POLL_SECONDS, grace / 4)
        stuck = all(item.finalizers for items in self.objects.values() for item in items)
        return FINALIZER_POLL_SECONDS if stuck and self.objects else POLL_SECONDS


def plan_conditions(namespace: core.Namespace, left: Leftovers) -> list[core.NamespaceCondition]:
    """Return the conditions that tell of what is left; a condition that does not change keeps its time."""
    failed = "; ".join(f"{resource}: {error}" for resource, error in sorted(left.failures.items()))
    finalizers = _finalizers(left.objects)
    told = [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            True,
            "ContentDeletionFailed",
            f"Failed to delete all resource types: {failed}",
        )
        if failed
        else (
            "NamespaceDeletionContentFailure",
            False,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", True, "SomeResourcesRemain", f"Some resources are remaining: {_counts(left)}")
        if left.objects
        else ("NamespaceContentRemaining", False, "ContentRemoved", "All content successfully removed"),
        (
            "NamespaceFinalizersRemaining",
            True,
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {finalizers}",
        )
        if finalizers
        else (
            "NamespaceFinalizersRemaining",
            False,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ]
    return [_condition(namespace.status.conditions, *entry) for entry in told]


def _condition(
    present: Iterable[core.NamespaceCondition], type_: str, holds: bool, reason: str, message: str
) -> core.NamespaceCondition:
    status = "True" if holds else "False"
    condition = core.NamespaceCondition(type=type_, status=status, reason=reason, message=message)
    old = condition_of(present, type_)
    kept = old is not None and old.status == status
    condition.lastTransitionTime.CopyFrom(old.lastTransitionTime if kept and old is not None else wall_time())
    return condition


def _counts(left: Leftovers) -> str:
    parts = [
        f"{resource}. has {len(items)} resource instances ({_some(items)})"
        for resource, items in sorted(left.objects.items())
    ]
    if left.waiting:
        parts.append("other resources are deleted once the pods are gone")
    return ", ".join(parts)


def _some(items: Sequence[Leftover]) -> str:
    names = sorted(item.name for item in items)
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _finalizers(objects: Mapping[str, Sequence[Leftover]]) -> str:
    counts: Counter[str] = Counter()
    holders: dict[str, list[str]] = {}
    for resource, items in sorted(objects.items()):
        for item in items:
            for finalizer in item.finalizers:
                counts[finalizer] += 1
                holders.setdefault(finalizer, []).append(f"{resource}/{item.name}")
    parts = []
    for finalizer, count in sorted(counts.items()):
        some = ", ".join(holders[finalizer][:SHOWN])
        more = f", and {count - SHOWN} more" if count > SHOWN else ""
        parts.append(f"{finalizer} in {count} resource instances ({some}{more})")
    return ", ".join(parts)
