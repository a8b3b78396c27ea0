"""The functions of CEL: the standard ones, and those that Kubernetes adds.

A table from names to functions; a method takes its target as the first argument. Names with a dot are functions of a
namespace (``optional.of``, ``sets.contains``). Each function says by a CelError when its arguments are none of its.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from wharfinger.api import patterns
from wharfinger.api.cel import conversions, extensions, texts
from wharfinger.api.cel.frame import depth_weight
from wharfinger.api.cel.values import NONE, CelError, Duration, Optional, Timestamp, type_of

Function = Callable[..., Any]


def _overload(name: str, *values: Any) -> CelError:
    return CelError(f"no such overload: {name}({', '.join(map(type_of, values))})")


def size(value: Any) -> int:
    """Return the number of characters, bytes, elements or entries."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise _overload("size", value)


def _text_test(name: str, test: Callable[[str, str], bool]) -> Function:
    def run(text: Any, part: Any) -> bool:
        if not isinstance(text, str) or not isinstance(part, str):
            raise _overload(name, text, part)
        return test(text, part)

    return run


def _pattern(text: str) -> patterns.Pattern:
    try:
        return patterns.compile_pattern(text)
    except ValueError as error:
        raise CelError(str(error)) from error


def _matches(text: Any, pattern: Any) -> bool:
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise _overload("matches", text, pattern)
    return patterns.matches(_pattern(pattern), text)


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _date_part(read: Callable[[Any], int]) -> Function:
    def run(value: Any, zone: str = "UTC") -> int:
        if not isinstance(value, Timestamp):
            raise _overload("a part of a date", value)
        return read(conversions.in_zone(value, zone))

    return run


def _time_part(name: str, unit: int, read: Callable[[Any], int]) -> Function:
    """Return a function that reads a part of a time of day, or a whole duration in a unit of `unit` nanoseconds."""

    def run(value: Any, zone: str = "UTC") -> int:
        if isinstance(value, Duration):
            whole = abs(value.nanos) // unit
            return whole if value.nanos >= 0 else -whole
        if isinstance(value, Timestamp):
            return read(conversions.in_zone(value, zone))
        raise _overload(name, value)

    return run


def _milliseconds(value: Any, zone: str = "UTC") -> int:
    if isinstance(value, Duration):
        return int(value.nanos / 10**6) % 1000
    if isinstance(value, Timestamp):
        return value.nanos // 10**6 % 1000
    raise _overload("getMilliseconds", value)


def _optional(name: str, read: Callable[..., Any]) -> Function:
    def run(value: Any, *more: Any) -> Any:
        if not isinstance(value, Optional):
            raise _overload(name, value)
        return read(value, *more)

    return run


def _held(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.held


def _of_non_zero(value: Any) -> Optional:
    return NONE if value is None or value in ("", b"", 0, False, [], {}) else Optional(value)


METHODS: dict[str, Function] = {
    "size": lambda value: size(value),
    "contains": _text_test("contains", lambda text, part: part in text),
    "startsWith": _text_test("startsWith", str.startswith),
    "endsWith": _text_test("endsWith", str.endswith),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "getFullYear": _date_part(lambda at: at.year),
    "getMonth": _date_part(lambda at: at.month - 1),
    "getDate": _date_part(lambda at: at.day),
    "getDayOfMonth": _date_part(lambda at: at.day - 1),
    "getDayOfWeek": _date_part(lambda at: (at.weekday() + 1) % 7),
    "getDayOfYear": _date_part(lambda at: at.timetuple().tm_yday - 1),
    "getHours": _time_part("getHours", 3600 * 10**9, lambda at: at.hour),
    "getMinutes": _time_part("getMinutes", 60 * 10**9, lambda at: at.minute),
    "getSeconds": _time_part("getSeconds", 10**9, lambda at: at.second),
    "getMilliseconds": _milliseconds,
    "hasValue": _optional("hasValue", lambda value: value.present),
    "value": _optional("value", _held),
    "or": _optional("or", lambda value, other: value if value.present else other),
    "orValue": _optional("orValue", lambda value, other: value.held if value.present else other),
    **texts.METHODS,
    **extensions.METHODS,
}
FUNCTIONS: dict[str, Function] = {
    "size": lambda value: size(value),
    "matches": _matches,
    "dyn": lambda value: value,
    "type": conversions.type_value,
    "int": conversions.to_int,
    "uint": conversions.to_uint,
    "double": conversions.to_double,
    "string": conversions.to_string,
    "bytes": conversions.to_bytes,
    "bool": conversions.to_bool,
    "duration": conversions.to_duration,
    "timestamp": conversions.to_timestamp,
    "optional.of": lambda value: Optional(value),
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": _of_non_zero,
    **texts.FUNCTIONS,
    **extensions.FUNCTIONS,
}


def _deep_work(values: list[Any], limit: int) -> int:
    return sum(depth_weight(value, limit) for value in values if isinstance(value, (list, dict)))


def _pairs_work(values: list[Any], limit: int) -> int:
    """Of sets: each element may be compared with each, unless both sides are made of texts."""
    if not all(isinstance(value, list) for value in values):
        return 0
    pairs = 1 if extensions.are_texts(*values) else len(values[0]) * len(values[1]) // 4
    return pairs + _deep_work(values, limit)


def _match_work(values: list[Any], limit: int) -> int:
    return len(values[0]) * len(values[1]) // 10_000 if all(isinstance(value, str) for value in values[:2]) else 0


def _find_all_work(values: list[Any], limit: int) -> int:
    return _match_work(values, limit) + (len(values[0]) // 3 if isinstance(values[0], str) else 0)


WORK: dict[str, Callable[[list[Any], int], int]] = {
    "format": _deep_work,
    "indexOf": _deep_work,
    "lastIndexOf": _deep_work,
    "join": _deep_work,
    "sets.contains": _pairs_work,
    "sets.intersects": _pairs_work,
    "sets.equivalent": _pairs_work,
    "matches": _match_work,
    "find": _match_work,
    "findAll": _find_all_work,
}
"""Of functions whose work is more than their arguments' own length: the further steps, given what is left."""
NAMESPACES = frozenset(name.partition(".")[0] for name in FUNCTIONS if "." in name)


def find(name: str, *, method: bool, count: int) -> Function:
    """Find a function by name and number of arguments (without a method's target). Raises CelError."""
    function = (METHODS if method else FUNCTIONS).get(name)
    if function is None:
        raise CelError(f"undeclared reference to {name!r}")
    least, most = _arity(function)
    given = count + (1 if method else 0)
    if not least <= given <= most:
        raise CelError(f"found no matching overload for {name!r} with {count} arguments")
    return function


@cache
def _arity(function: Function) -> tuple[int, int]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins do not tell
        return 0, 10
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 0, 10
    needed = sum(one.default is one.empty for one in parameters)
    return needed, len(list(parameters))
