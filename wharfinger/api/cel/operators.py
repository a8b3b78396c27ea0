"""What the signs between two values mean: arithmetic, comparison, membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wharfinger.api.cel.values import CelError, Duration, Timestamp, compare, equal, is_number, type_of, whole


def _no_overload(sign: str, left: Any, right: Any) -> CelError:
    return CelError(f"no such overload: {type_of(left)} {sign} {type_of(right)}")


def add(left: Any, right: Any) -> Any:
    """Return the sum of numbers, times, texts or lists."""
    if type(left) is type(right) and isinstance(left, (str, bytes, list)):
        return left + right
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return Timestamp(left.nanos + right.nanos)
    if isinstance(left, Duration) and isinstance(right, (Duration, Timestamp)):
        return type(right)(left.nanos + right.nanos)
    return _calculate("+", left, right, lambda a, b: a + b)


def _subtract(left: Any, right: Any) -> Any:
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        return Duration(left.nanos - right.nanos)
    if isinstance(left, (Timestamp, Duration)) and isinstance(right, Duration):
        return type(left)(left.nanos - right.nanos)
    return _calculate("-", left, right, lambda a, b: a - b)


def _divide(left: Any, right: Any) -> Any:
    def divide(a: Any, b: Any) -> Any:
        if isinstance(a, float):
            return a / b if b else float("nan") if not a else float("inf") if a > 0 else float("-inf")
        if not b:
            raise CelError("division by zero")
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient

    return _calculate("/", left, right, divide)


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, float) or isinstance(right, float):
        raise _no_overload("%", left, right)

    def rest(a: int, b: int) -> int:
        if not b:
            raise CelError("modulus by zero")
        found = abs(a) % abs(b)
        return -found if a < 0 else found

    return _calculate("%", left, right, rest)


def _calculate(sign: str, left: Any, right: Any, operation: Callable[[Any, Any], Any]) -> Any:
    if not is_number(left) or type_of(left) != type_of(right):
        raise _no_overload(sign, left, right)
    result = operation(left, right)
    return whole(int(result), type_of(left)) if isinstance(left, int) else result


def _in(left: Any, right: Any) -> bool:
    if isinstance(right, dict):
        return not isinstance(left, (list, dict)) and left in right
    if isinstance(right, list):
        return any(equal(left, item) for item in right)
    raise _no_overload("in", left, right)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": add,
    "-": _subtract,
    "*": lambda left, right: _calculate("*", left, right, lambda a, b: a * b),
    "/": _divide,
    "%": _modulo,
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": lambda left, right: compare(left, right) < 0,
    "<=": lambda left, right: compare(left, right) <= 0,
    ">": lambda left, right: compare(left, right) > 0,
    ">=": lambda left, right: compare(left, right) >= 0,
    "in": _in,
}
