"""NodeResourcesBalancedAllocation: prefer nodes whose resources are used up evenly.

The score tells by how much the pod would change the balance of the node: 75 if not at all, less if it would become
less even, more if more (50 + half of 50 + balance after - balance before, as in kube-scheduler since 1.35). It has
nothing to say about pods that request none of its resources, which would otherwise all gather on the emptiest node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.scheduler.framework import MAX_SCORE, Aspect, Ints, Rows, Score, ScorePlugin
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import PodClass
from controlplane.scheduler.resourcescores import Fill, read_resources


class NodeResourcesBalancedAllocation(ScorePlugin):
    """Scores by the change of a node's balance between cpu and memory, or the ``resources`` in its arguments."""

    name = "NodeResourcesBalancedAllocation"

    takes = ("resources",)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._resources = read_resources(self.argument("resources", ()))

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score | None:
        """Prepare, if the pod requests any of the resources."""
        fill = Fill(table, pod, self._resources, nonzero=False)
        return _Score(fill) if fill.any else None


class _Score(Score):
    plugin = NodeResourcesBalancedAllocation.name
    reads = Aspect.USAGE | Aspect.ALLOCATABLE

    def __init__(self, fill: Fill) -> None:
        self._fill = fill

    def raw(self, rows: Rows) -> Ints:
        half = MAX_SCORE // 2
        return half + (half + self._fill.balance_change(rows)) // 2
