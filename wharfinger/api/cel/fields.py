"""Fields and elements of values, by name, key or position."""

from __future__ import annotations

from typing import Any

from wharfinger.api.cel.values import NONE, CelError, Optional, type_of

_KEYWORDS = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip


def unescaped(name: str) -> str:
    """Return the field that an identifier stands for: names that CEL cannot hold are written with ``__``."""
    if "__" not in name:
        return name
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    for code, text in (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__")):
        name = name.replace(code, text)
    return name


def get(value: Any, key: Any, *, optional: bool, field: bool = False) -> Any:
    """Return what a value has at `key`; `field`: it was written as a field, so lists have none.

    `optional` makes an Optional of the answer, as does a value that is one. Raises CelError for what is not there.
    """
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value, optional = value.held, True
    if isinstance(value, dict):
        if key in value and not isinstance(key, bool):
            return Optional(value[key]) if optional else value[key]
        if field and (name := unescaped(key)) in value:
            return Optional(value[name]) if optional else value[name]
        if optional:
            return NONE
        raise CelError(f"no such key: {key}")
    if isinstance(value, list) and not field:
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or isinstance(key, bool):
            raise CelError(f"no such overload: a list has no index of type {type_of(key)}")
        if 0 <= key < len(value):
            return Optional(value[key]) if optional else value[key]
        if optional:
            return NONE
        raise CelError(f"index out of bounds: {key}")
    raise CelError(f"no such overload: {type_of(value)} has no {'fields' if field else 'elements'}")
