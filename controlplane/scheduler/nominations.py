"""Pods for which a node is being cleared: until they are placed, they count there for pods of no higher priority."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from controlplane.scheduler.framework import Bools, Ints
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.residents import Resident

_REMEMBERED = 4096
_PRIORITIES = 16
"""Priorities for which sums are kept."""


class _Sums:
    """What nominated pods of some priority or a higher one ask for, over all rows."""

    __slots__ = ("extra", "stamp", "there", "version")

    def __init__(self) -> None:
        self.version: tuple[int, int] | None = None
        self.stamp = 0
        self.extra: Ints = np.zeros((0, 0), np.int64)
        self.there: Bools = np.zeros(0, np.bool_)


class Nominations:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Resident]] = {}
        self._nodes: dict[str, str] = {}
        self.stamp = 0
        """Changes with each nomination that comes or goes."""
        self._changed: deque[str] = deque(maxlen=_REMEMBERED)
        """The nodes of the latest changes."""
        self._sums: dict[int, _Sums] = {}
        self._new_usages: list[Resident] = []

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def set(self, key: str, resident: Resident) -> None:
        """Count a pod as nominated to the node that `resident` names."""
        before = self._by_node.get(self._nodes.get(key, ""), {}).get(key)
        if before is None or before.usage is not resident.usage:
            self._new_usages.append(resident)
        if before is not None and (before.node, before.priority) == (resident.node, resident.priority):
            self._by_node[resident.node][key] = resident
            self._note(resident.node)
            return
        self.remove(key)
        self._nodes[key] = resident.node
        self._by_node.setdefault(resident.node, {})[key] = resident
        self._note(resident.node)

    def remove(self, key: str) -> None:
        """Forget a nomination, if there is one."""
        node = self._nodes.pop(key, None)
        if node is None:
            return
        others = self._by_node[node]
        del others[key]
        if not others:
            del self._by_node[node]
        self._note(node)

    def _note(self, node: str) -> None:
        self.stamp += 1
        self._changed.append(node)

    def changed_since(self, stamp: int) -> Iterable[str] | None:
        """Return the nodes where nominations have come or gone after a stamp; None when that is too long ago."""
        count = self.stamp - stamp
        if count > len(self._changed):
            return None
        return islice(reversed(self._changed), count)

    def nodes(self) -> Iterator[str]:
        """Return the nodes that somebody is nominated to."""
        return iter(list(self._by_node))

    def on(self, node: str) -> dict[str, Resident]:
        """Return the pods nominated to a node."""
        return self._by_node.get(node, {})

    def node_of(self, key: str) -> str:
        """Return the node that a pod is nominated to; empty when it is not."""
        return self._nodes.get(key, "")

    def summed(self, table: NodeTable, priority: int) -> tuple[Bools, Ints]:
        """Return where pods of a priority or a higher one are nominated, and what they ask for (resources x rows)."""
        known = self._sums.get(priority)
        if known is None:
            if len(self._sums) >= _PRIORITIES:
                self._sums.clear()
            known = self._sums[priority] = _Sums()
        self._bring_up_to_date(known, table, priority)
        return known.there, known.extra

    def _bring_up_to_date(self, known: _Sums, table: NodeTable, priority: int) -> None:
        for resident in self._new_usages:
            table.vector(resident.usage)  # may make room for resources that no node has
        self._new_usages.clear()
        version = (table.layout, table.geography)
        nodes = self.changed_since(known.stamp) if known.version == version else None
        if nodes is None:
            known.version = version
            known.extra = np.zeros((len(table.resources), table.size), np.int64)
            known.there = np.zeros(table.size, np.bool_)
            nodes = self._by_node
        for node in set(nodes):
            row = table.rows.get(node)
            if row is None:
                continue
            against = self.against(node, key="", priority=priority)
            known.extra[:, row] = 0
            known.there[row] = bool(against)
            for _, resident in against:
                known.extra[:, row] += table.vector(resident.usage)
        known.stamp = self.stamp

    def against(self, node: str, *, key: str, priority: int) -> list[tuple[str, Resident]]:
        """Return the nominated pods that count on a node for a pod of a key and priority."""
        return [
            (other, resident)
            for other, resident in self._by_node.get(node, {}).items()
            if resident.priority >= priority and other != key
        ]
