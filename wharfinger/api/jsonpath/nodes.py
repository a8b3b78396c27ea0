"""What a template consists of: small immutable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class JSONPathError(ValueError):
    """Raised for a template that cannot be parsed, or does not fit the data; says what and where."""


@dataclass(frozen=True)
class Text:
    """Text that stands for itself."""

    text: str


@dataclass(frozen=True)
class Field:
    """``.name`` or ``['name']``."""

    name: str


@dataclass(frozen=True)
class Wildcard:
    """``*``: every element or value."""


@dataclass(frozen=True)
class Recursive:
    """``..``: the value itself and everything below it."""


@dataclass(frozen=True)
class Slice:
    """``[start:end:step]``, or ``[n]``."""

    start: int | None
    end: int | None
    step: int | None = None
    single: bool = False


@dataclass(frozen=True)
class Union:
    """``[a,b]``: the results of each, one after the other."""

    members: tuple[Path, ...]


@dataclass(frozen=True)
class Literal:
    """A string, number or truth value in an expression."""

    value: Any


@dataclass(frozen=True)
class Filter:
    """``[?(left operator right)]``; without an operator: what has `left`."""

    left: Path
    operator: str
    right: Path | None


@dataclass(frozen=True)
class Range:
    """``{range path}body{end}``."""

    path: Path
    body: tuple[Node, ...]


Step = Field | Wildcard | Recursive | Slice | Union | Literal | Filter
Path = tuple[Step, ...]
Node = Text | Range | tuple[Step, ...]
