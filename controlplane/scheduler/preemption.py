"""Which pods would have to go so that a more important one fits: the rules of kube-scheduler's DefaultPreemption.

On a node, all pods of lower priority are supposed to be gone; if the pod fits then, they are let back one by one, the
most important first (those whose disruption budget would be violated before all others), as long as it still fits. Who
cannot come back is a victim. Among the nodes, the one wins whose victims matter least.

The very filters that placed pods answer here, on the very node table, changed for the moment and changed back
(``NodeTable.supposing``). Filters that do not look at pods are not asked again; and where only sums of resources count,
nodes that are filled alike are worked out once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from controlplane.scheduler.decisions import Diagnosis, failure_message
from controlplane.scheduler.framework import Aspect, Code, Refusal
from controlplane.scheduler.nodetable import NodeTable, Resident, Supposition
from controlplane.scheduler.peers import Peer
from wharfinger.api import labels

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState
    from controlplane.scheduler.nominations import Nominations
    from controlplane.scheduler.plugins.default_preemption import DefaultPreemption
    from controlplane.scheduler.podinfo import PodInfo

_PLUGIN = "DefaultPreemption"
_NO_VICTIMS = Refusal("", Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",))
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_OFFSET = 2**31
"""Added to each priority, so that more victims weigh more even when priorities are negative."""

_READS_PODS = Aspect.USAGE | Aspect.PEERS

Entry = tuple[str, Resident]
"""Key and pod."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget."""

    namespace: str
    selector: labels.Selector
    allowed: int
    """Disruptions that it allows now."""
    disrupted: frozenset[str] = frozenset()
    """Names of pods that are on their way out with its blessing."""

    def covers(self, peer: Peer) -> bool:
        """Whether it protects pods of a kind; one that selects everything protects nobody here."""
        return peer.namespace == self.namespace and not self.selector.everything and self.selector.matches(peer.labels)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would take the pod after some others have gone."""

    node: str
    victims: tuple[Entry, ...]
    """Most important first."""
    violations: int
    """How many of them a disruption budget protects."""
    rank: tuple[int, int, int, int, float]
    """The candidate with the smallest is preferred."""

    @classmethod
    def of(cls, node: str, victims: tuple[Entry, ...], violations: int) -> Candidate:
        """Rank a candidate: fewest violations, lowest top priority, lowest sum, fewest pods, latest start."""
        top = victims[0][1].priority
        total = sum(victim.priority + _OFFSET for _, victim in victims)
        earliest = min(_start(victim) for _, victim in victims if victim.priority == top)
        return cls(node, victims, violations, (violations, top, total, len(victims), -earliest))


@dataclass(slots=True)
class Found:
    """What was found on nodes for pods of a kind and priority, where only sums count; see :class:`_Search`."""

    version: Hashable = None
    by_row: dict[int, tuple[int, int, Candidate | Refusal]] = field(default_factory=dict)
    """Row -> latest change of the row, latest nomination there, result."""


@dataclass(slots=True)
class Preemption:
    """What looking for victims came to."""

    message: str = ""
    """Why nobody has to go; empty when there is a candidate."""
    ineligible: bool = False
    """Whether the pod may not have others make room, or has done so already."""
    candidates: list[Candidate] = field(default_factory=list)
    best: list[Candidate] = field(default_factory=list)
    """All that tie for the first place."""
    rejected: dict[str, Refusal] = field(default_factory=dict)
    """Nodes that were tried in vain."""
    chosen: Candidate | None = None


def _start(resident: Resident) -> float:
    return resident.started or float("inf")


def importance(entry: Entry) -> tuple[int, float]:
    """Return a key: the more important a pod, the smaller."""
    return -entry[1].priority, _start(entry[1])


def preempt(
    pod: PodInfo,
    diagnosis: Diagnosis,
    state: ClassState,
    *,
    plugin: DefaultPreemption,
    nominations: Nominations,
    budgets: Iterable[Budget],
    draw: random.Random,
    found: Found | None = None,
) -> Preemption:
    """Look for pods that could make room; `diagnosis` is the failed attempt, `state` its class state, up to date.

    `found` is kept by the caller for pods of this kind and priority, as long as the budgets are the same.
    """
    table = state.table
    message = _not_eligible(pod, diagnosis, table)
    if message:
        return Preemption(message=f"preemption: {message}", ineligible=True)
    resolvable = np.flatnonzero(diagnosis.resolvable) if diagnosis.resolvable is not None else np.zeros(0, np.intp)
    result = Preemption()
    search = _Search(pod, state, nominations, list(budgets), found if found is not None else Found())
    counts = Counter({_NOT_HELPFUL: len(table) - len(resolvable)})
    if len(resolvable) and table.lowest_priority() >= pod.priority:
        counts[_NO_VICTIMS.reasons[0]] += len(resolvable)
        result.rejected = {table.names[row] or "": _NO_VICTIMS for row in resolvable.tolist()}
    elif len(resolvable):
        _look(result, search, resolvable.tolist(), plugin=plugin, draw=draw)
        for refusal in result.rejected.values():
            counts.update(refusal.reasons)
    if not result.candidates:
        result.message = "preemption: " + failure_message(+counts, len(table), None)
        return result
    first = min(candidate.rank for candidate in result.candidates)
    result.best = [candidate for candidate in result.candidates if candidate.rank == first]
    result.chosen = result.best[draw.randrange(len(result.best))] if len(result.best) > 1 else result.best[0]
    return result


def _not_eligible(pod: PodInfo, diagnosis: Diagnosis, table: NodeTable) -> str:
    if not pod.may_preempt:
        return "not eligible due to preemptionPolicy=Never."
    row = table.rows.get(pod.nominated) if pod.nominated else None
    if row is not None and diagnosis.resolvable is not None and diagnosis.resolvable[row]:
        for resident in table.pods_on(pod.nominated).values():
            if resident.leaving and resident.priority < pod.priority:
                return "not eligible due to a terminating pod on the nominated node."
    return ""


def _look(
    result: Preemption, search: _Search, rows: Sequence[int], *, plugin: DefaultPreemption, draw: random.Random
) -> None:
    """Try nodes, beginning anywhere, until there are enough candidates, one without violations among them."""
    enough = plugin.candidates(len(rows))
    offset = draw.randrange(len(rows)) if enough < len(rows) else 0
    without_violations = False
    for row in (*rows[offset:], *rows[:offset]):
        found = search.on(row)
        if isinstance(found, Refusal):
            result.rejected[search.table.names[row] or ""] = found
            continue
        result.candidates.append(found)
        without_violations = without_violations or not found.violations
        if without_violations and len(result.candidates) >= enough:
            return


class _Search:
    """Looks for victims node by node."""

    def __init__(
        self, pod: PodInfo, state: ClassState, nominations: Nominations, budgets: Sequence[Budget], found: Found
    ) -> None:
        self.table = state.table
        self._pod = pod
        self._nominations = nominations
        self._budgets = budgets
        self._covering: dict[int, list[int]] = {}
        self._filters = [column.filter for column in state.filters if column.filter.reads & _READS_PODS]
        version = (self.table.importance_stamp, tuple(self._budgets))
        if found.version != version:
            found.version = version
            found.by_row.clear()
        self._kept = found.by_row
        self._alike: dict[Hashable, tuple[tuple[int, ...], int] | Refusal] | None = (
            {} if all(entry.sums_only for entry in self._filters) else None
        )

    def on(self, row: int) -> Candidate | Refusal:
        """Find the victims on the node of a row, or know them from a search before."""
        if self._alike is None:
            return self._search(row)
        name = self.table.names[row] or ""
        if name == self._pod.nominated:
            return self._search(row)
        touched, nominated = int(self.table.touched[row]), self._nominations.changed.get(name, 0)
        known = self._kept.get(row)
        if known is None or known[0] != touched or known[1] != nominated:
            known = self._kept[row] = (touched, nominated, self._search(row))
        return known[2]

    def _search(self, row: int) -> Candidate | Refusal:
        name = self.table.names[row]
        assert name is not None
        priority = self._pod.priority
        lower = [entry for entry in self.table.pods_on(name).items() if entry[1].priority < priority]
        if not lower:
            return _NO_VICTIMS
        lower.sort(key=importance)
        protected = self._protected(lower)
        nominated = self._nominations.against(name, key=self._pod.key, priority=priority)
        if self._alike is None:
            found = self._work_out(row, lower, protected, nominated)
        else:
            key = (
                self.table.allocatable[:, row].tobytes(),
                self.table.requested[:, row].tobytes(),
                tuple(id(resident.usage) for _, resident in lower),
                tuple(protected),
                tuple(id(resident.usage) for _, resident in nominated),
            )
            known = self._alike.get(key)
            if known is None:
                known = self._alike[key] = self._work_out(row, lower, protected, nominated)
            found = known
        if isinstance(found, Refusal):
            return found
        positions, violations = found
        return Candidate.of(name, tuple(lower[position] for position in positions), violations)

    def _work_out(
        self, row: int, lower: Sequence[Entry], protected: Sequence[bool], nominated: Sequence[Entry]
    ) -> tuple[tuple[int, ...], int] | Refusal:
        """Return the positions of the victims in `lower`, and how many of them are protected."""
        with self.table.supposing() as supposition:
            for key, _ in lower:
                supposition.without(key)
            refusal = self._refusal(row, nominated, supposition)
            if refusal is not None:
                return refusal
            victims = []
            violations = 0
            order = sorted(range(len(lower)), key=lambda position: not protected[position])
            for position in order:
                key, resident = lower[position]
                supposition.having(key, resident)
                if self._refusal(row, nominated, supposition) is not None:
                    supposition.without(key)
                    victims.append(position)
                    violations += protected[position]
        if not victims:
            return Refusal(_PLUGIN, Code.UNSCHEDULABLE, ("the pod fits without preemption",))
        return tuple(sorted(victims)), violations

    def _refusal(self, row: int, nominated: Sequence[Entry], supposition: Supposition) -> Refusal | None:
        """Ask the filters, with the nominated pods and without."""
        if nominated:
            for key, resident in nominated:
                supposition.having(key, resident)
            refusal = self._ask(row)
            for key, _ in nominated:
                supposition.without(key)
            if refusal is not None:
                return refusal
        return self._ask(row)

    def _ask(self, row: int) -> Refusal | None:
        here = slice(row, row + 1)
        for entry in self._filters:
            code = int(entry.codes(here)[0])
            if code:
                return entry.refusal(code)
        return None

    def _protected(self, lower: Sequence[Entry]) -> list[bool]:
        """Return whether evicting each pod would violate a budget, if those before it went, too."""
        if not self._budgets:
            return [False] * len(lower)
        left: dict[int, int] = {}
        protected = []
        for key, resident in lower:
            violated = False
            name = key.partition("/")[2]
            for index in self._budgets_of(resident.peer):
                budget = self._budgets[index]
                if name in budget.disrupted:
                    continue
                left[index] = left.get(index, budget.allowed) - 1
                violated = violated or left[index] < 0
            protected.append(violated)
        return protected

    def _budgets_of(self, peer: Peer) -> list[int]:
        found = self._covering.get(id(peer))
        if found is None:
            found = [index for index, budget in enumerate(self._budgets) if peer.labels and budget.covers(peer)]
            self._covering[id(peer)] = found
        return found


def names(entries: Iterable[Entry]) -> list[str]:
    """Return the keys of pods."""
    return [key for key, _ in entries]


def refusals_by_nomination(
    pod: PodInfo, state: ClassState, nominations: Nominations, *, feasible_only: bool
) -> Mapping[int, Refusal]:
    """Return row -> refusal for nodes that would not take the pod, were those there that are nominated to them."""
    table = state.table
    found: dict[int, Refusal] = {}
    if state.refusal is None and all(
        column.filter.sums_only for column in state.filters if column.filter.reads & _READS_PODS
    ):
        return _refusals_by_sums(pod, state, nominations, feasible_only=feasible_only)
    for node in nominations.nodes():
        row = table.rows.get(node)
        if row is None or (feasible_only and not state.feasible[row]):
            continue
        others = nominations.against(node, key=pod.key, priority=pod.priority)
        if not others:
            continue
        with table.supposing() as supposition:
            for key, resident in others:
                supposition.having(key, resident)
            refusal = state.first_refusal(row)
        if refusal is not None:
            found[row] = refusal
    return found


def _refusals_by_sums(
    pod: PodInfo, state: ClassState, nominations: Nominations, *, feasible_only: bool
) -> Mapping[int, Refusal]:
    """Do the same for all nominated nodes at once, where nothing but sums of resources counts."""
    table = state.table
    rows, extra = nominations.sums(table, pod.priority, key=pod.key)
    if feasible_only:
        there = state.feasible[rows]
        rows, extra = rows[there], extra[:, there]
    found: dict[int, Refusal] = {}
    if not len(rows):
        return found
    table.requested[:, rows] += extra
    try:
        left = np.ones(len(rows), np.bool_)
        for column in state.filters:
            asked = column.filter.reads & _READS_PODS
            if feasible_only and not asked:
                continue
            codes = column.filter.codes(rows) if asked else column.codes[rows]
            refused = left & (codes != 0)
            if refused.any():
                meant = {code: column.filter.refusal(code) for code in np.unique(codes[refused]).tolist()}
                for row, code in zip(rows[refused].tolist(), codes[refused].tolist(), strict=True):
                    found[row] = meant[code]
            left &= codes == 0
    finally:
        table.requested[:, rows] -= extra
    return found
