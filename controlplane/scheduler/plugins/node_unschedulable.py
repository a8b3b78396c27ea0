"""NodeUnschedulable: nothing new on a cordoned node, unless the pod tolerates just that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Aspect, Change, Code, Filter, FilterPlugin, Refusal, Rows
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.observed import Taint
from controlplane.scheduler.podinfo import PodClass
from controlplane.scheduler.tolerations import tolerates

TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeUnschedulable(FilterPlugin):
    """Refuses nodes with ``spec.unschedulable``."""

    name = "NodeUnschedulable"

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        """Prepare, unless the pod tolerates being put on cordoned nodes."""
        if tolerates(pod.exemplar.spec.tolerations, TAINT):
            return None
        return _Filter(table)


class _Filter(Filter):
    plugin = NodeUnschedulable.name
    reads = Aspect.TAINTS

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        return self._table.unschedulable[rows].astype(np.int32)

    def refusal(self, code: int) -> Refusal:
        return Refusal(self.plugin, Code.UNRESOLVABLE, ("node(s) were unschedulable",))

    def detail(self, row: int, code: int, facts: object) -> str:
        return "is cordoned"

    def changes(self, row: int, code: int, facts: object) -> list[Change]:
        return [Change(f"uncordon {self._table.names[row]}", 0.9)]
