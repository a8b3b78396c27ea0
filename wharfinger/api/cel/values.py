"""The values of CEL that JSON does not have, and how values compare.

JSON's own are Python's: int (64 bits, signed), float, str, bool, None, list, dict; bytes are bytes. Numbers of
different types compare by their value; other values of different types are unlike.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any


class CelError(Exception):
    """Raised for an expression that cannot be compiled, and for one that fails when it runs."""


class UInt(int):
    """An unsigned whole number."""


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A span of time."""

    nanos: int


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A moment, in nanoseconds since 1970 (UTC)."""

    nanos: int

    def moment(self) -> datetime.datetime:
        """Return it as Python has it, in UTC."""
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return epoch + datetime.timedelta(microseconds=self.nanos // 1000)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value."""

    name: str


_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be there."""

    held: Any = _NOTHING

    @property
    def present(self) -> bool:
        """Whether there is one."""
        return self.held is not _NOTHING


NONE = Optional()


def type_of(value: Any) -> str:
    """Return the name of a value's type."""
    if isinstance(value, bool):
        return "bool"
    if value is None:
        return "null_type"
    for cls, name in _NAMES:
        if isinstance(value, cls):
            return name
    return type(value).__name__.lower()


_NAMES: tuple[tuple[type, str], ...] = (
    (UInt, "uint"), (int, "int"), (float, "double"), (str, "string"), (bytes, "bytes"), (list, "list"), (dict, "map"),
    (Duration, "google.protobuf.Duration"), (Timestamp, "google.protobuf.Timestamp"), (TypeName, "type"),
    (Optional, "optional_type"),
)  # fmt: skip


def is_number(value: Any) -> bool:
    """Whether a value is an int, uint or double."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and bool(one == other)


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1. Raises CelError for values that have no order among each other."""
    if is_number(one) and is_number(other):
        if math.isnan(one) or math.isnan(other):
            raise CelError("NaN cannot be ordered")
    elif type(one) is not type(other) or not isinstance(one, (str, bytes, bool, Duration, Timestamp)):
        raise CelError(f"no such overload: {type_of(one)} and {type_of(other)} cannot be ordered")
    return int(one > other) - int(one < other)


def whole(number: int, what: str = "int") -> int:
    """Return a whole number if it fits. Raises CelError for an overflow."""
    if isinstance(number, UInt) or what == "uint":
        if not 0 <= number < 1 << 64:
            raise CelError("unsigned integer overflow")
        return UInt(number)
    if not -(1 << 63) <= number < 1 << 63:
        raise CelError("integer overflow")
    return number
