"""Template text to nodes."""

from __future__ import annotations

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
    Step,
    Text,
    Union,
    Wildcard,
)

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
