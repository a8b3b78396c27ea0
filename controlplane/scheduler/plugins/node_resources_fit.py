"""NodeResourcesFit: is there room (filter), and how much would be left (score).

A code is a set of bits: one for too many pods, one for each resource that is short, and the highest when even an empty
node of this size would be too small. Arguments: ``ignoredResources`` and ``ignoredResourceGroups`` (extended resources
that are left to others), ``scoringStrategy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler import amounts
from controlplane.scheduler.framework import (
    Aspect,
    Change,
    Code,
    Filter,
    FilterPlugin,
    Ints,
    Refusal,
    Rows,
    Score,
    ScorePlugin,
)
from controlplane.scheduler.nodetable import PODS, NodeTable
from controlplane.scheduler.podinfo import PodClass
from controlplane.scheduler.resourcescores import Fill, Strategy, read_strategy, strategy_scores

_UNRESOLVABLE = 1 << 30
_BITS = 29
"""Resources beyond this many share the last bit."""


class NodeResourcesFit(FilterPlugin, ScorePlugin):
    """Refuses nodes without room for the pod's requests; by default prefers the emptiest."""

    name = "NodeResourcesFit"

    takes = ("ignoredResources", "ignoredResourceGroups", "scoringStrategy")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._ignored = frozenset(self.argument("ignoredResources", ()))
        self._ignored_groups = frozenset(self.argument("ignoredResourceGroups", ()))
        self._strategy = read_strategy(self.argument("scoringStrategy", {}))

    def _is_ignored(self, resource: str) -> bool:
        group, slash, _ = resource.partition("/")
        return bool(slash) and (resource in self._ignored or group in self._ignored_groups)

    def counts_all(self, pod: PodClass) -> bool:
        """Whether none of what the pod requests is ignored."""
        return not any(map(self._is_ignored, pod.usage.amounts))

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter:
        """Prepare to compare what is free with what the pod needs."""
        needs = {name: amount for name, amount in pod.usage.amounts.items() if not self._is_ignored(name)}
        return _Filter(table, needs)

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score:
        """Prepare to score by what would be left."""
        return _Score(self._strategy, Fill(table, pod, self._strategy.resources, nonzero=True))


class _Filter(Filter):
    plugin = NodeResourcesFit.name
    sums_only = True
    reads = Aspect.USAGE | Aspect.ALLOCATABLE

    def __init__(self, table: NodeTable, needs: Mapping[str, int]) -> None:
        self._table = table
        self._names = ["pods", *needs]
        self._numbers = np.array([PODS, *map(table.resource, needs)], np.intp)
        self._need = np.array([[1], *([amount] for amount in needs.values())], np.int64)
        self._bits = np.array([1 << min(index, _BITS) for index in range(len(self._names))], np.int32)

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        capacity = self._table.allocatable[:, rows][self._numbers]
        free = capacity - self._table.requested[:, rows][self._numbers]
        short = self._need > free
        if not short.any():
            return np.zeros(short.shape[1], np.int32)
        if len(self._names) <= _BITS:
            codes: NDArray[np.int32] = self._bits @ short.astype(np.int32)
        else:
            codes = np.bitwise_or.reduce(np.where(short, self._bits[:, None], 0), axis=0)
        never = (self._need[1:] > capacity[1:]).any(axis=0)
        return codes | np.where(never, np.int32(_UNRESOLVABLE), np.int32(0))

    def _short(self, code: int) -> list[int]:
        return [index for index in range(len(self._names)) if code & (1 << min(index, _BITS))]

    def refusal(self, code: int) -> Refusal:
        reasons = tuple(
            f"Insufficient {self._names[index]}" if index else "Too many pods" for index in self._short(code)
        )
        final = Code.UNRESOLVABLE if code & _UNRESOLVABLE else Code.UNSCHEDULABLE
        return Refusal(self.plugin, final, reasons)

    def facts(self) -> tuple[Ints, Ints]:
        capacity: Ints = self._table.allocatable[self._numbers]
        free: Ints = capacity - self._table.requested[self._numbers]
        return free, capacity

    def detail(self, row: int, code: int, facts: tuple[Ints, Ints]) -> str:
        parts = []
        for index in self._short(code):
            resource = self._names[index]
            free, capacity = max(int(facts[0][index, row]), 0), int(facts[1][index, row])
            if index == 0:
                parts.append(f"has {capacity - int(facts[0][0, row])} pods, allows {capacity}")
                continue
            need, have, total = amounts.show_all(resource, int(self._need[index, 0]), free, capacity)
            parts.append(f"needs {need} {resource}, {have} free of {total}")
        return "; ".join(parts)

    def changes(self, row: int, code: int, facts: tuple[Ints, Ints]) -> list[Change]:
        node = self._table.names[row]
        changes = []
        for index in self._short(code):
            resource, need = self._names[index], int(self._need[index, 0])
            free, capacity = int(facts[0][index, row]), int(facts[1][index, row])
            if index == 0 and capacity:
                changes.append(Change(f"free a pod's place on {node}", 1.0))
            elif index == 0:
                changes.append(Change(f"let {node} run pods (its allocatable says none)", 3.0))
            elif need > capacity:
                # What others use is not to be had either: with less than all of the node the pod fits at once.
                most = amounts.quantity(resource, max(free, 0), up=False)
                text = f"request at most {most} {resource}" if free > 0 else f"do not request {resource}"
                changes.append(Change(text, 2.0 + (need - max(free, 0)) / need, of_pod=True))
            else:
                missing = amounts.quantity(resource, need - free)
                changes.append(Change(f"free {missing} {resource} on {node}", 1.0 + (need - free) / capacity))
        return changes


class _Score(Score):
    plugin = NodeResourcesFit.name
    reads = Aspect.USAGE | Aspect.ALLOCATABLE

    def __init__(self, strategy: Strategy, fill: Fill) -> None:
        self._strategy = strategy
        self._fill = fill

    def raw(self, rows: Rows) -> Ints:
        return strategy_scores(self._strategy, self._fill, rows)
