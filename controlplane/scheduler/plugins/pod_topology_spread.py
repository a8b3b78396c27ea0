"""PodTopologySpread: pods of one description evenly over domains; DoNotSchedule (filter), ScheduleAnyway (score).

Pods without constraints of their own get the profile's defaults, counted over the pods of their services and of their
controller: a preference for spreading over zones and hosts (``defaultingType: System``), or the list
``defaultConstraints``. Counts follow every placement (see :mod:`controlplane.scheduler.peers`); which nodes count at
all is a mask that is made anew only when labels or taints have changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler import nodeselector
from controlplane.scheduler.framework import (
    MAX_SCORE,
    Aspect,
    Bools,
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
from controlplane.scheduler.peers import Pattern, Peer, selector_of
from controlplane.scheduler.podinfo import PodClass
from controlplane.scheduler.tolerations import untolerated
from controlplane.scheduler.workloads import owner_of
from wharfinger.api import labels
from wharfinger.api.types import core

_HOSTNAME, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_HARD, _SOFT = "DoNotSchedule", "ScheduleAnyway"
_UNLABELLED, _SKEWED = 1, 2
"""Codes: 1 lacks a label, others are 2 + number of the constraint."""
_IGNORED = -1
"""Raw score of a node that lacks a topology key: it gets nothing and does not count when others are scaled."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A spread constraint."""

    key: str
    max_skew: int
    when: str
    selector: labels.Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


_SYSTEM = ((_HOSTNAME, 3), (_ZONE, 5))
"""Topology keys and skews of the built-in defaults, all ScheduleAnyway."""


class PodTopologySpread(FilterPlugin, ScorePlugin):
    """Refuses and scores nodes by how uneven a pod would make its like."""

    name = "PodTopologySpread"

    takes = ("defaultConstraints", "defaultingType")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        listed = self.argument("defaultConstraints", [])
        kind = self.argument("defaultingType", "") or "System"
        if kind not in ("System", "List"):
            raise ValueError(f"defaultingType: {kind!r} is neither System nor List")
        if kind == "System" and listed:
            raise ValueError("defaultConstraints: only with defaultingType List")
        self._system = kind == "System"
        if self._system:
            self._defaults = [(key, skew, _SOFT) for key, skew in _SYSTEM]
        else:
            self._defaults = [_read_default(entry, index) for index, entry in enumerate(listed)]

    def class_key(self, pod: core.Pod) -> Hashable:
        """Return constraints and controller."""
        constraints = pod.spec.topologySpreadConstraints
        if constraints:
            return tuple(constraint.SerializeToString(deterministic=True) for constraint in constraints)
        return owner_of(pod) if pod.metadata.ownerReferences else None

    def basis(self, pod: PodClass, table: NodeTable) -> Hashable:
        """Return what the pods of a kind have in common with others, where that decides."""
        exemplar = pod.exemplar
        if exemplar.spec.topologySpreadConstraints or not self._defaults:
            return None
        return table.workloads.selector_for(exemplar)

    def _constraints(self, pod: PodClass, table: NodeTable, when: str) -> list[Constraint]:
        exemplar = pod.exemplar
        if exemplar.spec.topologySpreadConstraints:
            listed = exemplar.spec.topologySpreadConstraints
            return [_read(exemplar, entry) for entry in listed if entry.whenUnsatisfiable == when]
        defaults = [entry for entry in self._defaults if entry[2] == when]
        selector = table.workloads.selector_for(exemplar) if defaults else None
        if selector is None:
            return []
        return [Constraint(key=key, max_skew=skew, when=when, selector=selector) for key, skew, _ in defaults]

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        """Prepare if there are constraints that must hold."""
        constraints = self._constraints(pod, table, _HARD)
        return _Filter(pod, table, constraints) if constraints else None

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score | None:
        """Prepare if there are constraints that should hold."""
        constraints = self._constraints(pod, table, _SOFT)
        own = bool(pod.exemplar.spec.topologySpreadConstraints)
        return _Score(pod, table, constraints, all_keys=own or not self._system) if constraints else None


def _read_default(entry: Mapping[str, Any], index: int) -> tuple[str, int, str]:
    path = f"defaultConstraints[{index}]"
    if unknown := sorted(set(entry) - {"maxSkew", "topologyKey", "whenUnsatisfiable"}):
        raise ValueError(f"{path}.{unknown[0]}: not allowed in a default constraint")
    skew, key, when = entry.get("maxSkew"), entry.get("topologyKey"), entry.get("whenUnsatisfiable")
    if not isinstance(skew, int) or skew < 1:
        raise ValueError(f"{path}.maxSkew: {skew!r} is no whole number greater than 0")
    if not key:
        raise ValueError(f"{path}.topologyKey: must be given")
    if when not in (_HARD, _SOFT):
        raise ValueError(f"{path}.whenUnsatisfiable: {when!r} is neither {_HARD} nor {_SOFT}")
    return str(key), skew, when


def _read(pod: core.Pod, entry: core.TopologySpreadConstraint) -> Constraint:
    own = pod.metadata.labels
    extra = [labels.Requirement(key, "In", frozenset((own[key],))) for key in entry.matchLabelKeys if key in own]
    return Constraint(
        key=entry.topologyKey,
        max_skew=entry.maxSkew,
        when=entry.whenUnsatisfiable,
        selector=selector_of(entry.labelSelector if entry.HasField("labelSelector") else None, extra),
        min_domains=entry.minDomains or 1,
        honors_affinity=entry.nodeAffinityPolicy != "Ignore",
        honors_taints=entry.nodeTaintsPolicy == "Honor",
    )


class _Counted:
    """Constraints with the counts that they look at."""

    def __init__(self, pod: PodClass, table: NodeTable, constraints: Sequence[Constraint], *, all_keys: bool) -> None:
        self.table = table
        self.constraints = constraints
        self.columns = [table.label(constraint.key) for constraint in constraints]
        self._all_keys = all_keys
        self._tolerations = list(pod.exemplar.spec.tolerations)
        self._selectors = nodeselector.required_of(pod.exemplar, table)
        self._geography = -1
        self.labelled: Bools = np.zeros(0, np.bool_)
        """Nodes that have all topology keys."""
        peer = pod.peer
        self.domains = [
            table.peers.tally(
                ("spread", peer.namespace, constraint.selector), _counter(peer.namespace, constraint.selector)
            ).by(column, table, self.labelled)
            for constraint, column in zip(constraints, self.columns, strict=True)
        ]
        self.self_match = [int(constraint.selector.matches(peer.labels)) for constraint in constraints]
        self.there: list[Bools] = []
        """For each constraint, which numbers of its label exist on nodes that count."""
        self.there_count: list[int] = []

    def refresh(self) -> None:
        """Take in changes of nodes."""
        table = self.table
        if self._geography == table.geography:
            return
        self.labelled = table.alive.copy()
        for column in self.columns:
            self.labelled &= column.ids != 0
        basis = self.labelled if self._all_keys else table.alive
        fitting: Bools | None = None
        untainted: Bools | None = None
        self.there = []
        for constraint, domains in zip(self.constraints, self.domains, strict=True):
            mask = basis.copy()
            if constraint.honors_affinity and self._selectors:
                if fitting is None:
                    fitting = np.ones(table.size, np.bool_)
                    for selector in self._selectors:
                        fitting &= selector.mask(slice(None))
                mask &= fitting
            if constraint.honors_taints:
                if untainted is None:
                    untainted = self._untainted()
                mask &= untainted
            domains.mask = mask
            domains.reset()
            there = np.zeros(len(domains.column.values), np.bool_)
            there[domains.column.ids[mask]] = True
            there[0] = False
            self.there.append(there)
        self.there_count = [int(np.count_nonzero(there)) for there in self.there]
        self._geography = table.geography

    def _untainted(self) -> Bools:
        tolerated = [
            not untolerated(taints, self._tolerations, ("NoSchedule", "NoExecute")) for taints in self.table.taint_sets
        ]
        return np.array(tolerated, np.bool_)[self.table.taints]

    def stamp(self) -> int:
        """Return a number that changes with the counts."""
        total = self.table.geography
        for domains in self.domains:
            total += domains.stamp
        return total


def _counter(namespace: str, selector: labels.Selector) -> Any:
    if selector.everything:
        return lambda _: 0  # so kube-scheduler: a selector without any requirement counts nothing
    return lambda peer: int(_counts(peer, namespace, selector))


def _counts(peer: Peer, namespace: str, selector: labels.Selector) -> bool:
    return peer.namespace == namespace and not peer.terminating and selector.matches(peer.labels)


class _Filter(Filter):
    plugin = PodTopologySpread.name
    reads = Aspect.PEERS | Aspect.LABELS | Aspect.TAINTS
    stamped = True

    def __init__(self, pod: PodClass, table: NodeTable, constraints: Sequence[Constraint]) -> None:
        self._counted = _Counted(pod, table, constraints, all_keys=True)
        self._pattern = Pattern(self._counted.domains, self._skewed)

    def stamp(self) -> int:
        self._counted.refresh()
        return self._counted.table.geography + self._pattern.stamp()

    def _skewed(self, index: int, sums: Ints) -> Bools:
        """Return which domains of a constraint are too full for one more."""
        counted = self._counted
        constraint, count = counted.constraints[index], counted.there_count[index]
        most = constraint.max_skew + self._least(index, sums) - counted.self_match[index]
        if count == 0 and constraint.min_domains <= 1:
            most = constraint.max_skew + 2**40  # no domain counts, so none is too full
        skewed: Bools = sums > most
        return skewed

    def _least(self, index: int, sums: Ints) -> int:
        """Return the smallest count of a domain; 0 when there are fewer domains than wanted."""
        counted = self._counted
        count = counted.there_count[index]
        if count < counted.constraints[index].min_domains or not count:
            return 0
        there = counted.there[index]
        return int(sums[1:].min()) if count == len(there) - 1 else int(sums[there].min())

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        counted = self._counted
        counted.refresh()
        codes = np.zeros(len(counted.table.alive[rows]), np.int32)
        for index in range(len(counted.constraints) - 1, -1, -1):
            ids = counted.columns[index].ids[rows]
            codes[self._skewed(index, counted.domains[index].sums())[ids]] = _SKEWED + index
            codes[ids == 0] = _UNLABELLED
        return codes

    def refusal(self, code: int) -> Refusal:
        reason = "node(s) didn't match pod topology spread constraints"
        if code == _UNLABELLED:
            return Refusal(self.plugin, Code.UNRESOLVABLE, (f"{reason} (missing required label)",))
        return Refusal(self.plugin, Code.UNSCHEDULABLE, (reason,))

    def facts(self) -> list[tuple[Ints, int]]:
        self._counted.refresh()
        sums = [domains.sums().copy() for domains in self._counted.domains]
        return [(entry, self._least(index, entry)) for index, entry in enumerate(sums)]

    def detail(self, row: int, code: int, facts: list[tuple[Ints, int]]) -> str:
        counted = self._counted
        if code == _UNLABELLED:
            missing = [column.key for column in counted.columns if not column.ids[row]]
            return f"has no label {', '.join(missing)}, over which the pod must be spread"
        index = code - _SKEWED
        column, constraint = counted.columns[index], counted.constraints[index]
        sums, least = facts[index]
        number = int(column.ids[row])
        have = int(sums[number]) if number < len(sums) else 0
        return (
            f"{column.key}={column.values[number]} has {have} of such pods, the emptiest domain {least}; "
            f"at most {constraint.max_skew} more are allowed"
        )

    def changes(self, row: int, code: int, facts: list[tuple[Ints, int]]) -> list[Change] | None:
        counted = self._counted
        node = counted.table.names[row]
        if code == _UNLABELLED:
            return [
                Change(f"label {node} {column.key}=VALUE", 1.1) for column in counted.columns if not column.ids[row]
            ]
        index = code - _SKEWED
        return [Change(f"allow a maxSkew above {counted.constraints[index].max_skew}", 1.5, of_pod=True)]


class _Score(Score):
    plugin = PodTopologySpread.name
    reads = 0
    focused = True

    def __init__(self, pod: PodClass, table: NodeTable, constraints: Sequence[Constraint], *, all_keys: bool) -> None:
        self._counted = _Counted(pod, table, constraints, all_keys=all_keys)
        self._all_keys = all_keys
        self._weights: list[float] = [0.0] * len(constraints)
        self._weights_stamp = 0
        self._focus: Bools | None = None
        self._focus_geography = -1

    def focus(self, feasible: Bools) -> None:
        """Weigh constraints by how many domains the feasible nodes have."""
        counted = self._counted
        counted.refresh()
        if (
            self._focus_geography == counted.table.geography
            and self._focus is not None
            and np.array_equal(feasible, self._focus)
        ):
            return
        self._focus, self._focus_geography = feasible.copy(), counted.table.geography
        seen = feasible & counted.labelled if self._all_keys else feasible
        weights = []
        for column in counted.columns:
            if column.key == _HOSTNAME:
                size = int(np.count_nonzero(seen))
            else:
                size = int(np.count_nonzero(np.bincount(column.ids[seen])))
            weights.append(float(np.log(size + 2)))
        if weights != self._weights:
            self._weights = weights
            self._weights_stamp += 1

    def stamp(self) -> int:
        # Hosts are counted by row, without sums that would tell that they have changed.
        hosts = sum(domains.tally.stamp for domains in self._counted.domains if domains.column.key == _HOSTNAME)
        return self._counted.stamp() + hosts + self._weights_stamp

    def raw(self, rows: Rows) -> Ints:
        counted = self._counted
        table = counted.table
        total = np.zeros(len(table.alive[rows]), np.float64)
        for constraint, domains, weight in zip(counted.constraints, counted.domains, self._weights, strict=True):
            ids = domains.column.ids[rows]
            if domains.column.key == _HOSTNAME:  # each host for itself, whether it counts as a domain or not
                counts = domains.tally.counts[rows]
                scores = counts * weight + (constraint.max_skew - 1)
            else:
                scores = (domains.sums() * weight + (constraint.max_skew - 1))[ids]
            total += np.where(ids != 0, scores, 0.0)
        raw: Ints = np.floor(total + 0.5).astype(np.int64)
        if self._all_keys:
            raw[~counted.labelled[rows]] = _IGNORED
        return raw

    def published(self, raw: Ints) -> Ints:
        return np.maximum(raw, 0)

    def bounds(self, raw: Ints) -> tuple[int, int]:
        """Return the lowest and the highest score of nodes that have all keys."""
        counted = raw[raw != _IGNORED]
        return (int(counted.min()), int(counted.max())) if len(counted) else (0, 0)

    def scale(self, raw: Ints, bounds: Any) -> Ints:
        """Return the better scores the fewer pods there are."""
        low, high = bounds
        scaled = np.full_like(raw, MAX_SCORE) if high == 0 else MAX_SCORE * (high + low - raw) // high
        return np.where(raw == _IGNORED, 0, scaled)
