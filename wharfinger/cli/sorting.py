"""``--sort-by``: objects in the order of a field, as kubectl orders them.

Numbers by value, quantities by amount, times by moment (their text sorts rightly), other text naturally
(``web-2`` before ``web-10``); objects without the field come first. The order of equals is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from wharfinger.api import quantity
from wharfinger.api.jsonpath import JSONPathError, Template, relaxed
from wharfinger.cli.failures import CommandError

T = TypeVar("T")
_DIGITS = re.compile(r"(\d+)")


def sort_by(expression: str, items: Sequence[tuple[dict[str, Any], T]]) -> list[T]:
    """Return the second parts of (document, thing) pairs, in the order of a field of the documents."""
    try:
        template = Template(relaxed(expression))
        values = [_first(template.values(document)) for document, _ in items]
    except JSONPathError as error:
        raise CommandError(f"--sort-by {expression}: {error}") from error
    if items and all(value is None for value in values):
        raise CommandError(f'couldn\'t find any field with path "{relaxed(expression)}" in the list of objects')
    quantities = all(value is None or (isinstance(value, str) and _is_quantity(value)) for value in values)
    keys = [_key(value, quantities=quantities) for value in values]
    try:
        order = sorted(range(len(items)), key=keys.__getitem__)
    except TypeError as error:
        raise CommandError(f"--sort-by {expression}: the field is of different types in different objects") from error
    return [items[index][1] for index in order]


def _first(values: list[Any]) -> Any:
    return values[0] if values else None


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def _key(value: Any, *, quantities: bool) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, quantity.parse(value).nanos) if quantities else (1, _natural(value))
    if isinstance(value, dict | list):
        raise CommandError(f"cannot sort by a {'map' if isinstance(value, dict) else 'list'}; name a single value")
    return (1, value)


def _natural(text: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in _DIGITS.split(text) if part]
