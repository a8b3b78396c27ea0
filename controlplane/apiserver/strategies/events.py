"""Events: they expire, own nothing and may be written by updates."""

from __future__ import annotations

from controlplane.apiserver.strategies.base import Strategy


class EventStrategy(Strategy):
    """How events differ, in both of their groups."""

    garbage_policy = "Unsupported"
    create_on_update = True
