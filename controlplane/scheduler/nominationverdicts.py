"""Which nodes would not take a pod, were those there that are nominated to them.

The rule is kube-scheduler's: a node must take a pod both with the nominated pods of no lower priority and without
them. Where only sums of resources count, the verdicts of a kind and priority are arrays that are kept current: only
rows where a nomination came or went, or the node changed, are computed again. Else the filters are asked node by node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.decisions import RefusedRows
from controlplane.scheduler.framework import Ints, Refusal
from controlplane.scheduler.victims import READS_PODS

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState
    from controlplane.scheduler.nominations import Nominations
    from controlplane.scheduler.podinfo import PodInfo

_REBUILD_SHARE = 4
"""With more than one in so many rows changed, everything is computed again."""


class Verdicts:
    """The first filter that refuses each node, nominated pods counted, and its code; for one kind and priority."""

    __slots__ = ("_filters", "_position", "_stamp", "_version", "codes", "index")

    def __init__(self) -> None:
        self._filters: object = None
        self._version: Hashable = None
        self._position = 0
        self._stamp = 0
        self.codes: NDArray[np.int32] = np.zeros(0, np.int32)
        """0 where nobody is nominated, or the node would take the pod all the same."""
        self.index: NDArray[np.int16] = np.zeros(0, np.int16)

    def sync(self, state: ClassState, nominations: Nominations, priority: int) -> None:
        """Take in what has changed; `state` is up to date."""
        table = state.table
        there, extra = nominations.summed(table, priority)
        version = (table.layout, table.geography, table.size)
        rows = self._changed(state, nominations) if version == self._version else None
        if rows is None or self._filters is not state.filters:
            self._version, self._filters = version, state.filters
            self.codes, self.index = np.zeros(table.size, np.int32), np.zeros(table.size, np.int16)
            rows = np.flatnonzero(there)
        elif len(rows):
            self.codes[rows] = 0
            rows = rows[there[rows]]
        if len(rows):
            self.codes[rows], self.index[rows] = _ask(state, rows, extra[:, rows])
        self._position, self._stamp = table.position, nominations.stamp

    def _changed(self, state: ClassState, nominations: Nominations) -> NDArray[np.intp] | None:
        """Return the rows that have changed; None when they are many, or no longer known."""
        table = state.table
        nodes, changes = nominations.changed_since(self._stamp), table.changes_since(self._position)
        if nodes is None or changes is None:
            return None
        rows = {table.rows.get(node, -1) for node in nodes}.union(changes[0])
        rows.discard(-1)
        return np.fromiter(rows, np.intp, len(rows)) if len(rows) * _REBUILD_SHARE < table.size + 64 else None


def _ask(state: ClassState, rows: Ints, extra: Ints) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
    """Return for each of the rows the code of the first filter that refuses it, and the filter's index.

    `extra` is what the nominated pods ask for (resources x rows).
    """
    table = state.table
    first = np.zeros(len(rows), np.int32)
    filters = np.zeros(len(rows), np.int16)
    table.requested[:, rows] += extra
    try:
        for index, column in enumerate(state.filters):
            asked = column.filter.reads & READS_PODS
            if not asked and not column.codes.flags.writeable:
                continue  # it lets these nodes pass
            codes = column.filter.codes(rows) if asked else column.codes[rows]
            new = (first == 0) & (codes != 0)
            first[new] = codes[new]
            filters[new] = index
    finally:
        table.requested[:, rows] -= extra
    return first, filters


def _verdicts(
    pod: PodInfo, state: ClassState, nominations: Nominations, known: Verdicts | None
) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
    """Return codes and filters for all rows, as they are for this pod: it does not count as nominated for itself."""
    known = known if known is not None else Verdicts()
    known.sync(state, nominations, pod.priority)
    row = state.table.rows.get(nominations.node_of(pod.key), -1)
    if row < 0:
        return known.codes, known.index
    codes, index = known.codes.copy(), known.index.copy()
    codes[row], index[row] = _of_own_row(pod, state, nominations, row)
    return codes, index


def _of_own_row(pod: PodInfo, state: ClassState, nominations: Nominations, row: int) -> tuple[int, int]:
    table = state.table
    others = nominations.against(table.names[row] or "", key=pod.key, priority=pod.priority)
    if not others:
        return 0, 0
    extra = np.sum([table.vector(resident.usage) for _, resident in others], axis=0)[:, None]
    codes, index = _ask(state, np.array([row], np.intp), extra)
    return int(codes[0]), int(index[0])


def refused_by_nomination(
    pod: PodInfo, state: ClassState, nominations: Nominations, known: Verdicts | None = None
) -> Sequence[int] | Ints:
    """Return the feasible rows whose nodes would not take the pod, were those there that are nominated to them."""
    if not state.feasible_count:
        return ()
    if _only_sums_count(state):
        codes, _ = _verdicts(pod, state, nominations, known)
        refused: Ints = np.flatnonzero((codes != 0) & state.feasible)
        return refused
    return list(_refusals_one_by_one(pod, state, nominations, feasible_only=True))


def is_refused_by_nomination(pod: PodInfo, state: ClassState, nominations: Nominations, row: int) -> bool:
    """Whether the node of a feasible row would not take the pod, were those there that are nominated to it."""
    if _only_sums_count(state):
        return _of_own_row(pod, state, nominations, row)[0] != 0
    return row in _refusals_one_by_one(pod, state, nominations, feasible_only=True)


def refusals_by_nomination(
    pod: PodInfo, state: ClassState, nominations: Nominations, known: Verdicts | None = None
) -> Mapping[int, Refusal]:
    """Return row -> refusal for all nodes that would not take the pod, were those there that are nominated to them.

    `known` is kept by the caller for pods of this kind and priority.
    """
    if not _only_sums_count(state):
        return _refusals_one_by_one(pod, state, nominations, feasible_only=False)
    codes, index = _verdicts(pod, state, nominations, known)
    rows = np.flatnonzero(codes)
    pairs = (index[rows].astype(np.int64) << 32) | codes[rows]
    if len(pairs) and (pairs == pairs[0]).all():  # the usual case, at a tenth of the cost
        listed, which = pairs[:1], np.zeros(len(pairs), np.int64)
    else:
        listed, which = np.unique(pairs, return_inverse=True)
    meant = [state.filters[pair >> 32].filter.refusal(pair & 0xFFFFFFFF) for pair in listed.tolist()]
    return RefusedRows(rows, which, meant)


def _only_sums_count(state: ClassState) -> bool:
    return state.refusal is None and all(
        column.filter.sums_only for column in state.filters if column.filter.reads & READS_PODS
    )


def _refusals_one_by_one(
    pod: PodInfo, state: ClassState, nominations: Nominations, *, feasible_only: bool
) -> dict[int, Refusal]:
    table = state.table
    found: dict[int, Refusal] = {}
    for node in nominations.nodes():
        row = table.rows.get(node)
        if row is None or (feasible_only and not state.feasible[row]):
            continue
        others = nominations.against(node, key=pod.key, priority=pod.priority)
        if not others:
            continue
        with table.supposing() as supposition:
            for key, resident in others:
                supposition.having(key, resident)
            refusal = state.first_refusal(row)
        if refusal is not None:
            found[row] = refusal
    return found
