"""How verdicts and scores of a kind of pod have changed: to explain a placement as it was decided.

Each update of a :class:`~controlplane.scheduler.classstate.ClassState` yields small arrays anyway; keeping the latest
of them beside a starting point costs next to nothing, and lets the arrays of any recent decision be
put together again when somebody asks why a pod is where it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.columns import T, repeated, writable
from controlplane.scheduler.framework import Bools, Ints, Rows

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState

KEPT = 16_384
"""Updates that are kept, over all kinds of pods together."""
CELLS = 2_000_000
"""Numbers that are kept, over all kinds of pods together: one placement may change the scores of all nodes."""
LEAST = 64
"""Updates that each kind may keep in any case."""


class Delta:
    """One update: the rows, and what was computed again for them."""

    __slots__ = ("alive", "codes", "position", "raw", "rows", "spread", "whole")

    def __init__(self, position: int, rows: Rows) -> None:
        self.position = position
        """Position in the node table's journal after it."""
        self.rows = rows
        self.alive: Bools | None = None
        """Set when nodes came or went."""
        self.codes: list[tuple[int, NDArray[np.int32]]] = []
        """Index of a filter, its codes for the rows."""
        self.raw: list[tuple[int, Ints]] = []
        """Index of a score, its raw scores for the rows."""
        self.spread: list[tuple[int, NDArray[np.intp], NDArray[np.int32]]] = []
        """Index of a filter, rows anywhere, their codes."""
        self.whole: list[tuple[int, Rows, Ints]] = []
        """Index of a score, rows anywhere, their raw scores (one for all rows of a slice)."""

    @property
    def cells(self) -> int:
        """About how many numbers are kept beyond the usual few."""
        return sum(len(rows) for _, rows, _ in self.spread) + sum(len(raw) for _, _, raw in self.whole)


class Picture:
    """Codes and raw scores over all rows at one moment."""

    __slots__ = ("alive", "codes", "raw")

    def __init__(self, codes: list[NDArray[np.int32]], raw: list[Ints], alive: Bools) -> None:
        self.codes = codes
        self.raw = raw
        self.alive = alive

    def copy(self) -> Picture:
        """Return an independent copy."""
        return Picture(_copied(self.codes), _copied(self.raw), self.alive.copy())

    def apply(self, delta: Delta) -> None:
        """Move on by one update."""
        if delta.alive is not None:
            self.alive[delta.rows] = delta.alive
        for index, codes in delta.codes:
            if self.codes[index].flags.writeable or codes.any():
                self.codes[index] = writable(self.codes[index])
                self.codes[index][delta.rows] = codes
        for index, rows, codes in delta.spread:
            self.codes[index] = writable(self.codes[index])
            self.codes[index][rows] = codes
        for index, anywhere, raw in delta.whole:
            if isinstance(anywhere, slice):
                self.raw[index] = repeated(raw[0], len(self.raw[index]))
                continue
            self.raw[index] = writable(self.raw[index])
            self.raw[index][anywhere] = raw
        for index, raw in delta.raw:
            if self.raw[index].flags.writeable or (raw != self.raw[index][:1]).any():
                self.raw[index] = writable(self.raw[index])
                self.raw[index][delta.rows] = raw


def _copied(arrays: list[NDArray[T]]) -> list[NDArray[T]]:
    return [array.copy() if array.flags.writeable else array for array in arrays]


class History:
    """A starting point and the updates since."""

    def __init__(self, kinds: Callable[[], int] = lambda: 1) -> None:
        self._kinds = kinds
        """How many kinds share the memory."""
        self._start: Picture | None = None
        self._position = 0
        self._deltas: deque[Delta] = deque()
        self._cells = 0

    def restart(self, position: int) -> None:
        """Begin anew at a position: everything was computed again."""
        self._deltas.clear()
        self._cells = 0
        self._start = None  # taken with the first update, so that kinds seen once cost nothing
        self._position = position

    def begin(self, state: ClassState) -> None:
        """Take the starting point, unless there is one; to be called before each update."""
        if self._start is None:
            self._start = picture_of(state)

    def add(self, delta: Delta) -> None:
        """Note an update that has just been made."""
        self._deltas.append(delta)
        if delta.spread or delta.whole:
            self._cells += delta.cells
        kinds = self._kinds()
        allowed = max(LEAST, KEPT // kinds)
        if self._start is None:
            return
        if len(self._deltas) >= 2 * allowed:
            while len(self._deltas) > allowed:
                self._drop_oldest(self._start)
        while self._cells > CELLS // kinds and len(self._deltas) > 1:
            self._drop_oldest(self._start)

    def _drop_oldest(self, start: Picture) -> None:
        oldest = self._deltas.popleft()
        start.apply(oldest)
        self._position = oldest.position
        self._cells -= oldest.cells

    def at(self, position: int, state: ClassState) -> Picture | None:
        """Return the arrays as they were at a position of the journal; None when that is too long ago."""
        if position < self._position:
            return None
        picture = picture_of(state) if self._start is None else self._start.copy()
        for delta in self._deltas:
            if delta.position > position:
                break
            picture.apply(delta)
        return picture


def picture_of(state: ClassState) -> Picture:
    """Copy the arrays as they are now."""
    return Picture(
        _copied([column.codes for column in state.filters]),
        _copied([scored.raw for scored in state.scores]),
        state.table.alive.copy(),
    )
