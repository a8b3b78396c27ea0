"""What a table is: columns, and a function from an object to its cells.

The same definitions serve ``wharf get`` and the ``Table`` replies that kubectl asks the HTTP front for, so a cell is
a value (a string, a number, a truth value) and not yet text. Cells that say an age depend on the clock, which is
handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Cell = str | int | bool | None
Row = Callable[[Any, float], Sequence[Cell]]


@dataclass(frozen=True)
class Column:
    """One column, as ``meta.k8s.io/v1 TableColumnDefinition`` has it."""

    name: str
    type: str = "string"
    """``string``, ``integer``, ``boolean`` or ``date``."""
    format: str = ""
    """``name`` marks the column that names the object."""
    priority: int = 0
    """Columns above 0 are for ``-o wide``."""
    description: str = ""


@dataclass(frozen=True)
class Table:
    """The columns of a kind and how an object fills them."""

    columns: tuple[Column, ...]
    row: Row
    """(object, seconds since the epoch) → one cell a column."""
    finished: Callable[[Any], tuple[str, str] | None] | None = None
    """Reason and message of the row condition ``Completed``; None while the object is at work."""


NAME = Column("Name", format="name", description="The object's name, unique among its kind and namespace.")
AGE = Column("Age", description="Time since the object was created.")
CREATED = Column("Created At", type="date", description="When the object was created.")
CONTAINERS = Column("Containers", priority=1, description="Names of the template's containers.")
IMAGES = Column("Images", priority=1, description="Images of the template's containers.")
SELECTOR = Column("Selector", priority=1, description="Which pods belong to the object.")
