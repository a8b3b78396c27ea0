"""Verdicts and scores of one kind of pod over all nodes, kept current row by row.

Building it costs a pass over all nodes for each plugin. From then on :meth:`ClassState.sync` looks into the node
table's journal and computes only the rows that changed, and of those only the plugins that read what changed: after a
placement that is one row of the resource plugins. So a decision costs the same few numpy calls on one row, plus one
search for the highest total, whatever the number of nodes.

Normalised scores depend on all feasible nodes at once, but only through their bounds (usually the maximum). The whole
column is scaled again only when the bounds have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np

from controlplane.scheduler.columns import FilterColumn, ScoreColumn
from controlplane.scheduler.framework import Aspect, Bools, Filter, Ints, Refusal, Rows, Score
from controlplane.scheduler.history import Delta, History

if TYPE_CHECKING:
    from controlplane.scheduler.nodetable import NodeTable
    from controlplane.scheduler.podinfo import PodClass
    from controlplane.scheduler.profile import Profile

INFEASIBLE = -1
"""Total of a node that cannot take the pod."""

_REBUILD_SHARE = 4
"""With more than one in so many rows changed, everything is computed again."""
_FEW = 16


class ClassState:
    """All that is known of one kind of pod and every node."""

    def __init__(
        self, profile: Profile, pod: PodClass, table: NodeTable, *, kinds: Callable[[], int] = lambda: 1
    ) -> None:
        self.profile = profile
        self.pod = pod
        self.table = table
        self.refusal: Refusal | None = None
        """Set when a plugin refuses the pods as such, whatever the node."""
        self.filters: list[FilterColumn] = []
        self._stamped: list[tuple[int, FilterColumn]] = []
        self.scores: list[ScoreColumn] = []
        self.feasible: Bools = np.zeros(0, np.bool_)
        self.feasible_count = 0
        self.total: Ints = np.zeros(0, np.int64)
        self.position = -1
        self._basis: Hashable = None
        self._basis_stamp = -1
        """Up to where in the table's journal this is current."""
        self.history = History(kinds)
        self._layout = -1

    def sync(self) -> None:
        """Take in what has changed in the table."""
        table = self.table
        if self.position == table.position and self._layout == table.layout and self._basis_stamp == table.basis:
            return
        if self._basis_stamp != table.basis and self._basis_moved():
            self._layout = -1
        changes = table.changes_since(self.position) if self._layout == table.layout else None
        if changes is None or len(changes[0]) > max(_FEW, table.size // _REBUILD_SHARE):
            self._build()
        else:
            self._update(*changes)
        self.position = table.position

    def _basis_moved(self) -> bool:
        self._basis_stamp = self.table.basis
        basis = tuple(plugin.basis(self.pod, self.table) for plugin in self.profile.grounded)
        moved, self._basis = basis != self._basis, basis
        return moved

    # -- everything

    def _build(self) -> None:
        table = self.table
        self._basis_moved()
        self.refusal = None
        filters: list[Filter] = []
        for plugin in self.profile.filters:
            prepared = plugin.prepare_filter(self.pod, table)
            if isinstance(prepared, Refusal):
                self.refusal = self.refusal or prepared
            elif prepared is not None:
                filters.append(prepared)
        scores: list[tuple[Score, int]] = []
        for scorer, weight in self.profile.scores:
            score = scorer.prepare_score(self.pod, table)
            if score is not None:
                scores.append((score, weight))
        self._layout = table.layout  # preparing may have added resources
        alive = table.alive
        feasible = np.zeros_like(alive) if self.refusal else alive.copy()
        self.filters = [FilterColumn(entry, alive) for entry in filters]
        self._stamped = [(index, column) for index, column in enumerate(self.filters) if column.filter.stamped]
        for column in self.filters:
            feasible &= column.codes == 0
        self.feasible = feasible
        self.feasible_count = int(np.count_nonzero(feasible))
        self.scores = [ScoreColumn(score, weight, alive, feasible) for score, weight in scores]
        self._scale_all()
        self.history.restart(table.position)

    def _scale_all(self) -> None:
        feasible = self.feasible
        total = np.zeros(self.table.size, np.int64)
        for scored in self.scores:
            scored.scale(feasible)
            total += scored.weight * scored.scaled
        self.total = np.where(feasible, total, INFEASIBLE)

    # -- a few rows

    def _update(self, changed: list[int], aspects: int) -> None:
        self.history.begin(self)
        rows: Rows = slice(changed[0], changed[0] + 1) if len(changed) == 1 else np.array(changed, np.intp)
        delta = Delta(self.table.position, rows)
        feasible = self._filter_rows(rows, aspects, delta)
        if self._stamped and self._follow_stamps(delta):
            check = rescale = True
            feasible = self.feasible[rows]
        else:
            check = self._take_feasible(rows, feasible)
            rescale = False
        for index, scored in enumerate(self.scores):
            if scored.score.focused:
                scored.score.focus(self.feasible)
            stale = bool(aspects & (scored.score.reads | Aspect.EXISTENCE))
            rescale |= scored.update(index, rows, alive=self.table.alive, stale=stale, delta=delta)
        self.history.add(delta)
        if rescale or (check and any(scored.moved(self.feasible) for scored in self.scores)):
            self._scale_all()
            return
        total = np.zeros(len(feasible), np.int64)
        for scored in self.scores:
            total += scored.weight * scored.scaled[rows]
        self.total[rows] = np.where(feasible, total, INFEASIBLE)

    def _filter_rows(self, rows: Rows, aspects: int, delta: Delta) -> Bools:
        alive = feasible = self.table.alive[rows]
        if aspects & Aspect.EXISTENCE:
            delta.alive = alive.copy()
        for index, column in enumerate(self.filters):
            if not column.filter.stamped and aspects & (column.filter.reads | Aspect.EXISTENCE):
                codes = column.update(rows, alive)
                delta.codes.append((index, codes))
            else:
                codes = column.codes[rows]
            feasible = feasible & (codes == 0)
        return np.zeros_like(feasible) if self.refusal else feasible

    def _follow_stamps(self, delta: Delta) -> bool:
        """Compute filters again whose verdicts depend on several nodes at once; returns whether any did change."""
        alive = self.table.alive
        changed = False
        for index, column in self._stamped:
            if column.stamp != column.filter.stamp():
                changed = True
                differ = column.compute(alive)
                delta.spread.append((index, differ, column.codes[differ]))
        if not changed:
            return False
        feasible = np.zeros_like(alive) if self.refusal else alive.copy()
        for column in self.filters:
            feasible &= column.codes == 0
        self.feasible = feasible
        self.feasible_count = int(np.count_nonzero(feasible))
        return True

    def _take_feasible(self, rows: Rows, feasible: Bools) -> bool:
        """Take over which of the rows are feasible; returns whether that may move the bounds of a score."""
        before = self.feasible[rows]
        if not (feasible != before).any():
            return False
        count = self.feasible_count
        self.feasible[rows] = feasible
        self.feasible_count = int(np.count_nonzero(self.feasible))
        crossed = (count == 0) != (self.feasible_count == 0)
        return any(scored.bounds is not None and (crossed or not scored.uniform) for scored in self.scores)

    # -- reading

    def narrowed(self, feasible: Bools) -> Ints:
        """Return the totals if only some of the feasible nodes were."""
        rows = np.flatnonzero(feasible)
        if len(rows) == 1:
            return self._narrowed_to_one(int(rows[0]))
        total = np.zeros(self.table.size, np.int64)
        for scored in self.scores:
            total += scored.weight * scored.seen_with(feasible)[1]
            if scored.score.focused:
                scored.score.focus(self.feasible)
        return np.where(feasible, total, INFEASIBLE)

    def _narrowed_to_one(self, row: int) -> Ints:
        """Do the same for a single node, without looking at the others."""
        value = 0
        for scored in self.scores:
            if scored.score.focused:
                value += scored.weight * int(scored.seen_with(_single(row, self.table.size))[1][row])
                scored.score.focus(self.feasible)
                continue
            raw = scored.raw[row : row + 1]
            bounds = scored.score.bounds(raw)
            value += scored.weight * int((raw if bounds is None else scored.score.scale(raw, bounds))[0])
        total = np.full(self.table.size, INFEASIBLE, np.int64)
        total[row] = value
        return total

    def first_refusal(self, row: int) -> Refusal | None:
        """Return the refusal of the first filter that refuses a row *now*, nothing kept being asked."""
        if self.refusal is not None:
            return self.refusal
        here = slice(row, row + 1)
        for column in self.filters:
            code = int(column.filter.codes(here)[0])
            if code:
                return column.filter.refusal(code)
        return None

    def best(self) -> Ints:
        """Return the rows with the highest total; empty when no node is feasible."""
        if self.feasible_count == 0:
            return np.zeros(0, np.intp)
        top = self.total.max()
        return np.flatnonzero(self.total == top)


def _single(row: int, size: int) -> Bools:
    only = np.zeros(size, np.bool_)
    only[row] = True
    return only
