"""What a benchmark says: a table for people, a JSON line for programs."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil


@dataclass
class Row:
    """One measured thing: its median over the runs, and what was aimed at."""

    name: str
    value: float
    unit: str
    runs: Sequence[float] = ()
    target: str = ""
    """In words, such as ``>= 0.35``; empty when there is none."""
    met: bool | None = None
    note: str = ""


@dataclass
class Report:
    """All rows of one benchmark."""

    name: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def add(
        self,
        name: str,
        runs: Sequence[float],
        unit: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        note: str = "",
    ) -> float:
        """Add the median of `runs` and whether it meets a target; return the median."""
        value = statistics.median(runs)
        target, met = "", None
        if at_least is not None:
            target, met = f">= {at_least:g}", value >= at_least
        elif at_most is not None:
            target, met = f"<= {at_most:g}", value <= at_most
        self.rows.append(Row(name, value, unit, [round(run, 4) for run in runs], target, met, note))
        return value

    def table(self) -> str:
        """Return the rows as aligned text."""
        lines = [f"\n{self.name} (median of runs, {self.seconds:g} s in all)"]
        width = max((len(row.name) for row in self.rows), default=10)
        lines += [self.line(row, width) for row in self.rows]
        return "\n".join(lines)

    @staticmethod
    def line(row: Row, width: int = 0) -> str:
        """Return one row as text."""
        verdict = "" if row.met is None else ("  met" if row.met else "  MISSED")
        target = f"  (target {row.target})" if row.target else ""
        runs = f"  [{', '.join(f'{run:,.4g}' for run in row.runs)}]" if len(row.runs) > 1 else ""
        note = f"  {row.note}" if row.note else ""
        return f"  {row.name:<{width}}  {row.value:>12,.4g} {row.unit:<10}{target}{verdict}{runs}{note}"

    def document(self) -> dict[str, Any]:
        """Return everything, with what machine it was."""
        return {
            "benchmark": self.name,
            "machine": {"cpus": psutil.cpu_count(), "python": platform.python_version()},
            "seconds": self.seconds,
            "rows": [vars(row) for row in self.rows],
        }
