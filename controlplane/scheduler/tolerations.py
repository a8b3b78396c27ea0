"""Which taints a pod tolerates, as ``k8s.io/api/core/v1`` defines it for tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.scheduler.nodetable import Taint
from wharfinger.api.types import core

Tolerations = Iterable[core.Toleration]


def tolerates(toleration: core.Toleration, taint: Taint) -> bool:
    """Whether one toleration covers a taint; an empty key with Exists covers every key, an empty effect all effects."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Tolerations, effects: tuple[str, ...]) -> list[Taint]:
    """Return the taints of the given effects that nothing tolerates."""
    listed = list(tolerations)
    return [
        taint for taint in taints if taint.effect in effects and not any(tolerates(entry, taint) for entry in listed)
    ]
