"""Leases: renewed with a version, never blindly."""

from __future__ import annotations

from controlplane.apiserver.strategies.base import Strategy


class LeaseStrategy(Strategy):
    """How leases differ: whoever renews must say what it has seen."""

    unconditional_update = False
    generation = False
