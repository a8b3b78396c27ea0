"""Text in columns that find their own width, as Go's tabwriter lays it out.

Cells end with a tab. Consecutive lines that have a cell in a column share that column's width; a line without one ends
the block. So ``Name:\\tweb`` lines align among themselves, whatever stands below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PADDING = 2


class Layout:
    """Collects lines and lays them out at the end."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, level: int, *cells: object) -> None:
        """Add a line, indented by two blanks a level; all cells but the last are aligned."""
        self._lines.append("  " * level + "\t".join(str(cell) for cell in cells))

    def field(self, level: int, name: str, value: object) -> None:
        """Add ``Name:   value``."""
        self.line(level, f"{name}:", value)

    def mapping(self, level: int, name: str, values: Mapping[str, str]) -> None:
        """Add a map, one entry a line; ``<none>`` when it is empty."""
        if not values:
            self.field(level, name, "<none>")
        for index, key in enumerate(sorted(values)):
            self.line(level, f"{name}:" if index == 0 else "", f"{key}={values[key]}")

    def multi(self, level: int, name: str, values: Sequence[str]) -> None:
        """Add a list, one element a line; ``<none>`` when it is empty."""
        if not values:
            self.field(level, name, "<none>")
        for index, value in enumerate(values):
            self.line(level, f"{name}:" if index == 0 else "", value)

    def text(self) -> str:
        """Return everything, laid out."""
        return "\n".join(align(self._lines)) + "\n"


def align(lines: Sequence[str], *, padding: int = PADDING) -> list[str]:
    """Lay out lines of tab-separated cells."""
    cells = [line.split("\t") for line in lines]
    column = 0
    while any(len(line) > column + 1 for line in cells):
        start = 0
        while start < len(cells):
            if len(cells[start]) <= column + 1:
                start += 1
                continue
            end = start
            while end < len(cells) and len(cells[end]) > column + 1:
                end += 1
            width = max(len(cells[index][column]) for index in range(start, end)) + padding
            for index in range(start, end):
                cells[index][column] = cells[index][column].ljust(width)
            start = end
        column += 1
    return ["".join(line).rstrip() for line in cells]
