"""PriorityClasses: a generation without a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    from wharfinger.api.types import scheduling


class PriorityClassStrategy(Strategy):
    """How priority classes differ: they have a generation although nothing of them that counts may change."""

    generation = True

    def changes_generation(self, obj: scheduling.PriorityClass, old: scheduling.PriorityClass) -> bool:
        """Never: what may change is a description."""
        return False
