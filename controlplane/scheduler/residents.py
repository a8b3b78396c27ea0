"""Pods as a node table counts them, and what-if: pods that are supposed to be there, or not, for a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.scheduler.nodetable import NodeTable
    from controlplane.scheduler.peers import Peer
    from controlplane.scheduler.podinfo import Usage


class Resident:
    """A pod that counts on a node."""

    __slots__ = ("leaving", "node", "peer", "priority", "started", "usage")

    def __init__(
        self, node: str, usage: Usage, peer: Peer, *, priority: int = 0, started: float = 0.0, leaving: bool = False
    ) -> None:
        self.node = node
        self.usage = usage
        self.peer = peer
        self.priority = priority
        self.started = started
        """Unix seconds; 0 when it has not started."""
        self.leaving = leaving
        """Whether it is being deleted to make room for a more important pod."""


class Supposition:
    """Changes of a node table that are taken back."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._changed: dict[str, Resident | None] = {}

    def without(self, key: str) -> None:
        """Suppose that a pod was not there."""
        before = self._table.placed.get(key)
        self._changed.setdefault(key, before)
        self._table.remove(key)

    def having(self, key: str, resident: Resident) -> None:
        """Suppose that a pod was there."""
        self._changed.setdefault(key, self._table.placed.get(key))
        self._table.remove(key)
        self._table.put(key, resident)

    def undo(self) -> None:
        """Take all back."""
        for key, before in self._changed.items():
            self._table.remove(key)
            if before is not None:
                self._table.put(key, before)
        self._changed.clear()
