"""NodeName: a pod that names its node fits nowhere else.

The daemon never sees such pods in its queue (they need no scheduler); `wharf why` and simulations do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Aspect, Code, Filter, FilterPlugin, Refusal, Rows
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import PodClass


class NodeName(FilterPlugin):
    """Refuses every node but the one named in ``spec.nodeName``."""

    name = "NodeName"

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        """Prepare for pods that name a node; others pass."""
        wanted = pod.exemplar.spec.nodeName
        return _Filter(table, wanted) if wanted else None


class _Filter(Filter):
    plugin = NodeName.name
    reads = Aspect.EXISTENCE

    def __init__(self, table: NodeTable, wanted: str) -> None:
        self._table = table
        self._wanted = wanted

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        codes = np.ones(self._table.size, np.int32)
        row = self._table.rows.get(self._wanted)
        if row is not None:
            codes[row] = 0
        return codes[rows]

    def refusal(self, code: int) -> Refusal:
        return Refusal(self.plugin, Code.UNRESOLVABLE, ("node(s) didn't match the requested node name",))

    def detail(self, row: int, code: int, facts: object) -> str:
        return f"the pod names {self._wanted}"
