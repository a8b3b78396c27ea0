"""JSON patch (RFC 6902) with the ways of the library that kube-apiserver uses.

Those ways are: ``replace`` of an absent field adds it; what stands before the first slash of a path is ignored; a
negative index counts from the end; ``test`` of an absent field holds for null. An operation that cannot be applied is a
422 without causes, and nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from wharfinger.api.errors import BadRequestError, InvalidError, RequestTooLargeError

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 30 * 1024 * 1024
"""How much ``copy`` operations of one patch may add; without a limit a short patch could fill the memory."""

_INDEX = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_ABSENT = object()


class _DoesNotApplyError(Exception):
    """Raised inside this module when an operation finds no ground."""


def json_patch(doc: Any, patch: Any) -> Any:
    """Return `doc` with all operations of `patch` applied in order.

    Raises BadRequestError when `patch` is no list of objects, InvalidError when an operation cannot be applied and
    RequestTooLargeError for too many operations or copies that grow too much.
    """
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise BadRequestError("a JSON patch is a list of operations, each an object with op and path")
    if len(patch) > MAX_OPERATIONS:
        raise RequestTooLargeError(
            f"the patch has {len(patch)} operations; at most {MAX_OPERATIONS} are carried out in one"
        )
    state = _State(orjson.loads(orjson.dumps(doc)))
    for number, operation in enumerate(patch):
        try:
            state.apply(operation)
        except _DoesNotApplyError as error:
            raise InvalidError(f"operation {number} of the JSON patch does not apply: {error}", details={}) from error
    return state.doc


class _State:
    def __init__(self, doc: Any) -> None:
        self.doc = doc
        self._copied = 0
        self._operations: dict[str, Callable[[dict[str, Any]], None]] = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }

    def apply(self, operation: dict[str, Any]) -> None:
        name = operation.get("op")
        run = self._operations.get(name) if isinstance(name, str) else None
        if run is None:
            raise _DoesNotApplyError(f"op {name!r} is none of {', '.join(self._operations)}")
        run(operation)

    def _place(self, operation: dict[str, Any], field: str) -> tuple[Any, str]:
        """Return the container that a path ends in, and the key within it."""
        path = operation.get(field)
        if not isinstance(path, str):
            raise _DoesNotApplyError(f"{field} must be a string, not {path!r}")
        _, *parts = path.split("/")
        if not parts:
            raise _DoesNotApplyError(f"{field} {path!r} is no path within the object: it must start with /")
        *outer, last = (part.replace("~1", "/").replace("~0", "~") for part in parts)
        container = self.doc
        for part in outer:
            container = _get(container, part)
            if not isinstance(container, (dict, list)):
                raise _DoesNotApplyError(f"there is nothing at {path!r}")
        return container, last

    def _add(self, operation: dict[str, Any]) -> None:
        container, key = self._place(operation, "path")
        _insert(container, key, operation.get("value"))

    def _remove(self, operation: dict[str, Any]) -> None:
        _take(*self._place(operation, "path"))

    def _replace(self, operation: dict[str, Any]) -> None:
        container, key = self._place(operation, "path")
        if isinstance(container, dict):
            container[key] = operation.get("value")
        else:
            container[_index(key, len(container))] = operation.get("value")

    def _move(self, operation: dict[str, Any]) -> None:
        value = _take(*self._place(operation, "from"))
        container, key = self._place(operation, "path")
        _insert(container, key, value)

    def _copy(self, operation: dict[str, Any]) -> None:
        container, key = self._place(operation, "from")
        value = _get(container, key)
        if value is _ABSENT:
            raise _DoesNotApplyError(f"there is nothing at {operation['from']!r}")
        data = orjson.dumps(value)
        self._copied += len(data)
        if self._copied > MAX_COPIED_BYTES:
            raise RequestTooLargeError(f"the patch copies more than {MAX_COPIED_BYTES} bytes")
        container, key = self._place(operation, "path")
        _insert(container, key, orjson.loads(data))

    def _test(self, operation: dict[str, Any]) -> None:
        container, key = self._place(operation, "path")
        found = _get(container, key)
        if _bytes(None if found is _ABSENT else found) != _bytes(operation.get("value")):
            raise _DoesNotApplyError(f"the value at {operation['path']!r} is another one")


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _index(key: str, size: int) -> int:
    index = int(key) if _INDEX.fullmatch(key) else None
    if index is None or not -size <= index < size:
        raise _DoesNotApplyError(f"{key!r} is no index into a list of {size}")
    return index


def _get(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key, _ABSENT)
    return container[_index(key, len(container))]


def _insert(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        index = _index(key, len(container) + 1)
        container.insert(index if index >= 0 else index + len(container) + 1, value)


def _take(container: Any, key: str) -> Any:
    if not isinstance(container, dict):
        return container.pop(_index(key, len(container)))
    if key not in container:
        raise _DoesNotApplyError(f"there is no {key!r} to remove")
    return container.pop(key)
