"""Where an object has unknown or duplicate fields: the second, thorough walk over plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.api.codec import schema
from wharfinger.api.codec.text import Duplicated
from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

MAX_ISSUES = 100
"""How many are told; the rest would not help."""


@dataclass(frozen=True)
class FieldIssue:
    """A field that is not understood or stands twice."""

    path: str
    text: str
    """``unknown field`` or ``duplicate field``."""

    def __str__(self) -> str:
        return f'{self.text} "{self.path}"'


def join(parts: Iterable[str | int]) -> str:
    """Write a path in JSON notation: ``spec.containers[0].image``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def find(value: Any, descriptor: Descriptor) -> list[FieldIssue]:
    """Return the unknown and duplicate fields of an object, in the order of the document, a hundred at most."""
    found: list[FieldIssue] = []
    for issue in _object(value, descriptor, ""):
        found.append(issue)
        if len(found) >= MAX_ISSUES:
            break
    return found


def strict_error(found: list[FieldIssue]) -> BadRequestError:
    """Return the 400 for fieldValidation=Strict."""
    return BadRequestError("strict decoding error: " + ", ".join(str(issue) for issue in found))


def _object(value: Any, descriptor: Descriptor, path: str) -> Iterator[FieldIssue]:
    form = schema.form_of(descriptor)
    if form == schema.RAW_JSON:
        yield from plain(value, path)
        return
    if form not in (schema.OBJECT, schema.LIST):
        schemas = next(field for field in schema.info_of(descriptor).fields if field.message is not None) if form in (
            schema.SCHEMA_OR_ARRAY, schema.SCHEMA_OR_BOOL, schema.SCHEMA_OR_STRING_ARRAY) else None  # fmt: skip
        if schemas is not None and schemas.message is not None:
            if isinstance(value, dict):
                yield from _object(value, schemas.message, path)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    yield from _object(item, schemas.message, f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    yield from _duplicates(value, path)
    info = schema.info_of(descriptor)
    known = info.json_fields
    for name, item in value.items():
        below = f"{path}.{name}" if path else name
        chain = known.get(name)
        if chain is None:
            if not (info.kind and name in ("kind", "apiVersion")):
                yield FieldIssue(below, "unknown field")
            continue
        field = chain[-1]
        if field.is_map and isinstance(item, dict):
            yield from _duplicates(item, below)
        if field.message is None:
            continue
        if field.is_map and isinstance(item, dict):
            for key, element in item.items():
                yield from _object(element, field.message, f"{below}.{key}")
        elif field.repeated and isinstance(item, list):
            for index, element in enumerate(item):
                yield from _object(element, field.message, f"{below}[{index}]")
        else:
            yield from _object(item, field.message, below)


def plain(value: Any, path: str) -> Iterator[FieldIssue]:
    """Yield the duplicate fields of a value without a schema."""
    if isinstance(value, dict):
        yield from _duplicates(value, path)
        for name, item in value.items():
            yield from plain(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from plain(item, f"{path}[{index}]")


def _duplicates(value: dict[str, Any], path: str) -> Iterator[FieldIssue]:
    if isinstance(value, Duplicated):
        for name in value.names:
            yield FieldIssue(f"{path}.{name}" if path else name, "duplicate field")
