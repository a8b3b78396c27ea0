"""Two plugins for wharf-scheduler: pods with an annotation go to odd nodes only, and all prefer short names."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import (
    MAX_SCORE,
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
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import PodClass
from wharfinger.api.types import core

ANNOTATION = "example.com/odd"


class OddNodesOnly(FilterPlugin):
    """Pods with the annotation run on nodes whose name ends in an odd digit."""

    name = "OddNodesOnly"

    def class_key(self, pod: core.Pod) -> Hashable:
        """Say what makes pods differ for this plugin: annotations are otherwise left out of account."""
        return ANNOTATION in pod.metadata.annotations

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        """Prepare for a kind of pod; None has nothing against any node, and costs nothing."""
        return _Odd(table) if self.class_key(pod.exemplar) else None


class _Odd(Filter):
    plugin = OddNodesOnly.name
    reads = Aspect.EXISTENCE  # the name of a node never changes

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        """Return 0 for nodes that will do, 1 for even ones."""
        even = [name is not None and name[-1] in "02468" for name in self._table.names]
        return np.array(even, np.int32)[rows]

    def refusal(self, code: int) -> Refusal:
        """Say what 1 means, as events count it; no removal of pods could help."""
        return Refusal(self.plugin, Code.UNRESOLVABLE, ("node(s) were even",))

    def detail(self, row: int, code: int, facts: Any) -> str:
        """Say it of one node, for `wharf why`."""
        return f"{self._table.names[row]} ends in an even digit"

    def changes(self, row: int, code: int, facts: Any) -> list[Change]:
        """Say what would help, for `wharf why`."""
        return [Change(f"remove the annotation {ANNOTATION}", cost=1, of_pod=True)]


class ShortNames(ScorePlugin):
    """The shorter the name of a node, the better."""

    name = "ShortNames"
    takes = ("worth",)

    def __init__(self, arguments: Any = None) -> None:
        super().__init__(arguments)
        self._worth = int(self.argument("worth", 10))
        if not 1 <= self._worth <= MAX_SCORE:
            raise ValueError(f"worth: {self._worth} is not within 1 to {MAX_SCORE}")

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score:
        """Prepare for a kind of pod."""
        return _Shortness(table, self._worth)


class _Shortness(Score):
    plugin = ShortNames.name
    reads = Aspect.EXISTENCE

    def __init__(self, table: NodeTable, worth: int) -> None:
        self._table, self._worth = table, worth

    def raw(self, rows: Rows) -> Ints:
        """Return 0 to 100 for each row: so much less for each character."""
        lengths = np.array([len(name or "") for name in self._table.names], np.int64)
        return np.maximum(0, MAX_SCORE - self._worth * lengths)[rows]
