"""Columns as kubectl prints them: left-aligned, three blanks apart, at least six wide, the last one not padded."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

GAP = 3
MIN_WIDTH = 6


class ColumnWriter:
    """Prints rows in columns, and remembers the widths: rows that come later (a watch) stay in line."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.widths: list[int] = []

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """Print rows that were made together."""
        lines = [[clean(cell) for cell in row] for row in rows]
        for line in lines:
            self.widths += [MIN_WIDTH] * (len(line) - len(self.widths))
            for index, cell in enumerate(line[:-1]):
                self.widths[index] = max(self.widths[index], len(cell) + GAP)
        for line in lines:
            padded = [cell.ljust(self.widths[index]) for index, cell in enumerate(line[:-1])]
            self.out.write("".join(padded) + (line[-1] if line else "") + "\n")


def clean(cell: str) -> str:
    """Cut a cell at its first line end, and make control characters harmless to a terminal."""
    for index, char in enumerate(cell):
        if char in "\n\r\f":
            return clean(cell[:index]) + "..."
    return cell.replace("\x1b", "^[").replace("\t", " ") if "\x1b" in cell or "\t" in cell else cell


def print_columns(header: Sequence[str] | None, rows: Sequence[Sequence[str]], *, out: TextIO | None = None) -> None:
    """Print one table."""
    ColumnWriter(out).write([*([header] if header is not None else []), *rows])
