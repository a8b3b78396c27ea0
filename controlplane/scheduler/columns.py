"""The arrays of one prepared filter or score over all nodes.

Most of them say the same of every node (no taint, no image, room enough). Such a column is stored as one value that
numpy shows as an array of the right length, and becomes a real array with the first node that differs. So dozens of
kinds of pods over thousands of nodes fit into a few megabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Bools, Filter, Ints, Rows, Score

if TYPE_CHECKING:
    from collections.abc import Hashable

    from controlplane.scheduler.history import Delta

T = TypeVar("T", bound=np.generic)


def repeated(value: T, size: int) -> NDArray[T]:
    """Return an array of one value that takes no room; it cannot be written to."""
    shown: NDArray[T] = np.broadcast_to(np.asarray(value), (size,))
    return shown


def writable(array: NDArray[T]) -> NDArray[T]:
    """Return the array, or a copy of one that cannot be written to."""
    return array if array.flags.writeable else array.copy()


def kept(array: NDArray[T]) -> NDArray[T]:
    """Return what may be kept without keeping a larger array alive."""
    return array if array.base is None else array.copy()


class FilterColumn:
    """One filter and its codes."""

    __slots__ = ("codes", "filter", "stamp")

    def __init__(self, filter_: Filter, alive: Bools) -> None:
        self.filter = filter_
        self.codes: NDArray[np.int32] = repeated(np.int32(0), len(alive))
        self.stamp: int
        self.compute(alive)

    def compute(self, alive: Bools) -> NDArray[np.intp]:
        """Compute all rows; returns those that have changed."""
        codes = np.where(alive, self.filter.codes(slice(None)), np.int32(0))
        self.stamp = self.filter.stamp()
        differ = np.flatnonzero(codes != self.codes)
        if len(differ):
            self.codes = codes if codes.any() else repeated(np.int32(0), len(alive))
        return differ

    def update(self, rows: Rows, alive: Bools) -> NDArray[np.int32]:
        """Compute the rows again; `alive` is of these rows."""
        codes = np.where(alive, self.filter.codes(rows), np.int32(0))
        if self.codes.flags.writeable or codes.any():
            self.codes = writable(self.codes)
            self.codes[rows] = codes
        return codes


class ScoreColumn:
    """One score, raw and normalised."""

    __slots__ = ("bounds", "raw", "scaled", "score", "stamp", "uniform", "weight")

    def __init__(self, score: Score, weight: int, alive: Bools, feasible: Bools) -> None:
        self.score = score
        self.weight = weight
        self.bounds: Hashable = None
        self.raw: Ints
        self.scaled: Ints
        self.stamp: int
        self.uniform: bool
        """All nodes have the same raw score, so that bounds do not depend on which of them are feasible."""
        if score.focused:
            score.focus(feasible)
        self.compute(alive)

    def seen_with(self, feasible: Bools) -> tuple[Ints, Ints]:
        """Return raw and normalised scores if just these nodes were feasible; focused scores stay focused on them."""
        raw = self.raw
        if self.score.focused:
            self.score.focus(feasible)
            raw = self.score.raw(slice(None))
        bounds = self.score.bounds(raw[feasible])
        return raw, raw if bounds is None else self.score.scale(raw, bounds)

    def compute(self, alive: Bools) -> None:
        """Compute all rows."""
        raw = self.score.raw(slice(None))
        self.stamp = self.score.stamp()
        counted = raw[alive]
        self.uniform = len(counted) > 0 and bool((counted == counted[0]).all())
        self.raw = self.scaled = repeated(counted[0], len(alive)) if self.uniform else raw

    def scale(self, feasible: Bools) -> None:
        """Normalise by the feasible nodes."""
        self.bounds = self.score.bounds(self.raw[feasible])
        if self.bounds is None:
            self.scaled = self.raw
        elif self.uniform and len(self.raw):
            self.scaled = repeated(self.score.scale(self.raw[:1], self.bounds)[0], len(self.raw))
        else:
            self.scaled = self.score.scale(self.raw, self.bounds)

    def moved(self, feasible: Bools) -> bool:
        """Whether the bounds are others by now."""
        return self.score.bounds(self.raw[feasible]) != self.bounds

    def update(self, index: int, rows: Rows, *, alive: Bools, stale: bool, delta: Delta) -> bool:
        """Take in what changed, noting it in `delta`; returns whether all must be normalised again.

        `alive` is of all rows; `stale` says whether the score reads what changed in `rows`.
        """
        if self.stamp != self.score.stamp():
            before, scaled, uniform = self.raw, self.scaled, self.uniform
            self.compute(alive)
            differ = np.flatnonzero(before != self.raw)
            if not len(differ) and uniform == self.uniform:
                self.raw, self.scaled = before, scaled
                return False
            if len(differ) and self.uniform:
                delta.whole.append((index, slice(None), kept(self.raw[:1])))
            elif len(differ):
                delta.whole.append((index, differ, self.raw[differ]))
            return True
        if not stale:
            return False
        raw = self.score.raw(rows)
        delta.raw.append((index, kept(raw)))
        if self.uniform and (raw == self.raw[:1]).all():
            return False
        differs = self.bounds is not None and bool((raw != self.raw[rows]).any())
        self.uniform = False
        alias = self.scaled is self.raw
        self.raw = writable(self.raw)
        self.raw[rows] = raw
        if self.bounds is None or (alias and not differs):
            self.scaled = self.raw
        return differs
