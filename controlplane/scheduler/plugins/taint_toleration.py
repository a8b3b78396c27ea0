"""TaintToleration: taints keep pods away (filter), or would rather (score), unless tolerated.

Both look at each distinct *set* of taints once: thousands of nodes share a handful of sets.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import (
    Aspect,
    Change,
    Code,
    Filter,
    FilterPlugin,
    Ints,
    Refusal,
    Rows,
    ScaledToMaximum,
    Score,
    ScorePlugin,
)
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.observed import Taint
from controlplane.scheduler.podinfo import PodClass
from controlplane.scheduler.tolerations import untolerated
from wharfinger.api.types import core

_HARD = ("NoSchedule", "NoExecute")
_SOFT = ("PreferNoSchedule",)
_REMEDIES = {
    "node.kubernetes.io/not-ready": "make {node} ready",
    "node.kubernetes.io/unreachable": "bring {node} back",
    "node.kubernetes.io/unschedulable": "uncordon {node}",
    "node.kubernetes.io/memory-pressure": "free memory on {node}",
    "node.kubernetes.io/disk-pressure": "free disk space on {node}",
    "node.kubernetes.io/pid-pressure": "end processes on {node}",
    "node.kubernetes.io/network-unavailable": "repair the network of {node}",
}
"""What takes away the taints that mirror the state of a node: better than tolerating them."""


class TaintToleration(FilterPlugin, ScorePlugin):
    """Refuses nodes with untolerated NoSchedule and NoExecute taints; prefers those with few PreferNoSchedule ones."""

    name = "TaintToleration"

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter:
        """Prepare to find untolerated NoSchedule and NoExecute taints."""
        return _Filter(table, pod)

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score:
        """Prepare to count untolerated PreferNoSchedule taints."""
        return _Score(table, pod)


class _Sets:
    """For each set of taints, how many of some effects a pod does not tolerate."""

    def __init__(self, table: NodeTable, pod: PodClass, effects: tuple[str, ...]) -> None:
        self._table = table
        self._tolerations: list[core.Toleration] = list(pod.exemplar.spec.tolerations)
        self._effects = effects
        self._counts: NDArray[np.int32] = np.zeros(0, np.int32)

    def counts(self, rows: Rows) -> NDArray[np.int32]:
        known = len(self._counts)
        sets = self._table.taint_sets
        if known < len(sets):
            more = [len(self.untolerated(taints)) for taints in sets[known:]]
            self._counts = np.concatenate((self._counts, np.array(more, np.int32)))
        counts: NDArray[np.int32] = self._counts[self._table.taints[rows]]
        return counts

    def untolerated(self, taints: tuple[Taint, ...]) -> list[Taint]:
        return untolerated(taints, self._tolerations, self._effects)

    def of_row(self, row: int) -> list[Taint]:
        return self.untolerated(self._table.taint_sets[self._table.taints[row]])


class _Filter(Filter):
    plugin = TaintToleration.name
    reads = Aspect.TAINTS

    def __init__(self, table: NodeTable, pod: PodClass) -> None:
        self._table = table
        self._sets = _Sets(table, pod, _HARD)

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        return self._sets.counts(rows)

    def refusal(self, code: int) -> Refusal:
        return Refusal(self.plugin, Code.UNRESOLVABLE, ("node(s) had untolerated taint(s)",))

    def detail(self, row: int, code: int, facts: object) -> str:
        taints = self._sets.of_row(row)
        return f"untolerated {', '.join(map(str, taints))}" if taints else "had an untolerated taint"

    def changes(self, row: int, code: int, facts: object) -> list[Change]:
        node = self._table.names[row]
        return [
            Change(remedy.format(node=node), 1.5)
            if (remedy := _REMEDIES.get(taint.key))
            else Change(f"add toleration {taint}", 1.0, of_pod=True)
            for taint in self._sets.of_row(row)
        ]


class _Score(ScaledToMaximum):
    plugin = TaintToleration.name
    reads = Aspect.TAINTS
    reverse: ClassVar[bool] = True

    def __init__(self, table: NodeTable, pod: PodClass) -> None:
        self._sets = _Sets(table, pod, _SOFT)

    def raw(self, rows: Rows) -> Ints:
        return self._sets.counts(rows).astype(np.int64)
