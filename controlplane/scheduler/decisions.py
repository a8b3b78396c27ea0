"""What a scheduling attempt came to: a placement, or a diagnosis. Values with their reasons, made to be kept.

A :class:`Placement` holds little more than a position in the node table's journal: the arrays behind it are put
together again from the class state's history when somebody asks. A :class:`Diagnosis` holds the codes and the numbers
behind them, and is shared by all pods of a kind that failed for the same reasons; the engine keeps the latest few
whole and thins the others out to their counts.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Bools, Code, Refusal

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState


@dataclass(frozen=True, slots=True)
class Placement:
    """A node was found."""

    node: str
    row: int
    total: int
    """Weighted sum of the scores."""
    scores: tuple[int, ...]
    """Normalised score of each scoring plugin of the class state, in order."""
    feasible: int
    """How many nodes could have taken the pod."""
    evaluated: int
    """How many nodes there were."""
    ties: int
    """How many nodes shared the highest total; one of them was drawn."""
    position: int
    """Where the node table's journal stood."""
    state: Callable[[], ClassState | None]
    """A weak reference."""
    pinned: bool = False
    """Whether the pod names its node, and only that was looked at."""


class RefusedRows(Mapping[int, Refusal]):
    """Row -> refusal for many rows that share few refusals; a dict only when somebody asks for single rows."""

    def __init__(self, rows: NDArray[np.int64], which: NDArray[np.int64], refusals: Sequence[Refusal]) -> None:
        self.rows = rows
        self.which = which
        """For each of the rows, an index into `refusals`."""
        self.refusals = refusals
        self._by_row: dict[int, Refusal] | None = None

    def _dict(self) -> dict[int, Refusal]:
        if self._by_row is None:
            self._by_row = {
                row: self.refusals[index] for row, index in zip(self.rows.tolist(), self.which.tolist(), strict=True)
            }
        return self._by_row

    def __getitem__(self, row: int) -> Refusal:
        return self._dict()[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._dict())

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, refusals: Mapping[int, Refusal]) -> RefusedRows:
        """Return any such mapping in this form."""
        if isinstance(refusals, RefusedRows):
            return refusals
        listed = list(dict.fromkeys(refusals.values()))
        numbers = {refusal: index for index, refusal in enumerate(listed)}
        which = [numbers[refusal] for refusal in refusals.values()]
        return cls(np.array(list(refusals), np.int64), np.array(which, np.int64), listed)


class Diagnosis:
    """No node was found."""

    __slots__ = (
        "codes", "counts", "evaluated", "facts", "final", "message", "names", "nominated", "position", "preemptions",
        "refusal", "resolvable", "state",
    )  # fmt: skip

    def __init__(
        self, state: ClassState, nominated: Mapping[int, Refusal] | None = None, *, details: bool = True
    ) -> None:
        """Take down what a class state says now; without `details` only what counts and preemption need."""
        table = state.table
        self.state = weakref.ref(state)
        self.position = state.position
        self.evaluated = len(table)
        self.refusal = state.refusal
        self.names: Sequence[str | None] | None = None
        self.codes: list[NDArray[np.int32]] | None = None
        self.facts: list[Any] | None = None
        if details:
            self.names = tuple(table.names)
            self.codes = [column.codes.copy() for column in state.filters]
            self.facts = [column.filter.facts() for column in state.filters]
        self.nominated = RefusedRows.of(nominated or {})
        """Row -> refusal of nodes where others are nominated."""
        self.resolvable: Bools | None = None
        """Rows where removing pods may help; None when the details have been let go."""
        self.preemptions: dict[int, str] = {}
        """Priority -> why pods of that priority found nobody to make room."""
        self.counts, self.resolvable = _count(state, self.nominated)
        self.final = not self.resolvable.any()
        """Reason -> nodes with it, by the first plugin that refused each node; whether removing pods cannot help."""
        self.message = failure_message(self.counts, self.evaluated, self.refusal)

    def thin(self) -> None:
        """Let go of the arrays; the counts and the message stay."""
        self.names = self.codes = self.facts = self.resolvable = None
        self.nominated = RefusedRows.of({})


def resolvable_rows(state: ClassState, nominated: Mapping[int, Refusal]) -> Bools:
    """Return where removing pods may help; `nominated` as for a Diagnosis."""
    return _count(state, RefusedRows.of(nominated))[1]


def _count(state: ClassState, nominated: RefusedRows) -> tuple[Counter[str], Bools]:
    """Return reasons with their numbers of nodes, and where removing pods may help."""
    counts: Counter[str] = Counter()
    left = state.table.alive.copy()
    resolvable = np.zeros_like(left)
    if state.refusal is not None:
        for reason in state.refusal.reasons:
            counts[reason] = int(np.count_nonzero(left))
        return counts, resolvable
    left[nominated.rows] = False
    numbers = np.bincount(nominated.which, minlength=len(nominated.refusals)).tolist()
    for index, refusal in enumerate(nominated.refusals):
        for reason in refusal.reasons:
            counts[reason] += numbers[index]
        if refusal.code is Code.UNSCHEDULABLE:
            resolvable[nominated.rows[nominated.which == index]] = True
    for column in state.filters:
        if not column.codes.flags.writeable and not column.codes[:1].any():
            continue  # it lets all nodes pass
        refused = left & (column.codes != 0)
        codes = column.codes[refused]
        if not len(codes):
            continue
        for code, number in _tallied(codes):
            refusal = column.filter.refusal(code)
            if refusal.code is Code.UNSCHEDULABLE:
                resolvable |= refused & (column.codes == code)
            for reason in refusal.reasons:
                counts[reason] += number
        left &= ~refused
    for column in state.filters:
        if column.filter.only is not None:
            allowed = [state.table.rows[name] for name in column.filter.only if name in state.table.rows]
            mask = np.zeros_like(resolvable)
            mask[allowed] = True
            resolvable &= mask
    return counts, resolvable


def _tallied(codes: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return the codes that differ, and how many there are of each."""
    first = codes[0]
    if (codes == first).all():  # the usual case, at a tenth of the cost
        return [(int(first), len(codes))]
    return [(int(code), int(number)) for code, number in zip(*np.unique(codes, return_counts=True), strict=True)]


def failure_message(counts: Counter[str], nodes: int, refusal: Refusal | None) -> str:
    """Return the line of the FailedScheduling event, in kube-scheduler's form."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    if refusal is not None:
        return f"0/{nodes} nodes are available: {', '.join(refusal.reasons)}."
    parts = sorted(f"{number} {reason}" for reason, number in counts.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."
