"""NodeAffinity: nodeSelector and node affinity, required (filter) and preferred (score).

The argument ``addedAffinity`` holds for every pod of the profile, in addition to its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler import nodeselector
from controlplane.scheduler.framework import (
    Aspect,
    Bools,
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
from controlplane.scheduler.nodeselector import Selector, Term
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import PodClass
from wharfinger.api.types import core

_SELECTOR, _REQUIRED, _ADDED = 1, 2, 4
"""Bits of a code."""


class NodeAffinity(FilterPlugin, ScorePlugin):
    """Refuses nodes that do not match what the pod requires; prefers those that match what it prefers."""

    name = "NodeAffinity"

    takes = ("addedAffinity",)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        added = self.argument("addedAffinity", None)
        self._added = core.NodeAffinity()
        if added is not None:
            from wharfinger.api import codec  # not needed by default

            decoded = codec.from_json(added, core.NodeAffinity, validation="Strict")
            self._added = decoded.message

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | Refusal | None:
        """Prepare for what the pod and the profile require; terms that exclude each other refuse the pod."""
        spec = pod.exemplar.spec
        affinity = spec.affinity.nodeAffinity
        added = self._added
        required = _required(affinity, table)
        if not spec.nodeSelector and required is None and not _has_required(added):
            return None
        only = required.names() if required is not None and required.terms else None
        if only is not None and not only:
            return Refusal(self.name, Code.UNRESOLVABLE, ("pod affinity terms conflict",))
        selector = nodeselector.from_labels(table, spec.nodeSelector.items()) if spec.nodeSelector else None
        return _Filter(table, selector=selector, required=required, added=_required(added, table), only=only)

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score | None:
        """Prepare for what the pod and the profile prefer, if anything."""
        terms = [
            (preferred.weight, nodeselector.from_term(table, preferred.preference))
            for affinity in (pod.exemplar.spec.affinity.nodeAffinity, self._added)
            for preferred in affinity.preferredDuringSchedulingIgnoredDuringExecution
            if preferred.weight
        ]
        return _Score(table, terms) if terms else None


def _has_required(affinity: core.NodeAffinity) -> bool:
    return affinity.HasField("requiredDuringSchedulingIgnoredDuringExecution")


def _required(affinity: core.NodeAffinity, table: NodeTable) -> Selector | None:
    if not _has_required(affinity):
        return None
    return nodeselector.from_terms(table, affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms)


class _Filter(Filter):
    plugin = NodeAffinity.name
    reads = Aspect.LABELS

    def __init__(
        self,
        table: NodeTable,
        *,
        selector: Term | None,
        required: Selector | None,
        added: Selector | None,
        only: frozenset[str] | None,
    ) -> None:
        self._table = table
        self._parts: list[tuple[int, Term | Selector]] = [
            (bit, part)
            for bit, part in ((_SELECTOR, selector), (_REQUIRED, required), (_ADDED, added))
            if part is not None
        ]
        self.only = only

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        codes = np.zeros(len(self._table.alive[rows]), np.int32)
        for bit, part in self._parts:
            matches: Bools = part.mask(rows)
            codes[~matches] |= bit
        return codes

    def refusal(self, code: int) -> Refusal:
        reason = (
            "node(s) didn't match scheduler-enforced node affinity"
            if code & _ADDED
            else "node(s) didn't match Pod's node affinity/selector"
        )
        return Refusal(self.plugin, Code.UNRESOLVABLE, (reason,))

    def _missed(self, row: int, code: int) -> list[nodeselector.Requirement] | None:
        """Return what the node lacks, over all parts; None when no node can have it."""
        missed: list[nodeselector.Requirement] = []
        for bit, part in self._parts:
            if not code & bit:
                continue
            lacks = part.missed(row) if isinstance(part, Term) else part.nearest(row)
            if lacks is None:
                return None
            missed += lacks
        return missed

    def detail(self, row: int, code: int, facts: object) -> str:
        missed = self._missed(row, code)
        if missed is None:
            return "the pod's terms match no node at all"
        return "; ".join(requirement.miss(row) for requirement in missed) or "labels did not match"

    def changes(self, row: int, code: int, facts: object) -> list[Change] | None:
        missed = self._missed(row, code)
        if missed is None:
            return None
        changes = [requirement.change(row) for requirement in missed]
        return None if None in changes else [change for change in changes if change is not None]


class _Score(ScaledToMaximum):
    plugin = NodeAffinity.name
    reads = Aspect.LABELS

    def __init__(self, table: NodeTable, terms: list[tuple[int, Term]]) -> None:
        self._table = table
        self._terms = terms

    def raw(self, rows: Rows) -> Ints:
        total = np.zeros(len(self._table.alive[rows]), np.int64)
        for weight, term in self._terms:
            total += weight * term.mask(rows)
        return total
