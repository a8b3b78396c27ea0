"""How full a node would be: the arithmetic of the resource scores, over all nodes at once.

The strategies are those of kube-scheduler's NodeResourcesFit: LeastAllocated spreads, MostAllocated packs, and
RequestedToCapacityRatio follows a curve that the user draws. They use Go's arithmetic where it shows: 64 bits that wrap
around, and division that rounds towards zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from controlplane.scheduler.framework import MAX_SCORE, Ints, Rows
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import PodClass

StrategyType = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]

_MAX_CUSTOM_SCORE = 10
"""The highest score of a point of a curve in the configuration."""


@dataclass(frozen=True)
class Weighted:
    """A resource and how much it counts."""

    name: str
    weight: int


CPU_AND_MEMORY = (Weighted("cpu", 1), Weighted("memory", 1))


@dataclass(frozen=True)
class Strategy:
    """A scoring strategy with its arguments."""

    type: StrategyType = "LeastAllocated"
    resources: tuple[Weighted, ...] = CPU_AND_MEMORY
    shape: tuple[tuple[int, int], ...] = ()
    """Points of the curve: utilisation in per cent, score 0 to 100."""


def is_scalar(resource: str) -> bool:
    """Whether scores leave the resource out for pods that do not ask for it."""
    return resource not in ("cpu", "memory", "ephemeral-storage")


def read_resources(entries: Sequence[Mapping[str, Any]]) -> tuple[Weighted, ...]:
    """Read ``resources`` of a plugin's arguments; a missing weight is 1."""
    for index, entry in enumerate(entries):
        _only(entry, {"name", "weight"}, f"resources[{index}]")
    return tuple(Weighted(str(entry["name"]), int(entry.get("weight", 1) or 1)) for entry in entries) or CPU_AND_MEMORY


def _only(entry: Mapping[str, Any], known: set[str], path: str) -> None:
    for name in entry:
        if name not in known:
            raise ValueError(f"{path}.{name}: unknown key")


def read_strategy(arguments: Mapping[str, Any]) -> Strategy:
    """Read ``scoringStrategy``; raises ValueError for an unknown type or a curve without points."""
    type_ = arguments.get("type", "LeastAllocated")
    if type_ not in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"):
        raise ValueError(
            f"scoringStrategy.type: {type_!r} is none of LeastAllocated, MostAllocated, RequestedToCapacityRatio"
        )
    _only(arguments, {"type", "resources", "requestedToCapacityRatio"}, "scoringStrategy")
    ratio = arguments.get("requestedToCapacityRatio") or {}
    _only(ratio, {"shape"}, "scoringStrategy.requestedToCapacityRatio")
    points = ratio.get("shape") or []
    for index, point in enumerate(points):
        _only(point, {"utilization", "score"}, f"scoringStrategy.requestedToCapacityRatio.shape[{index}]")
    if type_ == "RequestedToCapacityRatio" and not points:
        raise ValueError("scoringStrategy.requestedToCapacityRatio.shape: needs at least one point")
    factor = MAX_SCORE // _MAX_CUSTOM_SCORE
    shape = tuple((int(point["utilization"]), int(point["score"]) * factor) for point in points)
    return Strategy(type=type_, resources=read_resources(arguments.get("resources") or ()), shape=shape)


class Fill:
    """What a node has and would have given away of the resources that a score looks at."""

    def __init__(self, table: NodeTable, pod: PodClass, resources: Sequence[Weighted], *, nonzero: bool) -> None:
        need = pod.scored if nonzero else pod.usage.amounts
        self._table = table
        self.resources = [entry for entry in resources if need.get(entry.name) or not is_scalar(entry.name)]
        self._numbers = np.array([table.resource(entry.name) for entry in self.resources], np.intp)
        self._need = np.array([[need.get(entry.name, 0)] for entry in self.resources], np.int64)
        self._nonzero = [
            (position, 0 if entry.name == "cpu" else 1)
            for position, entry in enumerate(self.resources)
            if nonzero and entry.name in ("cpu", "memory")
        ]
        self.weights = np.array([[entry.weight] for entry in self.resources], np.int64)
        self.any = bool(self._need.any())
        """Whether the pod asks for any of it."""

    def allocatable(self, rows: Rows) -> Ints:
        """Return resources x rows."""
        return self._table.allocatable[:, rows][self._numbers]

    def before(self, rows: Rows) -> Ints:
        """Return what is given away by now, resources x rows."""
        given: Ints = self._table.requested[:, rows][self._numbers]
        for position, kind in self._nonzero:
            given[position] = self._table.nonzero[kind, rows]
        return given

    def after(self, rows: Rows) -> Ints:
        """Return what would be given away with the pod, resources x rows."""
        return self.before(rows) + self._need

    def balance_change(self, rows: Rows) -> Ints:
        """Return by how much the pod would change the balance of each of the rows, -100 to 100."""
        before = self.before(rows)
        capacity = self.allocatable(rows)
        count = before.shape[1]
        both = balance(
            np.concatenate((before, before + self._need), axis=1), np.concatenate((capacity, capacity), axis=1)
        )
        change: Ints = both[count:] - both[:count]
        return change


def strategy_scores(strategy: Strategy, fill: Fill, rows: Rows) -> Ints:
    """Return 0 to 100 for each of the rows."""
    capacity = fill.allocatable(rows)
    given = fill.after(rows)
    there = capacity != 0
    divisor = np.maximum(capacity, 1)
    if strategy.type == "LeastAllocated":
        scores = np.where(given > capacity, 0, _divide((capacity - given) * MAX_SCORE, divisor))
    elif strategy.type == "MostAllocated":
        scores = _divide(np.minimum(given, capacity) * MAX_SCORE, divisor)
    else:
        return _ratio_scores(strategy, fill, capacity=capacity, given=given)
    weights = fill.weights * there
    total = weights.sum(axis=0)
    result: Ints = _divide((scores * weights).sum(axis=0), np.maximum(total, 1))
    return result


def _ratio_scores(strategy: Strategy, fill: Fill, *, capacity: Ints, given: Ints) -> Ints:
    there = capacity != 0
    utilisation = np.where(given > capacity, MAX_SCORE, _divide(given * MAX_SCORE, np.maximum(capacity, 1)))
    scores = _curve(strategy.shape, utilisation)
    weights = fill.weights * (there & (scores > 0))
    total = weights.sum(axis=0)
    ratio = (scores * weights).sum(axis=0) / np.maximum(total, 1)
    result: Ints = np.floor(ratio + 0.5).astype(np.int64)
    return result


def _curve(shape: Sequence[tuple[int, int]], utilisation: Ints) -> Ints:
    """Interpolate between the points; flat before the first and after the last."""
    result: Ints = np.full_like(utilisation, shape[-1][1])
    for index in range(len(shape) - 1, -1, -1):
        there, score = shape[index]
        if index == 0:
            value: Any = score
        else:
            before, start = shape[index - 1]
            value = start + _divide((score - start) * (utilisation - before), np.int64(there - before))
        result = np.where(utilisation <= there, value, result)
    return result


def _divide(numerator: Ints, divisor: Any) -> Ints:
    """Divide by something positive, rounding towards zero."""
    result: Ints = np.sign(numerator) * (np.abs(numerator) // divisor)
    return result


def balance(given: Ints, capacity: Ints) -> Ints:
    """Return 0 to 100: how evenly the resources of each node are given away (100: all to the same degree)."""
    there = capacity > 0
    whole = bool(there.all())
    fractions = np.minimum(given / (capacity if whole else np.maximum(capacity, 1)), 1.0)
    if len(fractions) == 2:
        deviation = np.abs(fractions[0] - fractions[1]) / 2
        if not whole:
            deviation = np.where(there.all(axis=0), deviation, 0.0)
    else:
        deviation = _deviation(np.where(there, fractions, 0.0), there)
    result: Ints = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return result


def _deviation(fractions: Any, there: Any) -> Any:
    count = there.sum(axis=0)
    mean = fractions.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(there, (fractions - mean) ** 2, 0.0).sum(axis=0)
    spread = np.sqrt(squares / np.maximum(count, 1))
    low = np.where(there, fractions, np.inf).min(axis=0, initial=np.inf)
    high = np.where(there, fractions, -np.inf).max(axis=0, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        half = (high - low) / 2
    return np.where(count > 2, spread, np.where(count == 2, half, 0.0))
