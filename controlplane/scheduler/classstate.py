"""Verdicts and scores of one kind of pod over all nodes, kept current row by row.

Building it costs a pass over all nodes for each plugin. From then on :meth:`ClassState.sync` looks into the node
table's journal and computes only the rows that changed, and of those only the plugins that read what changed: after a
placement that is one row of the resource plugins. So a decision costs the same few numpy calls on one row, plus one
search for the highest total, whatever the number of nodes.

Normalised scores depend on all feasible nodes at once, but only through their bounds (usually the maximum). The whole
column is scaled again only when the bounds have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
_NO_ROWS: NDArray[np.intp] = np.zeros(0, np.intp)


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
        self._sum: Ints | None = None
        """The total of all rows, feasible or not, for kinds whose scores all move with each placement."""
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
        self._sum = None
        self.total = np.where(feasible, total, INFEASIBLE)

    # -- a few rows

    def _update(self, changed: list[int], aspects: int) -> None:
        self.history.begin(self)
        rows: Rows = slice(changed[0], changed[0] + 1) if len(changed) == 1 else np.array(changed, np.intp)
        delta = Delta(self.table.position, rows)
        feasible = self._filter_rows(rows, aspects, delta)
        elsewhere = self._follow_stamps(delta) if self._stamped else _NO_ROWS
        if elsewhere is None:
            suspects = self._compute_feasible()
        else:
            if len(elsewhere):
                rows = np.union1d(np.array(changed, np.intp), elsewhere)
                feasible = self._feasible_at(rows)
            suspects = self._take_feasible(rows, feasible)
        before = [scored.scaled for scored in self.scores]
        moved = []
        for index, scored in enumerate(self.scores):
            if scored.score.focused:
                scored.score.focus(self.feasible)
            stale = bool(aspects & (scored.score.reads | Aspect.EXISTENCE))
            if scored.update(index, delta.rows, alive=self.table.alive, stale=stale, delta=delta) or (
                index in suspects and scored.moved(self.feasible)
            ):
                moved.append(index)
        self.history.add(delta)
        if moved:
            self._scale(moved, before)
        if self._sum is not None:
            self._sum[rows] = self._sum_at(rows)
        if elsewhere is None or moved:
            self.total = np.where(self.feasible, self._whole_sum(), INFEASIBLE)
        else:
            self.total[rows] = np.where(feasible, self._sum_at(rows), INFEASIBLE)

    def _scale(self, moved: Sequence[int], before: Sequence[Ints]) -> None:
        """Normalise some scores anew, and take the difference to their sum; `before` is of all scores."""
        for index in moved:
            scored = self.scores[index]
            scored.scale(self.feasible)
            if self._sum is None:
                continue
            old, new = before[index], scored.scaled
            if old.flags.writeable or new.flags.writeable:
                self._sum += scored.weight * (new - old)
            elif len(new) and new[0] != old[0]:  # the same for all nodes
                self._sum += scored.weight * int(new[0] - old[0])

    def _whole_sum(self) -> Ints:
        """Return the weighted sum over all rows, feasible or not; kept from the first time on that it is wanted."""
        if self._sum is None:
            self._sum = np.zeros(self.table.size, np.int64)
            for scored in self.scores:
                self._sum += scored.weight * scored.scaled
        return self._sum

    def _sum_at(self, rows: Rows) -> Ints:
        total = np.zeros(len(self.table.alive[rows]), np.int64)
        for scored in self.scores:
            total += scored.weight * scored.scaled[rows]
        return total

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

    def _follow_stamps(self, delta: Delta) -> NDArray[np.intp] | None:
        """Compute filters again whose verdicts depend on several nodes at once.

        Returns the rows where any has changed; None when they are many.
        """
        alive = self.table.alive
        found: list[NDArray[np.intp]] = []
        for index, column in self._stamped:
            if column.stamp != column.filter.stamp():
                differ = column.compute(alive)
                if len(differ):
                    delta.spread.append((index, differ, column.codes[differ]))
                    found.append(differ)
        if not found:
            return _NO_ROWS
        if sum(map(len, found)) > _FEW:
            return None
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _feasible_at(self, rows: Rows) -> Bools:
        feasible = self.table.alive[rows]
        for column in self.filters:
            feasible = feasible & (column.codes[rows] == 0)
        return np.zeros_like(feasible) if self.refusal else feasible

    def _compute_feasible(self) -> Sequence[int]:
        """Put together anew which rows are feasible; returns the scores whose bounds may have moved."""
        alive = self.table.alive
        feasible = np.zeros_like(alive) if self.refusal else alive.copy()
        for column in self.filters:
            if column.codes.flags.writeable or column.codes[:1].any():
                feasible &= column.codes == 0
        count = self.feasible_count
        self.feasible = feasible
        return self._suspects(count)

    def _take_feasible(self, rows: Rows, feasible: Bools) -> Sequence[int]:
        """Take over which of the rows are feasible; returns the scores whose bounds that may have moved."""
        before = self.feasible[rows]
        if not (feasible != before).any():
            return ()
        count = self.feasible_count
        self.feasible[rows] = feasible
        return self._suspects(count)

    def _suspects(self, count: int) -> Sequence[int]:
        """Count the feasible rows, of which there were `count`; returns the scores whose bounds may have moved."""
        self.feasible_count = int(np.count_nonzero(self.feasible))
        crossed = (count == 0) != (self.feasible_count == 0)
        return [
            index
            for index, scored in enumerate(self.scores)
            if scored.bounds is not None and (crossed or not scored.uniform)
        ]

    # -- reading

    def narrowed(self, feasible: Bools) -> Ints:
        """Return the totals if only some of the feasible nodes were."""
        total = np.zeros(self.table.size, np.int64)
        for scored in self.scores:
            total += scored.weight * scored.seen_with(feasible)[1]
            if scored.score.focused:
                scored.score.focus(self.feasible)
        return np.where(feasible, total, INFEASIBLE)

    def total_alone(self, row: int) -> int:
        """Return the total of a node if only that one were feasible, without looking at the others."""
        value = 0
        for scored in self.scores:
            if scored.score.focused:
                value += scored.weight * int(scored.seen_with(_single(row, self.table.size))[1][row])
                scored.score.focus(self.feasible)
                continue
            raw = scored.raw[row : row + 1]
            bounds = scored.score.bounds(raw)
            value += scored.weight * int((raw if bounds is None else scored.score.scale(raw, bounds))[0])
        return value

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
