"""Who would have to go from one node: the rules of kube-scheduler's DefaultPreemption for a single node.

All pods of lower priority are supposed to be gone; if the pod fits then, they are let back one by one, the most
important first (those whose disruption budget would be violated before all others), as long as it still fits. Who
cannot come back is a victim.

The very filters that placed pods answer here, on the very node table, changed for the moment and changed back
(``NodeTable.supposing``). Filters that do not look at pods are not asked again. Where only sums of resources count,
nodes that are filled alike are worked out once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.scheduler.framework import Aspect, Code, Refusal
from controlplane.scheduler.peers import Peer
from controlplane.scheduler.residents import Resident, Supposition
from wharfinger.api import labels

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState
    from controlplane.scheduler.nominations import Nominations
    from controlplane.scheduler.podinfo import PodInfo

PLUGIN = "DefaultPreemption"
NO_VICTIMS = Refusal("", Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",))
READS_PODS = Aspect.USAGE | Aspect.PEERS
_OFFSET = 2**31
"""Added to each priority, so that more victims weigh more even when priorities are negative."""

_MOST_ALIKE = 4096

Entry = tuple[str, Resident]
"""Key and pod."""
Alike = dict[Hashable, tuple[tuple[int, ...], int] | Refusal]
"""What a node is and holds, as far as sums go -> positions of the victims and how many are protected, or why not."""


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


def _start(resident: Resident) -> float:
    return resident.started or float("inf")


def importance(entry: Entry) -> tuple[int, float]:
    """Return a key: the more important a pod, the smaller."""
    return -entry[1].priority, _start(entry[1])


class Search:
    """Looks for victims of a pod node by node."""

    def __init__(
        self,
        pod: PodInfo,
        state: ClassState,
        nominations: Nominations,
        budgets: Sequence[Budget],
        *,
        alike: Alike | None = None,
    ) -> None:
        """The caller keeps `alike` for pods of this kind and priority, while the table's layout is the same."""
        self.table = state.table
        self.pod = pod
        self.nominations = nominations
        self.budgets = budgets
        self._covering: dict[int, list[int]] = {}
        self._filters = [column.filter for column in state.filters if column.filter.reads & READS_PODS]
        self.sums_only = all(entry.sums_only for entry in self._filters)
        """Whether nothing but sums of what the pods take counts."""
        self._alike = alike if alike is not None else {}

    def search(self, row: int) -> Candidate | Refusal:
        """Find the victims on the node of a row."""
        name = self.table.names[row]
        assert name is not None
        priority = self.pod.priority
        lower = [entry for entry in self.table.pods_on(name).items() if entry[1].priority < priority]
        if not lower:
            return NO_VICTIMS
        lower.sort(key=importance)
        protected = self._protected(lower)
        nominated = self.nominations.against(name, key=self.pod.key, priority=priority)
        if not self.sums_only:
            found = self._work_out(row, lower, protected, nominated)
        else:
            key = (
                self.table.allocatable[:, row].tobytes(),
                self.table.requested[:, row].tobytes(),
                tuple(resident.usage for _, resident in lower),
                tuple(protected),
                tuple(resident.usage for _, resident in nominated),
            )
            known = self._alike.get(key)
            if known is None:
                if len(self._alike) >= _MOST_ALIKE:
                    self._alike.clear()
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
            return Refusal(PLUGIN, Code.UNSCHEDULABLE, ("the pod fits without preemption",))
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
        if not self.budgets:
            return [False] * len(lower)
        left: dict[int, int] = {}
        protected = []
        for key, resident in lower:
            violated = False
            name = key.partition("/")[2]
            for index in self._budgets_of(resident.peer):
                budget = self.budgets[index]
                if name in budget.disrupted:
                    continue
                left[index] = left.get(index, budget.allowed) - 1
                violated = violated or left[index] < 0
            protected.append(violated)
        return protected

    def _budgets_of(self, peer: Peer) -> list[int]:
        found = self._covering.get(id(peer))
        if found is None:
            found = [index for index, budget in enumerate(self.budgets) if peer.labels and budget.covers(peer)]
            self._covering[id(peer)] = found
        return found


def names(entries: Iterable[Entry]) -> list[str]:
    """Return the keys of pods."""
    return [key for key, _ in entries]
