"""Amounts of a resource, exactly as Kubernetes counts them: ``500m``, ``2Gi``, ``1e3``.

A quantity is an exact decimal with a display format. Kubernetes keeps at most nine digits after the point (finer
amounts are rounded away from zero to 1n) and prints each amount in one canonical form, in which clients compare and
etcd stores it. Everything here works on Python integers in units of 1n, so nothing is ever lost to floating point.
Parsing is cached: a cluster repeats a few hundred distinct quantities millions of times.

The rules follow ``k8s.io/apimachinery/pkg/api/resource`` (documented under "Quantity" in Kubernetes' API reference).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Literal, Self

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

NANO = 10**9
_MAX = (2**63 - 1) * NANO
"""The largest amount that is counted; larger ones are capped, as in Kubernetes."""

_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_SYNTAX = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_MAX_LENGTH = 512
_MAX_EXPONENT = 400


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount; compares and adds by value, whatever the notation."""

    nanos: int
    """The amount in units of one billionth."""
    format: Format = "DecimalSI"

    def value(self) -> int:
        """Return the amount in whole units, rounded up (away from zero)."""
        return _divide_up(self.nanos, NANO)

    def milli_value(self) -> int:
        """Return the amount in thousandths, rounded up (away from zero)."""
        return _divide_up(self.nanos, 1_000_000)

    def is_zero(self) -> bool:
        """Whether there is nothing of it."""
        return self.nanos == 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(_cap(self.nanos + other.nanos), self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(_cap(self.nanos - other.nanos), self.format if self.nanos else other.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(_cap(self.nanos * factor), self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        return _format(self.nanos, self.format)

    @classmethod
    def of(cls, value: int, format_: Format = "DecimalSI") -> Self:
        """Make a quantity of whole units."""
        return cls(_cap(value * NANO), format_)

    @classmethod
    def of_milli(cls, value: int, format_: Format = "DecimalSI") -> Self:
        """Make a quantity of thousandths."""
        return cls(_cap(value * 1_000_000), format_)


def _divide_up(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _cap(nanos: int) -> int:
    return max(-_MAX, min(_MAX, nanos))


def _format(nanos: int, format_: Format) -> str:
    if nanos == 0:
        return "0"
    sign, amount = ("-", -nanos) if nanos < 0 else ("", nanos)
    if format_ == "BinarySI" and amount >= 1024 * NANO and amount % NANO == 0:
        whole, suffix = amount // NANO, ""
        for name in _BINARY:
            if whole % 1024:
                break
            whole //= 1024
            suffix = name
        return f"{sign}{whole}{suffix}"
    exponent = -9
    while amount % 1000 == 0 and exponent < 18:
        amount //= 1000
        exponent += 3
    if format_ != "DecimalExponent":
        return f"{sign}{amount}{_DECIMAL_SUFFIX[exponent]}"
    while amount % 1000 == 0:
        amount //= 1000
        exponent += 3
    return f"{sign}{amount}e{exponent}" if exponent else f"{sign}{amount}"


@lru_cache(maxsize=65536)
def parse(text: str) -> Quantity:
    """Read a quantity; raises ValueError that says what is wrong with it."""
    match = _SYNTAX.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match[2] or match[3]):
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise ValueError(
            f"{shown!r} is not a quantity: digits, perhaps with a point, then nothing or one of "
            "n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
        )
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    digits = int((whole + fraction) or "0")
    scale = 9 - len(fraction)
    format_: Format = "DecimalSI"
    factor = 1
    if suffix in _BINARY:
        format_, factor = "BinarySI", _BINARY[suffix]
    elif suffix[:1] in ("e", "E") and len(suffix) > 1:
        format_ = "DecimalExponent"
        scale += max(-_MAX_EXPONENT * 2, min(_MAX_EXPONENT * 2, int(suffix[1:])))
    else:
        scale += _DECIMAL[suffix]
    amount = digits * factor
    nanos = amount * 10**scale if scale >= 0 else -(-amount // 10**-scale)
    if format_ == "BinarySI" and 0 < nanos < NANO:
        format_ = "DecimalSI"
    nanos = min(nanos, _MAX)
    return Quantity(-nanos if sign == "-" else nanos, format_)


@lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """Return the one notation of a quantity that Kubernetes prints and stores; raises ValueError."""
    return str(parse(text)) if text else "0"


@lru_cache(maxsize=65536)
def value(text: str) -> int:
    """Return :meth:`Quantity.value` of a notation; empty counts as zero."""
    return parse(text).value() if text else 0


@lru_cache(maxsize=65536)
def milli_value(text: str) -> int:
    """Return :meth:`Quantity.milli_value` of a notation; empty counts as zero."""
    return parse(text).milli_value() if text else 0
