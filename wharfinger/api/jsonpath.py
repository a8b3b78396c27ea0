r"""kubectl's dialect of JSONPath: ``{range .items[*]}{.metadata.name}{"\n"}{end}``.

A template is text with expressions in braces. The dialect is older than RFC 9535 and differs from every library:
results of one expression are joined by blanks, ``@`` and ``$`` both mean the current object, filters compare but know
neither ``&&`` nor functions, slices out of bounds are errors. What it means is documented under "JSONPath Support" in
Kubernetes' reference; where that is silent, kubectl's observed behaviour counts.

A template is parsed once into small immutable nodes; evaluation is a walk over plain JSON values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


class JSONPathError(ValueError):
    """Raised for a template that cannot be parsed, or does not fit the data; says what and where."""


# --- nodes -----------------------------------------------------------------------------------------------------------


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


# --- parsing ---------------------------------------------------------------------------------------------------------

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


def _unquote(text: str, position: int) -> tuple[str, int]:
    """Read a quoted string that begins at `position`; returns it and where it ends."""
    quote = text[position]
    result: list[str] = []
    index = position + 1
    while index < len(text):
        char = text[index]
        if char == quote:
            return "".join(result), index + 1
        if char == "\\" and index + 1 < len(text):
            index += 1
            char = text[index]
            if char == "u" and index + 4 < len(text):
                try:
                    result.append(chr(int(text[index + 1 : index + 5], 16)))
                except ValueError as error:
                    raise JSONPathError(f"invalid escape \\{text[index : index + 5]} in {text!r}") from error
                index += 5
                continue
            result.append(_ESCAPES.get(char, char))
        else:
            result.append(char)
        index += 1
    raise JSONPathError(f"unterminated quoted string in {text!r}")


_FIELD_END = frozenset("[]|{},. \t\n'\"()=!<>@$")


class _Parser:
    """Reads the inside of one pair of braces."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def path(self) -> Path:
        steps: list[Step] = []
        while self.position < len(self.text):
            steps += self._step()
        return tuple(steps)

    def _step(self) -> list[Step]:
        text, at = self.text, self.position
        char = text[at]
        if char in " \t\n@$":
            self.position += 1
            return []
        if text.startswith("..", at):
            self.position += 2
            following = self._peek()
            if following and following not in "[.* ":
                return [Recursive(), *self._field()]
            if following == "*":
                self.position += 1
                return [Recursive(), Wildcard()]
            return [Recursive()]
        if char == ".":
            self.position += 1
            if self._peek() == "*":
                self.position += 1
                return [Wildcard()]
            return [] if self._peek() in ("", "[", " ") else self._field()
        if char == "[":
            return [self._bracket()]
        if char in "'\"":
            value, self.position = _unquote(text, at)
            return [Literal(value)]
        if char == "*":
            self.position += 1
            return [Wildcard()]
        if char in "+-" or char.isdigit():
            return [self._number()]
        word = self._word()
        if word in ("true", "false"):
            return [Literal(word == "true")]
        if word:
            raise JSONPathError(f"unrecognized identifier {word}")
        raise JSONPathError(f"unrecognized character in action: {char!r}")

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _field(self) -> list[Step]:
        name = []
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == "\\" and self.position + 1 < len(self.text):
                self.position += 1
                name.append(self.text[self.position])
            elif char in _FIELD_END:
                break
            else:
                name.append(char)
            self.position += 1
        return [Field("".join(name))]

    def _word(self) -> str:
        start = self.position
        while self._peek() and (self._peek().isalnum() or self._peek() in "_-"):
            self.position += 1
        return self.text[start : self.position]

    def _number(self) -> Literal:
        start = self.position
        self.position += 1
        while self._peek() and (self._peek().isdigit() or self._peek() in ".eE+-"):
            self.position += 1
        word = self.text[start : self.position]
        try:
            return Literal(int(word))
        except ValueError:
            pass
        try:
            return Literal(float(word))
        except ValueError as error:
            raise JSONPathError(f"cannot parse number {word}") from error

    def _bracket(self) -> Step:
        inside = self._inside()
        if inside.startswith("?(") and inside.endswith(")"):
            return _filter(inside[2:-1])
        if inside == "*":
            return Wildcard()
        parts = _split(inside, ",")
        if len(parts) > 1:
            return Union(tuple(self._member(part.strip()) for part in parts))
        return self._member(inside.strip())[0]

    def _member(self, part: str) -> Path:
        if len(part) >= 2 and part[0] in "'\"":
            name, end = _unquote(part, 0)
            if end != len(part):
                raise JSONPathError(f"invalid array index {part}")
            return (Field(name),)
        if part == "*":
            return (Wildcard(),)
        if part.startswith((".", "@", "$")):
            return _Parser(part).path()
        numbers = part.split(":")
        if len(numbers) > 3:
            raise JSONPathError(f"invalid array index {part}")
        values: list[int | None] = []
        for number in numbers:
            try:
                values.append(int(number) if number.strip() else None)
            except ValueError as error:
                raise JSONPathError(f"invalid array index {part}") from error
        if len(values) == 1:
            if values[0] is None:
                raise JSONPathError("invalid array index: [] is empty; [*] means all elements")
            return (Slice(values[0], None, single=True),)
        return (Slice(values[0], values[1], values[2] if len(values) == 3 else None),)

    def _inside(self) -> str:
        """Return what stands between this bracket and its partner."""
        depth, index = 0, self.position
        while index < len(self.text):
            char = self.text[index]
            if char in "'\"":
                _, index = _unquote(self.text, index)
                continue
            if char == "[":
                depth += 1
            elif char == "]":
                depth -= 1
                if depth == 0:
                    inside = self.text[self.position + 1 : index]
                    self.position = index + 1
                    return inside
            index += 1
        raise JSONPathError(f"unterminated array in {self.text!r}")


def _split(text: str, separator: str) -> list[str]:
    """Split outside of quotes and brackets."""
    parts, depth, start, index = [], 0, 0, 0
    while index < len(text):
        char = text[index]
        if char in "'\"":
            _, index = _unquote(text, index)
            continue
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[start:index])
            start = index + 1
        index += 1
    return [*parts, text[start:]]


_OPERATORS = ("==", "!=", "<=", ">=", "<", ">")


def _filter(text: str) -> Filter:
    index = 0
    while index < len(text):
        if text[index] in "'\"":
            _, index = _unquote(text, index)
            continue
        if text[index] in "=!<>":
            end = index
            while end < len(text) and text[end] in "=!<>":
                end += 1
            operator = text[index:end]
            if operator not in _OPERATORS:
                raise JSONPathError(f"unrecognized filter operator {operator}")
            right = text[end:].strip()
            if not right:
                raise JSONPathError(f"nothing to compare with in filter {text!r}")
            return Filter(_Parser(text[:index].strip()).path(), operator, _Parser(right).path())
        index += 1
    return Filter(_Parser(text.strip()).path(), "exists", None)


def parse(template: str) -> tuple[Node, ...]:
    """Parse a template. Raises JSONPathError."""
    # One list a nesting level; the last is the innermost range's body.
    bodies: list[list[Node]] = [[]]
    ranges: list[Path] = []

    def close() -> None:
        body = tuple(bodies.pop())
        bodies[-1].append(Range(ranges.pop(), body))

    for is_action, piece in _pieces(template):
        if not is_action:
            bodies[-1].append(Text(piece))
            continue
        word = piece.strip()
        if word == "end":
            if not ranges:
                raise JSONPathError("not in range, nothing to end")
            close()
        elif word == "range" or word.startswith(("range ", "range.", "range\t")):
            ranges.append(_Parser(word[len("range") :]).path())
            bodies.append([])
        else:
            bodies[-1].append(_Parser(piece).path())
    while ranges:
        close()
    return tuple(bodies[0])


def _pieces(template: str) -> list[tuple[bool, str]]:
    pieces: list[tuple[bool, str]] = []
    position = 0
    while position < len(template):
        start = template.find("{", position)
        if start < 0:
            pieces.append((False, template[position:]))
            break
        if start > position:
            pieces.append((False, template[position:start]))
        end = start + 1
        while end < len(template) and template[end] != "}":
            if template[end] in "'\"":
                _, end = _unquote(template, end)
            elif template[end] == "\\":
                end += 2
            else:
                end += 1
        if end >= len(template):
            raise JSONPathError(f"unclosed action in {template!r}")
        pieces.append((True, template[start + 1 : end]))
        position = end + 1
    return pieces


def relaxed(expression: str) -> str:
    """Return an expression for a single path in full notation: ``x.y``, ``.x.y``, ``{x.y}`` → ``{.x.y}``."""
    inside = expression.strip()
    if inside.startswith("{") or inside.endswith("}"):
        if not (inside.startswith("{") and inside.endswith("}")):
            raise JSONPathError(f"unexpected path string, expected a 'name1.name2' or '.name1.name2', got {inside!r}")
        inside = inside[1:-1].strip()
    if not inside:
        raise JSONPathError("path template is empty")
    return "{" + (inside if inside[0] in ".[$@" else f".{inside}") + "}"


# --- evaluation ------------------------------------------------------------------------------------------------------


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
