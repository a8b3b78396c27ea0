"""Which taints of a node a pod tolerates."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.scheduler.observed import Taint
from wharfinger.api import pods
from wharfinger.api.types import core


def tolerates(tolerations: Iterable[core.Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers a taint."""
    return pods.tolerates(tolerations, core.Taint(key=taint.key, value=taint.value, effect=taint.effect))


def untolerated(
    taints: Iterable[Taint], tolerations: Iterable[core.Toleration], effects: tuple[str, ...]
) -> list[Taint]:
    """Return the taints of the given effects that nothing tolerates."""
    listed = list(tolerations)
    return [taint for taint in taints if taint.effect in effects and not tolerates(listed, taint)]
