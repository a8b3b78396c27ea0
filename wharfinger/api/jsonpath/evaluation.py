"""Templates applied to plain JSON values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from wharfinger.api.jsonpath.nodes import (
    Field,
    Filter,
    JSONPathError,
    Literal,
    Node,
    Path,
    Range,
    Recursive,
    Slice,
    Text,
    Union,
    Wildcard,
)
from wharfinger.api.jsonpath.parsing import parse


class Template:
    """A parsed template, to be applied to values."""

    def __init__(self, template: str, *, allow_missing: bool = True) -> None:
        self.nodes = parse(template)
        self.allow_missing = allow_missing

    def find(self, value: Any) -> list[list[Any]]:
        """Return the results of each expression (and each text), in order."""
        return self._run(self.nodes, value)

    def values(self, value: Any) -> list[Any]:
        """Return all results in one list."""
        return [item for results in self.find(value) for item in results]

    def render(self, value: Any) -> str:
        """Return the text that kubectl prints."""
        return "".join(" ".join(_show(item) for item in results) for results in self.find(value))

    @staticmethod
    def render_value(value: Any) -> str:
        """Return the text of one result."""
        return _show(value)

    def _run(self, nodes: Sequence[Node], value: Any) -> list[list[Any]]:
        found: list[list[Any]] = []
        for node in nodes:
            if isinstance(node, Text):
                found.append([node.text])
            elif isinstance(node, Range):
                for item in self._walk(node.path, [value]):
                    found += self._run(node.body, item)
            else:
                found.append(self._walk(node, [value]))
        return found

    def _walk(self, path: Path, values: list[Any]) -> list[Any]:
        for step in path:
            values = _STEPS[type(step)](self, step, values)
        return values

    def _field(self, step: Field, values: list[Any]) -> list[Any]:
        found = [value[step.name] for value in values if isinstance(value, dict) and step.name in value]
        if not found and not self.allow_missing:
            raise JSONPathError(f"{step.name} is not found")
        return found

    def _wildcard(self, _: Wildcard, values: list[Any]) -> list[Any]:
        return [child for value in values for child in _children(value)]

    def _recursive(self, _: Recursive, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if children := _children(value):
                found.append(value)
                found += self._recursive(_, children)
        return found

    def _slice(self, step: Slice, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JSONPathError(f"{_type_name(value)} is not array or slice")
            found += _sliced(value, step)
        return found

    def _union(self, step: Union, values: list[Any]) -> list[Any]:
        return [item for member in step.members for item in self._walk(member, values)]

    def _literal(self, step: Literal, _: list[Any]) -> list[Any]:
        return [step.value]

    def _filter(self, step: Filter, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JSONPathError(f"{_type_name(value)} is not array or slice and cannot be filtered")
            found += [item for item in value if self._matches(step, item)]
        return found

    def _matches(self, step: Filter, item: Any) -> bool:
        lenient, self.allow_missing = self.allow_missing, True
        try:
            left = self._walk(step.left, [item])
            right = self._walk(step.right, [item]) if step.right is not None else []
        finally:
            self.allow_missing = lenient
        if step.operator == "exists":
            return bool(left)
        if not left or not right:
            return False
        if len(left) > 1 or len(right) > 1:
            raise JSONPathError("can only compare one element at a time")
        return _compare(left[0], step.operator, right[0])


_STEPS: dict[type, Callable[[Template, Any, list[Any]], list[Any]]] = {
    Field: Template._field,
    Wildcard: Template._wildcard,
    Recursive: Template._recursive,
    Slice: Template._slice,
    Union: Template._union,
    Literal: Template._literal,
    Filter: Template._filter,
}


def _children(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return []


def _sliced(values: list[Any], step: Slice) -> list[Any]:
    length = len(values)
    start = step.start or 0
    if start < 0:
        start += length
    if step.single:
        if not 0 <= start < length:
            raise JSONPathError(f"array index out of bounds: index {start}, length {length}")
        return [values[start]]
    end = length if step.end is None else step.end
    if end < 0:
        end += length
    if start == end:
        return []
    if not 0 <= start < length:
        raise JSONPathError(f"array index out of bounds: index {start}, length {length}")
    if not 0 <= end <= length:
        raise JSONPathError(f"array index out of bounds: index {end - 1}, length {length}")
    if start > end:
        raise JSONPathError(f"starting index {start} is greater than ending index {end}")
    if step.step is not None and step.step <= 0:
        raise JSONPathError(f"step must be > 0: {step.step}")
    return values[start : end : step.step or 1]


def _compare(left: Any, operator: str, right: Any) -> bool:
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    if not numbers and type(left) is not type(right):
        raise JSONPathError(f"incompatible types for comparison: {_type_name(left)} and {_type_name(right)}")
    if operator == "==":
        return bool(left == right)
    if operator == "!=":
        return bool(left != right)
    if isinstance(left, bool | dict | list):
        raise JSONPathError(f"{_type_name(left)} has no order: only == and != can compare it")
    if operator == "<":
        return bool(left < right)
    if operator == ">":
        return bool(left > right)
    return bool(left <= right) if operator == "<=" else bool(left >= right)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "bool", int: "int", float: "float", str: "string", dict: "map", list: "list"}[type(value)]


def _show(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return go_number(value)


def go_number(value: float) -> str:
    """Write a number as Go prints it."""
    if isinstance(value, int):
        return str(value)
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
