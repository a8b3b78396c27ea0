"""DefaultPreemption: pods of lower priority make room for one that fits nowhere; see :mod:`..preemption`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.scheduler.framework import PostFilterPlugin


class DefaultPreemption(PostFilterPlugin):
    """How many candidates are looked at: a share of the nodes in per cent, and at least so many."""

    name = "DefaultPreemption"

    takes = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._percentage = int(self.argument("minCandidateNodesPercentage", 10))
        self._absolute = int(self.argument("minCandidateNodesAbsolute", 100))
        if not 0 <= self._percentage <= 100:
            raise ValueError(f"minCandidateNodesPercentage: {self._percentage} is not within 0 to 100")
        if self._absolute < 0:
            raise ValueError(f"minCandidateNodesAbsolute: {self._absolute} is negative")
        if not self._percentage and not self._absolute:
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute: not both can be 0")

    def candidates(self, nodes: int) -> int:
        """Return after how many candidates the search among some nodes may end."""
        return min(nodes, max(nodes * self._percentage // 100, self._absolute))
