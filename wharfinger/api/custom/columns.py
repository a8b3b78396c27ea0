"""The table of a custom kind: the name, then the columns that the definition asks for, or the age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.api import times
from wharfinger.api.jsonpath import JSONPathError, Template
from wharfinger.api.tables import text
from wharfinger.api.tables.table import NAME, Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column, as the definition asks for it."""

    name: str
    type: str
    path: str
    """JSONPath, beginning with a dot."""
    format: str = ""
    description: str = ""
    priority: int = 0


AGE = Column("Age", type="date", description="Time since the object was created.")


def table_of(wanted: Sequence[PrinterColumn]) -> Table:
    """Make the table."""
    if not wanted:
        return Table((NAME, AGE), lambda obj, now: [obj.metadata.name, text.age(obj, now)])
    shown = [_cell(column) for column in wanted]

    def row(obj: Any, now: float) -> Sequence[Cell]:
        value = obj.to_value()
        return [obj.metadata.name, *(cell(value, now) for cell in shown)]

    return Table((NAME, *map(_column, wanted)), row)


def _column(column: PrinterColumn) -> Column:
    described = column.description or f"Custom resource definition column (in JSONPath format): {column.path}"
    return Column(column.name, type=column.type, format=column.format, priority=column.priority, description=described)


def _cell(column: PrinterColumn) -> Callable[[Any, float], Cell]:
    try:
        template = Template("{" + column.path + "}")
    except JSONPathError:
        return lambda *_: None  # an old definition whose path nobody can read
    kind = column.type
    show = _SHOW.get(kind)

    def cell(value: Any, now: float) -> Cell:
        try:
            found = template.values(value)
        except JSONPathError:
            return None
        if not found or found[0] is None:
            return None
        if kind == "date":
            return _date(found[0], now)
        return show(found[0]) if show is not None else template.render_value(found[0])

    return cell


def _date(value: Any, now: float) -> Cell:
    if not isinstance(value, str):
        return None
    try:
        seconds, _ = times.parse_rfc3339(value)
    except ValueError:
        return "<invalid>"
    return text.duration(now - seconds)


def _integer(value: Any) -> Cell:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any) -> Cell:
    return value if isinstance(value, bool) else None


_SHOW: dict[str, Callable[[Any], Cell]] = {"integer": _integer, "number": _number, "boolean": _boolean}
