"""PriorityClasses: a generation without a status."""

from __future__ import annotations

from controlplane.apiserver.strategies.base import Strategy


class PriorityClassStrategy(Strategy):
    """How priority classes differ: their generation is counted although they have no spec."""

    generation = True
