"""What is known of victims from earlier searches, node by node, as long as the node stays as it was.

For pods of one kind and priority, where only sums of resources count: the next pod of the kind costs a few array
operations and a search of the nodes that have changed. Only as many nodes are looked at as are needed for enough
candidates.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Bools, Ints, Refusal
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.victims import Alike, Candidate, Search

if TYPE_CHECKING:
    from controlplane.scheduler.nominations import Nominations

RANKS = 5
"""Numbers in a rank."""
_AT_ONCE = 32
"""Nodes that are searched before it is looked anew at how many are needed."""
_WINDOW = 64
"""Fewest nodes that are looked at together."""


class Found:
    """What was found on nodes for pods of a kind and priority, by row; for searches where only sums count."""

    __slots__ = (
        "_nominated", "_version", "alike", "candidate", "ranks", "results", "searched", "touched", "violating",
    )  # fmt: skip

    def __init__(self) -> None:
        self._version: Hashable = None
        self._nominated = 0
        self.alike: Alike = {}
        self.searched = -1
        """Where the table's journal stood at the latest search, whatever counts."""
        self.touched: Ints = np.zeros(0, np.int64)
        """The latest change of each row when it was searched; -1 when it was not, or must be again."""
        self.results: NDArray[np.object_] = np.zeros(0, np.object_)
        """Candidate or Refusal."""
        self.candidate: Bools = np.zeros(0, np.bool_)
        self.violating: Bools = np.zeros(0, np.bool_)
        """Whether the victims of a candidate violate a budget."""
        self.ranks: NDArray[np.float64] = np.zeros((RANKS, 0))

    def _sync(self, table: NodeTable, nominations: Nominations, version: Hashable) -> None:
        """Forget what no longer holds."""
        nodes = nominations.changed_since(self._nominated)
        self._nominated = nominations.stamp
        version = (version, table.layout, table.size)
        if nodes is None or version != self._version:
            self._version = version
            self.alike.clear()
            self.touched = np.full(table.size, -1, np.int64)
            self.results = np.full(table.size, None, np.object_)
            self.candidate = np.zeros(table.size, np.bool_)
            self.violating = np.zeros(table.size, np.bool_)
            self.ranks = np.zeros((RANKS, table.size))
            return
        for node in nodes:
            row = table.rows.get(node)
            if row is not None:
                self.touched[row] = -1

    def note(self, row: int, touched: int, result: Candidate | Refusal) -> None:
        """Keep what was found on the node of a row."""
        self.touched[row] = touched
        self.results[row] = result
        self.candidate[row] = isinstance(result, Candidate)
        if isinstance(result, Candidate):
            self.ranks[:, row] = result.rank
            self.violating[row] = result.violations > 0

    def know(self, search: Search, rows: NDArray[np.intp], enough: int) -> NDArray[np.intp]:
        """Search nodes, in order, until there are enough candidates; returns those that had to be tried."""
        table = search.table
        self._sync(table, search.nominations, (table.importance_stamp, tuple(search.budgets)))
        own = table.rows.get(search.pod.nominated) if search.pod.nominated else None
        if own is not None:  # there the pod does not count as nominated for itself
            self.touched[own] = -1
        window = max(_WINDOW, 2 * enough)
        while True:
            some = rows[:window]
            known = self.touched[some] == table.touched[some]
            needed = _needed(known & self.candidate[some], self.violating[some], enough)
            unknown = np.flatnonzero(~known[:needed])[:_AT_ONCE]
            for row in some[unknown].tolist():
                self.note(row, int(table.touched[row]), search.search(row))
            if len(unknown):
                continue
            if needed < len(some) or window >= len(rows):
                break
            window *= 2
        if own is not None:
            self.touched[own] = -1
        return rows[:needed]

    def best(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those of some candidates that tie for the first place."""
        for level in range(RANKS):
            if len(rows) < 2:
                break
            values = self.ranks[level, rows]
            rows = rows[values == values.min()]
        return rows


def _needed(candidate: Bools, violating: Bools, enough: int) -> int:
    """Return how many nodes have to be tried so that there are enough candidates, one without violations among them."""
    reached = int(np.searchsorted(np.cumsum(candidate), enough))
    clean = candidate & ~violating
    first = int(clean.argmax()) if clean.any() else len(clean)
    return min(len(candidate), max(reached, first) + 1)
