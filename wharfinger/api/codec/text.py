"""JSON text to plain values, with what orjson does not tell: duplicate fields, and nesting too deep to be handled.

Duplicates are rare, and finding them costs a slow parser. So the parsed value is first written out again: if that is
the very text that came in, no field was lost and there were none. Only other texts are parsed a second time.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson

from wharfinger.api.errors import BadRequestError, RequestTooLargeError

MAX_BYTES = 3 * 1024 * 1024
"""The largest body that is looked at; what etcd takes is smaller still."""
MAX_DEPTH = 200
"""How deep lists and objects may lie in each other; orjson writes 254 levels at most."""


class Duplicated(dict[str, Any]):
    """An object of whose fields some stood more than once."""

    names: tuple[str, ...] = ()


def parse(data: bytes, *, duplicates: bool, max_bytes: int = MAX_BYTES) -> tuple[Any, bool]:
    """Read JSON text; the flag says whether objects in it are :class:`Duplicated`, if that is asked for.

    Raises BadRequestError for what is no JSON or nested too deeply, RequestTooLargeError for more than `max_bytes`.
    """
    if len(data) > max_bytes:
        raise RequestTooLargeError(f"the body has {len(data)} bytes; at most {max_bytes} are read")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"the body is not JSON: {_reason(data, error)}") from error
    brackets = data.count(b"{") + data.count(b"[")
    if brackets > MAX_DEPTH:
        check_depth(value)
    if not duplicates or orjson.dumps(value) == data.strip():
        return value, False
    found = False

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        made = mark_duplicates(pairs)
        found = found or made.__class__ is Duplicated
        return made

    again = json.loads(data, object_pairs_hook=collect)
    return (again, True) if found else (value, False)


def mark_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its fields, :class:`Duplicated` if some stand more than once; a hook for :mod:`json`."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    marked = Duplicated(made)
    counts = Counter(name for name, _ in pairs)
    marked.names = tuple(name for name, count in counts.items() if count > 1)
    return marked


def _reason(data: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return f"byte {wrong.start} is not UTF-8"
    return str(error)


def check_depth(value: Any) -> None:
    """Raise BadRequestError when lists and objects lie more than MAX_DEPTH levels deep in each other."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        following: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                following += [child for child in item.values() if isinstance(child, (dict, list))]
            elif isinstance(item, list):
                following += [child for child in item if isinstance(child, (dict, list))]
        if not following:
            return
        level = following
    raise BadRequestError(f"lists and objects lie more than {MAX_DEPTH} levels deep in each other")
