"""Nodes: registered with their status by their agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    pass


class NodeStrategy(Strategy):
    """How nodes differ: an agent creates its node with the status in it, and no generation is counted."""

    generation = False
    keeps_status_on_create = True
