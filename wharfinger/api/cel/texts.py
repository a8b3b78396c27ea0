"""Functions on text: CEL's extension for strings, and the formats of Kubernetes' names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wharfinger.api import formats
from wharfinger.api.cel.conversions import number_text, to_string
from wharfinger.api.cel.operators import add
from wharfinger.api.cel.values import NONE, CelError, Duration, Optional, compare, equal, is_number, type_of

MAX_TEXT = 1 << 20
"""Characters of a text that a function may make."""


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise CelError(f"no such overload: {name} on {type_of(value)}")
    return value


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(value: Any, part: Any, start: int = 0) -> int:
    if isinstance(value, list):
        return next((at for at, item in enumerate(value) if equal(item, part)), -1)
    if not 0 <= start <= len(_text(value, "indexOf")):
        raise CelError(f"index out of range: {start}")
    return int(value.find(part, start))


def _last_index_of(value: Any, part: Any, end: int | None = None) -> int:
    if isinstance(value, list):
        return next((at for at in range(len(value) - 1, -1, -1) if equal(value[at], part)), -1)
    text = _text(value, "lastIndexOf")
    return text.rfind(part) if end is None else text.rfind(part, 0, end + len(part))


def _join(values: list[str], separator: str = "") -> str:
    return separator.join(_text(value, "join") for value in values)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    if len(text) * max(1, len(new)) > MAX_TEXT:
        raise CelError("the text would become too long")
    return _text(text, "replace").replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"substring {start} to {stop} is outside of a text of {len(text)} characters")
    return text[start:stop]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(char) if char.isascii() else char for char in _text(text, "a change of case"))


_CLAUSE = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")


def _format(pattern: str, values: list[Any]) -> str:
    given = iter(values)

    def one(found: re.Match[str]) -> str:
        if found[2] == "%":
            return "%"
        try:
            value = next(given)
        except StopIteration as error:
            raise CelError("format: there are fewer arguments than clauses") from error
        digits = int(found[1]) if found[1] else 6
        match found[2]:
            case "s":
                return _shown(value)
            case "d":
                return number_text(value) if isinstance(value, float) else str(int(value))
            case "f":
                return f"{float(value):.{min(digits, 100)}f}"
            case "e":
                return f"{float(value):.{min(digits, 100)}e}"
            case "b":
                return f"{int(value):b}"
            case "o":
                return f"{int(value):o}"
            case "x" | "X":
                if isinstance(value, (str, bytes)):
                    data = value.encode() if isinstance(value, str) else value
                    return data.hex() if found[2] == "x" else data.hex().upper()
                return f"{int(value):{found[2]}}"
        raise CelError(f"format: %{found[2]} is no clause")

    return _CLAUSE.sub(one, _text(pattern, "format"))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in sorted(value.items())) + "}"
    return "null" if value is None else to_string(value)


def _quote(text: str) -> str:
    table = {"\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
             "\v": "\\v"}  # fmt: skip
    return '"' + "".join(table.get(char, char) for char in text) + '"'


# --- lists ------------------------------------------------------------------------------------------------------------


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise CelError(f"no such overload: {name} on {type_of(value)}")
    return value


def _is_sorted(values: Any) -> bool:
    found = _list(values, "isSorted")
    return all(compare(one, other) <= 0 for one, other in pairwise(found))


def _sum(values: Any) -> Any:
    found = _list(values, "sum")
    if not found:
        return 0
    total = found[0]
    if not (is_number(total) or isinstance(total, Duration)):
        raise CelError(f"no such overload: sum on a list of {type_of(total)}")
    for value in found[1:]:
        total = add(total, value)
    return total


def _extreme(name: str, sign: int) -> Callable[[Any], Any]:
    def run(values: Any) -> Any:
        found = _list(values, name)
        if not found:
            raise CelError(f"{name} called on empty list")
        best = found[0]
        for value in found[1:]:
            if compare(value, best) * sign > 0:
                best = value
        return best

    return run


# --- formats ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """A named form of text."""

    name: str
    check: Callable[[str], bool]

    def cel_string(self) -> str:
        """Return its name."""
        return self.name


def _named(pattern: str, longest: int) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: len(text) <= longest and compiled.fullmatch(text) is not None


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FORMATS = {
    "dns1123Label": _named(_LABEL, 63),
    "dns1123Subdomain": _named(rf"{_LABEL}(\.{_LABEL})*", 253),
    "dns1035Label": _named(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "dns1123LabelPrefix": _named(r"([a-z0-9]([-a-z0-9]*)?)?", 63),
    "dns1123SubdomainPrefix": _named(rf"({_LABEL}\.)*[-a-z0-9]*", 253),
    "dns1035LabelPrefix": _named(r"([a-z][-a-z0-9]*)?", 63),
    "qualifiedName": _named(
        rf"({_LABEL}(\.{_LABEL})*/)?([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]", 317
    ),
    "labelValue": _named(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", 63),
    "uri": formats.CHECKS["uri"],
    "uuid": formats.CHECKS["uuid"],
    "byte": formats.CHECKS["byte"],
    "date": formats.CHECKS["date"],
    "datetime": formats.CHECKS["datetime"],
}  # fmt: skip


def _format_of(name: str) -> Callable[[], Format]:
    return lambda: Format(name, _FORMATS[name])


def _validate(form: Any, text: str) -> Optional:
    if not isinstance(form, Format):
        raise CelError(f"no such overload: validate on {type_of(form)}")
    return NONE if form.check(_text(text, "validate")) else Optional([f"{text!r} is no {form.name}"])


METHODS: dict[str, Callable[..., Any]] = {
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "join": _join,
    "lowerAscii": _ascii(str.lower),
    "upperAscii": _ascii(str.upper),
    "replace": _replace,
    "reverse": lambda value: value[::-1],
    "split": _split,
    "substring": _substring,
    "trim": lambda text: _text(text, "trim").strip(),
    "format": _format,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _extreme("min", -1),
    "max": _extreme("max", 1),
    "validate": _validate,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "strings.quote": _quote,
    "format.named": lambda name: Optional(Format(name, _FORMATS[name])) if name in _FORMATS else NONE,
    **{f"format.{name}": _format_of(name) for name in _FORMATS},
}
