"""Which pods would have to go so that a more important one fits: the rules of kube-scheduler's DefaultPreemption.

On a node, all pods of lower priority are supposed to be gone; if the pod fits then, they are let back one by one, the
most important first (those whose disruption budget would be violated before all others), as long as it still fits. Who
cannot come back is a victim. Among the nodes, the one wins whose victims matter least.

The very filters that placed pods answer here, on the very node table, changed for the moment and changed back
(``NodeTable.supposing``). Filters that do not look at pods are not asked again. Where only sums of resources count,
nodes that are filled alike are worked out once, and what was found on a node is kept until the node changes: the next
pod of the kind costs a few array operations and the nodes that have changed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.decisions import Diagnosis, RefusedRows, failure_message
from controlplane.scheduler.framework import Aspect, Bools, Code, Ints, Refusal
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.peers import Peer
from controlplane.scheduler.residents import Resident, Supposition
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
_RANKS = 5
"""Numbers in a rank."""
_AT_ONCE = 32
"""Nodes that are searched before it is looked anew at how many are needed."""

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


class Found:
    """What was found on nodes for pods of a kind and priority, by row; for searches where only sums count."""

    __slots__ = ("_nominated", "_version", "candidate", "ranks", "results", "touched", "violating")

    def __init__(self) -> None:
        self._version: Hashable = None
        self._nominated = 0
        self.touched: Ints = np.zeros(0, np.int64)
        """The latest change of each row when it was searched; -1 when it was not, or must be again."""
        self.results: NDArray[np.object_] = np.zeros(0, np.object_)
        """Candidate or Refusal."""
        self.candidate: Bools = np.zeros(0, np.bool_)
        self.violating: Bools = np.zeros(0, np.bool_)
        """Whether the victims of a candidate violate a budget."""
        self.ranks: NDArray[np.float64] = np.zeros((_RANKS, 0))

    def sync(self, table: NodeTable, nominations: Nominations, version: Hashable) -> None:
        """Forget what no longer holds."""
        nodes = nominations.changed_since(self._nominated)
        self._nominated = nominations.stamp
        version = (version, table.size)
        if nodes is None or version != self._version:
            self._version = version
            self.touched = np.full(table.size, -1, np.int64)
            self.results = np.full(table.size, None, np.object_)
            self.candidate = np.zeros(table.size, np.bool_)
            self.violating = np.zeros(table.size, np.bool_)
            self.ranks = np.zeros((_RANKS, table.size))
            return
        for node in nodes:
            row = table.rows.get(node)
            if row is not None:
                self.touched[row] = -1

    def note(self, row: int, touched: int, result: Candidate | Refusal) -> None:
        """Keep what was found on the node of a row."""
        self.touched[row] = touched
        self.results[row] = result
        is_candidate = self.candidate[row] = isinstance(result, Candidate)
        if is_candidate:
            self.ranks[:, row] = result.rank  # type: ignore[union-attr]
            self.violating[row] = result.violations > 0  # type: ignore[union-attr]


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
    chosen: Candidate | None = None
    in_vain: Callable[[], dict[str, Refusal]] = dict

    @property
    def rejected(self) -> dict[str, Refusal]:
        """Return the nodes that were tried in vain; to be asked at once, before nodes come or go."""
        return self.in_vain()


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
        result.in_vain = lambda: {table.names[row] or "": _NO_VICTIMS for row in resolvable.tolist()}
    elif len(resolvable):
        look = _look_among_sums if search.sums_only else _look
        refusals = look(result, search, resolvable, plugin=plugin, draw=draw)
        if not result.candidates:
            for refusal, number in _counted(refusals):
                for reason in refusal.reasons:
                    counts[reason] += number
    if not result.candidates:
        result.message = "preemption: " + failure_message(+counts, len(table), None)
        return result
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


def _counted(refusals: Sequence[Refusal]) -> list[tuple[Refusal, int]]:
    """Return the refusals that differ, and how many there are of each; thousands are one and the same object."""
    found = {id(refusal): refusal for refusal in refusals}
    return [(found[key], number) for key, number in Counter(map(id, refusals)).items()]


def _look(
    result: Preemption, search: _Search, rows: NDArray[np.intp], *, plugin: DefaultPreemption, draw: random.Random
) -> Sequence[Refusal]:
    """Try nodes, beginning anywhere, until there are enough candidates, one without violations among them."""
    enough = plugin.candidates(len(rows))
    offset = draw.randrange(len(rows)) if enough < len(rows) else 0
    without_violations = False
    rejected: dict[str, Refusal] = {}
    for row in np.roll(rows, -offset).tolist():
        found = search.search(row)
        if isinstance(found, Refusal):
            rejected[search.table.names[row] or ""] = found
            continue
        result.candidates.append(found)
        without_violations = without_violations or not found.violations
        if without_violations and len(result.candidates) >= enough:
            break
    result.in_vain = lambda: rejected
    if result.candidates:
        first = min(candidate.rank for candidate in result.candidates)
        result.best = [candidate for candidate in result.candidates if candidate.rank == first]
    return list(rejected.values())


def _look_among_sums(
    result: Preemption, search: _Search, rows: NDArray[np.intp], *, plugin: DefaultPreemption, draw: random.Random
) -> Sequence[Refusal]:
    """Do the same with what is known of nodes from the searches before."""
    enough = plugin.candidates(len(rows))
    offset = draw.randrange(len(rows)) if enough < len(rows) else 0
    kept, table = search.found, search.table
    tried = search.know(np.roll(rows, -offset), enough)
    there = kept.candidate[tried]
    rejected = tried[~there]
    refusals: list[Refusal] = kept.results[rejected].tolist()
    result.in_vain = lambda: {
        table.names[row] or "": refusal for row, refusal in zip(rejected.tolist(), refusals, strict=True)
    }
    best = candidates = tried[there]
    if len(candidates):
        for level in range(_RANKS):
            values = kept.ranks[level, best]
            best = best[values == values.min()]
    result.candidates = kept.results[candidates].tolist()
    result.best = kept.results[best].tolist()
    return refusals


def _needed(candidate: Bools, violating: Bools, enough: int) -> int:
    """Return how many nodes have to be tried so that there are enough candidates, one without violations among them."""
    reached = int(np.searchsorted(np.cumsum(candidate), enough))
    clean = candidate & ~violating
    first = int(clean.argmax()) if clean.any() else len(clean)
    return min(len(candidate), max(reached, first) + 1)


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
        self.sums_only = all(entry.sums_only for entry in self._filters)
        """Whether nothing but sums of what the pods take counts."""
        self.found = found
        self._alike: dict[Hashable, tuple[tuple[int, ...], int] | Refusal] = {}
        if self.sums_only:
            found.sync(self.table, nominations, (self.table.importance_stamp, tuple(self._budgets)))

    def know(self, rows: NDArray[np.intp], enough: int) -> NDArray[np.intp]:
        """Search nodes, in order, until there are enough candidates; returns those that had to be tried."""
        kept, table = self.found, self.table
        own = table.rows.get(self._pod.nominated) if self._pod.nominated else None
        if own is not None:
            kept.touched[own] = -1  # a pod does not count as nominated for itself
        while True:
            known = kept.touched[rows] == table.touched[rows]
            needed = _needed(known & kept.candidate[rows], kept.violating[rows], enough)
            unknown = np.flatnonzero(~known[:needed])[:_AT_ONCE]
            if not len(unknown):
                break
            for row in rows[unknown].tolist():
                kept.note(row, int(table.touched[row]), self.search(row))
        if own is not None:
            kept.touched[own] = -1
        return rows[:needed]

    def search(self, row: int) -> Candidate | Refusal:
        """Find the victims on the node of a row."""
        name = self.table.names[row]
        assert name is not None
        priority = self._pod.priority
        lower = [entry for entry in self.table.pods_on(name).items() if entry[1].priority < priority]
        if not lower:
            return _NO_VICTIMS
        lower.sort(key=importance)
        protected = self._protected(lower)
        nominated = self._nominations.against(name, key=self._pod.key, priority=priority)
        if not self.sums_only:
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


def refused_by_nomination(pod: PodInfo, state: ClassState, nominations: Nominations) -> Sequence[int] | Ints:
    """Return the feasible rows whose nodes would not take the pod, were those there that are nominated to them."""
    if _only_sums_count(state):
        rows, codes, _ = _codes_by_sums(pod, state, nominations, feasible_only=True)
        refused: Ints = rows[codes != 0]
        return refused
    return list(_refusals_one_by_one(pod, state, nominations, feasible_only=True))


def refusals_by_nomination(pod: PodInfo, state: ClassState, nominations: Nominations) -> Mapping[int, Refusal]:
    """Return row -> refusal for all nodes that would not take the pod, were those there that are nominated to them."""
    if not _only_sums_count(state):
        return _refusals_one_by_one(pod, state, nominations, feasible_only=False)
    rows, codes, filters = _codes_by_sums(pod, state, nominations, feasible_only=False)
    refused = codes != 0
    pairs, which = np.unique((filters[refused] << 32) | codes[refused], return_inverse=True)
    meant = [state.filters[pair >> 32].filter.refusal(pair & 0xFFFFFFFF) for pair in pairs.tolist()]
    return RefusedRows(rows[refused], which, meant)


def _only_sums_count(state: ClassState) -> bool:
    return state.refusal is None and all(
        column.filter.sums_only for column in state.filters if column.filter.reads & _READS_PODS
    )


def _refusals_one_by_one(
    pod: PodInfo, state: ClassState, nominations: Nominations, *, feasible_only: bool
) -> dict[int, Refusal]:
    table = state.table
    found: dict[int, Refusal] = {}
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


def _codes_by_sums(
    pod: PodInfo, state: ClassState, nominations: Nominations, *, feasible_only: bool
) -> tuple[Ints, NDArray[np.int32], Ints]:
    """Return rows with nominated pods, and for each the code of the first filter that refuses it and its index.

    For all nodes at once, where nothing but sums of resources counts.
    """
    table = state.table
    rows, extra = nominations.sums(table, pod.priority, key=pod.key)
    if feasible_only:
        there = state.feasible[rows]
        rows, extra = rows[there], extra[:, there]
    first = np.zeros(len(rows), np.int32)
    filters = np.zeros(len(rows), np.int64)
    if not len(rows):
        return rows, first, filters
    table.requested[:, rows] += extra
    try:
        for index, column in enumerate(state.filters):
            asked = column.filter.reads & _READS_PODS
            if not asked and (feasible_only or not column.codes.flags.writeable):
                continue  # it lets these nodes pass
            codes = column.filter.codes(rows) if asked else column.codes[rows]
            new = (first == 0) & (codes != 0)
            first[new] = codes[new]
            filters[new] = index
    finally:
        table.requested[:, rows] -= extra
    return rows, first, filters
