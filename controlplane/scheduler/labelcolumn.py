"""One label over all nodes: its values are interned, so that a predicate is answered once for each distinct value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Bools, Rows


class LabelColumn:
    """The values of one label over all rows, interned; number 0 means that the node has no such label."""

    def __init__(self, key: str, size: int) -> None:
        self.key = key
        self.ids: NDArray[np.int32] = np.zeros(size, np.int32)
        self.values: list[str | None] = [None]
        self._numbers: dict[str | None, int] = {None: 0}

    def number(self, value: str | None) -> int:
        """Return the number of a value, a new one if need be."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def where(self, predicate: Predicate, rows: Rows) -> Bools:
        """Return for each of the rows whether its value (None: no such label) meets the predicate."""
        return predicate.over(self.values)[self.ids[rows]]


class Predicate:
    """A test of label values that remembers its answers for the values that it has seen."""

    def __init__(self, test: Callable[[str | None], bool]) -> None:
        self._test = test
        self._answers: Bools = np.zeros(0, np.bool_)

    def over(self, values: list[str | None]) -> Bools:
        """Return the answer for each value of a column; the list may have grown since the last call."""
        known = len(self._answers)
        if known < len(values):
            more = np.fromiter(map(self._test, values[known:]), np.bool_, len(values) - known)
            self._answers = np.concatenate((self._answers, more))
        return self._answers
