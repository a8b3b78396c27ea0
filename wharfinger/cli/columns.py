"""Columns as kubectl prints them: left-aligned, three spaces apart, no trailing blanks cut or added."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

GAP = 3


def format_columns(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; kubectl pads every column but the last to its widest cell plus three blanks."""
    lines = ([header] if header is not None else []) + list(rows)
    if not lines:
        return []
    widths = [0] * max(len(line) for line in lines)
    for line in lines:
        for index, cell in enumerate(line):
            widths[index] = max(widths[index], len(cell))
    return [
        "".join(
            cell if index == len(line) - 1 else cell.ljust(widths[index] + GAP) for index, cell in enumerate(line)
        )
        for line in lines
    ]  # fmt: skip


def print_columns(header: Sequence[str] | None, rows: Sequence[Sequence[str]], *, out: TextIO | None = None) -> None:
    """Print a table to stdout, or to `out`."""
    stream = out or sys.stdout
    for line in format_columns(header, rows):
        stream.write(line + "\n")
