"""Node selectors over label columns: every requirement is answered for all nodes at once.

A term is all of its requirements, a selector any of its terms; a term without requirements matches no node. The
operators follow ``k8s.io/component-helpers/scheduling/corev1/nodeaffinity``: NotIn and DoesNotExist also hold for a
node without the label, Gt and Lt compare 64-bit integers and hold for nothing else, fields know only ``metadata.name``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import numpy as np

from controlplane.scheduler.framework import Bools, Change, Rows
from controlplane.scheduler.labelcolumn import Predicate
from controlplane.scheduler.nodetable import NodeTable
from wharfinger.api.types import core

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LIMIT = 2**63


class Requirement(ABC):
    """One condition on a node."""

    @abstractmethod
    def mask(self, rows: Rows) -> Bools:
        """Return for each of the rows whether it holds."""

    @abstractmethod
    def holds(self, row: int) -> bool:
        """Whether it holds for the node of one row."""

    @abstractmethod
    def miss(self, row: int) -> str:
        """Say what the node has instead of what is wanted."""

    @abstractmethod
    def change(self, row: int) -> Change | None:
        """Return what would make it hold, if a change of labels can."""


class LabelRequirement(Requirement):
    """A condition on one label."""

    def __init__(self, table: NodeTable, key: str, operator: str, values: Iterable[str]) -> None:
        self.key = key
        self.operator = operator
        self.values = tuple(values)
        self._table = table
        self._column = table.label(key)
        self._predicate = Predicate(_test(operator, self.values))

    def mask(self, rows: Rows) -> Bools:
        """Return for each of the rows whether it holds."""
        return self._column.where(self._predicate, rows)

    def holds(self, row: int) -> bool:
        """Whether it holds for the node of one row."""
        return bool(self.mask(slice(row, row + 1))[0])

    def miss(self, row: int) -> str:
        """Say what the node has instead."""
        value = self._column.values[self._column.ids[row]]
        have = f"has no label {self.key}" if value is None else f"has {self.key}={value}"
        return f"{have}, needs {self}"

    def change(self, row: int) -> Change | None:
        """Return what would make it hold."""
        node = self._table.names[row]
        match self.operator:
            case "In":
                return Change(f"label {node} {self.key}={self.values[0]}", 1.0) if self.values else None
            case "Exists":
                return Change(f"label {node} {self.key}=VALUE", 1.1)
            case "NotIn" | "DoesNotExist":
                return Change(f"remove label {self.key} from {node}", 1.2)
            case _:
                sign = ">" if self.operator == "Gt" else "<"
                return Change(f"label {node} {self.key} with a number {sign} {self.values[0]}", 1.2)

    def __str__(self) -> str:
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {'in' if self.operator == 'In' else 'not in'} ({', '.join(self.values)})"
            case "Exists":
                return f"label {self.key}"
            case "DoesNotExist":
                return f"no label {self.key}"
            case _:
                return f"{self.key} {'>' if self.operator == 'Gt' else '<'} {self.values[0] if self.values else '?'}"


class NameRequirement(Requirement):
    """A condition on the node's name (``matchFields``)."""

    def __init__(self, table: NodeTable, operator: str, names: Iterable[str]) -> None:
        self._table = table
        self.operator = operator
        self.names = frozenset(names)

    def mask(self, rows: Rows) -> Bools:
        """Return for each of the rows whether it holds."""
        found = np.zeros(self._table.size, np.bool_)
        for name in self.names:
            if (row := self._table.rows.get(name)) is not None:
                found[row] = True
        return ~found[rows] if self.operator == "NotIn" else found[rows]

    def holds(self, row: int) -> bool:
        """Whether it holds for the node of one row."""
        return (self._table.names[row] in self.names) is (self.operator == "In")

    def miss(self, row: int) -> str:
        """Say what the node has instead."""
        wanted = " or ".join(sorted(self.names))
        return f"is {'' if self.operator == 'NotIn' else 'not '}{wanted}"

    def change(self, row: int) -> Change | None:
        """Return what would make it hold."""
        return None


class Never(Requirement):
    """A requirement that cannot be understood: no node meets it."""

    def __init__(self, table: NodeTable, why: str) -> None:
        self._table = table
        self._why = why

    def mask(self, rows: Rows) -> Bools:
        """Return for each of the rows whether it holds."""
        return np.zeros(len(self._table.alive[rows]), np.bool_)

    def holds(self, row: int) -> bool:
        """Whether it holds for the node of one row."""
        return False

    def miss(self, row: int) -> str:
        """Say what the node has instead."""
        return self._why

    def change(self, row: int) -> Change | None:
        """Return what would make it hold."""
        return None


class Term:
    """Requirements that must all hold."""

    def __init__(self, table: NodeTable, requirements: list[Requirement]) -> None:
        self._table = table
        self.requirements = requirements
        self.possible = bool(requirements) and not any(isinstance(entry, Never) for entry in requirements)

    def mask(self, rows: Rows) -> Bools:
        """Return for each of the rows whether the term matches."""
        if not self.possible:
            return np.zeros(len(self._table.alive[rows]), np.bool_)
        result = self.requirements[0].mask(rows)
        for requirement in self.requirements[1:]:
            result = result & requirement.mask(rows)
        return result

    def missed(self, row: int) -> list[Requirement]:
        """Return the requirements that the node of a row does not meet."""
        return [requirement for requirement in self.requirements if not requirement.holds(row)]


class Selector:
    """Terms of which one must match."""

    def __init__(self, table: NodeTable, terms: list[Term]) -> None:
        self._table = table
        self.terms = terms

    def mask(self, rows: Rows) -> Bools:
        """Return for each of the rows whether a term matches."""
        result = np.zeros(len(self._table.alive[rows]), np.bool_)
        for term in self.terms:
            result = result | term.mask(rows)
        return result

    def nearest(self, row: int) -> list[Requirement] | None:
        """Return the unmet requirements of the term that lacks least; None when no term can match at all."""
        return min((term.missed(row) for term in self.terms if term.possible), key=len, default=None)

    def names(self) -> frozenset[str] | None:
        """Return the only node names that can match, when every term names some; else None."""
        result: set[str] = set()
        for term in self.terms:
            named = [
                entry.names
                for entry in term.requirements
                if isinstance(entry, NameRequirement) and entry.operator == "In"
            ]
            if not named:
                return None
            result |= frozenset.intersection(*named)
        return frozenset(result)


def from_labels(table: NodeTable, labels: Iterable[tuple[str, str]]) -> Term:
    """Read a pod's ``nodeSelector``."""
    return Term(table, [LabelRequirement(table, key, "In", (value,)) for key, value in sorted(labels)])


def from_term(table: NodeTable, term: core.NodeSelectorTerm) -> Term:
    """Read one term."""
    requirements: list[Requirement] = []
    for entry in term.matchExpressions:
        requirements.append(_label_requirement(table, entry))
    for entry in term.matchFields:
        requirements.append(_field_requirement(table, entry))
    return Term(table, requirements)


def required_of(pod: core.Pod, table: NodeTable) -> list[Term | Selector]:
    """Return what a pod requires of its node's labels: its nodeSelector and its required affinity."""
    found: list[Term | Selector] = []
    if pod.spec.nodeSelector:
        found.append(from_labels(table, pod.spec.nodeSelector.items()))
    affinity = pod.spec.affinity.nodeAffinity
    if affinity.HasField("requiredDuringSchedulingIgnoredDuringExecution"):
        found.append(from_terms(table, affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms))
    return found


def from_terms(table: NodeTable, terms: Iterable[core.NodeSelectorTerm]) -> Selector:
    """Read the terms of a selector."""
    return Selector(table, [from_term(table, term) for term in terms])


def _label_requirement(table: NodeTable, entry: core.NodeSelectorRequirement) -> Requirement:
    operator, values = entry.operator, tuple(entry.values)
    if operator in ("Gt", "Lt"):
        if len(values) != 1 or _integer(values[0]) is None:
            return Never(table, f"{operator} needs one integer, the pod has {list(values)} for {entry.key}")
    elif operator in ("In", "NotIn"):
        if not values:
            return Never(table, f"{operator} needs values for {entry.key}")
    elif operator not in ("Exists", "DoesNotExist"):
        return Never(table, f"{operator!r} is no operator (of {entry.key})")
    return LabelRequirement(table, entry.key, operator, values)


def _field_requirement(table: NodeTable, entry: core.NodeSelectorRequirement) -> Requirement:
    if entry.key != "metadata.name" or entry.operator not in ("In", "NotIn") or len(entry.values) != 1:
        return Never(
            table, f"a field is metadata.name, In or NotIn, with one value; the pod has {entry.key} {entry.operator}"
        )
    return NameRequirement(table, entry.operator, entry.values)


def _test(operator: str, values: tuple[str, ...]) -> Callable[[str | None], bool]:
    match operator:
        case "In":
            return lambda value: value in values
        case "NotIn":
            return lambda value: value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case _:
            bound = _integer(values[0])
            assert bound is not None
            greater = operator == "Gt"

            def compare(value: str | None) -> bool:
                number = None if value is None else _integer(value)
                return number is not None and (number > bound if greater else number < bound)

            return compare


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or not -_LIMIT <= (number := int(text)) < _LIMIT:
        return None
    return number
