"""NodePorts: a port of the host can be claimed once per protocol and address."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Aspect, Change, Code, Filter, FilterPlugin, Refusal, Rows
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import HostPort, PodClass


class NodePorts(FilterPlugin):
    """Refuses nodes where a port that the pod wants is taken."""

    name = "NodePorts"

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        """Prepare for pods that claim ports of the host."""
        ports = pod.usage.ports
        return _Filter(table, ports) if ports else None


class _Filter(Filter):
    plugin = NodePorts.name
    reads = Aspect.USAGE

    def __init__(self, table: NodeTable, ports: tuple[HostPort, ...]) -> None:
        self._table = table
        self._ports = ports

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        codes = np.zeros(self._table.size, np.int32)
        for port in self._ports:
            for row in self._table.ports.get((port.protocol, port.port), ()):
                if self._table.clashing(row, port):
                    codes[row] = 1
        return codes[rows]

    def refusal(self, code: int) -> Refusal:
        return Refusal(self.plugin, Code.UNSCHEDULABLE, ("node(s) didn't have free ports for the requested pod ports",))

    def _taken(self, row: int) -> list[str]:
        return [
            f"{port.port}/{port.protocol}" + (f" on {port.address}" if port.address else "")
            for port in self._ports
            if self._table.clashing(row, port)
        ]

    def _holders(self, row: int) -> list[str]:
        name = self._table.names[row]
        return [
            key
            for key, resident in self._table.pods_on(name or "").items()
            if any(port.clashes(taken) for port in self._ports for taken in resident.usage.ports)
        ]

    def detail(self, row: int, code: int, facts: object) -> str:
        taken = self._taken(row)
        return f"host port {', '.join(taken)} taken by {', '.join(self._holders(row))}" if taken else "port was taken"

    def changes(self, row: int, code: int, facts: object) -> list[Change]:
        free = ", ".join(self._taken(row)) or "the host port"
        holders = ", ".join(self._holders(row))
        return [Change(f"free host port {free} on {self._table.names[row]} (held by {holders})", 2.0)]
