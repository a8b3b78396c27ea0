"""Go's notation of durations (``1m30s``), in which Kubernetes writes them."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+", re.ASCII)
_MAX = 2**63


def parse(text: str) -> int:
    """Read a duration in Go's notation; returns nanoseconds. Raises ValueError."""
    if text in ("0", "+0", "-0"):
        return 0
    if len(text) > 200 or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a duration, such as 300ms, 1m30s or 2h")
    total = sum(int(Fraction(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    total = -total if text[0] == "-" else total
    if not -_MAX <= total < _MAX:
        raise ValueError(f"{text!r} is longer than the 292 years that a duration can hold")
    return total


def format_nanos(nanos: int) -> str:
    """Write nanoseconds as Go prints a duration: ``1h0m0s``, ``1.5s``, ``300ms``, ``0s``."""
    if nanos == 0:
        return "0s"
    sign, amount = ("-", -nanos) if nanos < 0 else ("", nanos)
    if amount < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if amount >= size:
                return f"{sign}{_decimal(amount, size)}{unit}"
    minutes, rest = divmod(amount, 60 * 10**9)
    seconds = f"{_decimal(rest, 10**9)}s"
    if not minutes:
        return sign + seconds
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}" if hours else f"{sign}{minutes}m{seconds}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0")
