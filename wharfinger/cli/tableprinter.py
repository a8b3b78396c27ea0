"""Objects as kubectl's tables: which columns, their header, labels, namespaces, rows of a watch below each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.api.kinds import Kind
from wharfinger.api.tables import table_for
from wharfinger.api.tables.text import labels
from wharfinger.cli.columns import ColumnWriter
from wharfinger.cli.targets import qualified


@dataclass
class TableOptions:
    """What of a table is shown."""

    wide: bool = False
    headers: bool = True
    namespaces: bool = False
    """A first column with the namespace."""
    show_kind: bool = False
    """Names as ``pod/web``."""
    show_labels: bool = False
    label_columns: Sequence[str] = field(default=())
    event_column: bool = False
    """A first column with the type of the watch event."""


class TablePrinter:
    """Prints objects of one kind; may be called again, the columns stay in line."""

    def __init__(self, kind: Kind, options: TableOptions) -> None:
        self.kind = kind
        self.options = options
        self.table = table_for(kind)
        self._shown = [
            index for index, column in enumerate(self.table.columns) if options.wide or column.priority == 0
        ]  # fmt: skip
        self._writer = ColumnWriter()
        self._header_due = options.headers

    def header(self) -> list[str]:
        """Return the header's cells."""
        options = self.options
        cells = [self.table.columns[index].name.upper() for index in self._shown]
        if options.namespaces and self.kind.namespaced:
            cells.insert(0, "NAMESPACE")
        if options.event_column:
            cells.insert(0, "EVENT")
        cells += [name.rpartition("/")[2].upper() for name in options.label_columns]
        return [*cells, "LABELS"] if options.show_labels else cells

    def row(self, obj: Any, event: str = "") -> list[str]:
        """Return the cells of one object."""
        options = self.options
        cells = self.table.row(obj, time.time())
        shown = []
        for index in self._shown:
            text = _text(cells[index])
            if options.show_kind and self.table.columns[index].format == "name":
                text = f"{qualified(self.kind)}/{text}"
            shown.append(text)
        if options.namespaces and self.kind.namespaced:
            shown.insert(0, obj.metadata.namespace)
        if options.event_column:
            shown.insert(0, event)
        shown += [obj.metadata.labels.get(name, "") for name in options.label_columns]
        return [*shown, labels(obj.metadata.labels)] if options.show_labels else shown

    def print(self, objects: Sequence[Any], events: Sequence[str] | None = None) -> None:
        """Print rows, below the header if that has not been printed yet."""
        if not objects:
            return
        rows = [self.header()] if self._header_due else []
        self._header_due = False
        names = events or [""] * len(objects)
        self._writer.write([*rows, *(self.row(obj, name) for obj, name in zip(objects, names, strict=True))])


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(cell)
