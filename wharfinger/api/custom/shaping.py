"""Pruning and defaulting: an object is cut to its schema, then completed from it.

Both change plain values in place: they are called on what was just read and belongs to nobody else. The order and the
treatment of null follow Kubernetes: unknown fields go first; then null goes where it is neither allowed nor replaced by
a default; then defaults are filled in, also inside of other defaults. Source: "Field pruning" and "Defaulting and
Nullable" in Kubernetes' documentation of CustomResourceDefinitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.api.codec.issues import FieldIssue, join
from wharfinger.api.custom.schema import ABSENT

if TYPE_CHECKING:
    from wharfinger.api.custom.schema import Schema

OWN = frozenset({"apiVersion", "kind", "metadata"})
"""Fields that every object has, whatever its schema says."""
MAX_ISSUES = 100

Path = tuple[str | int, ...]


def prune(content: dict[str, Any], schema: Schema) -> list[FieldIssue]:
    """Take out of an object's content (all but its own fields) what the schema does not know; return what that was."""
    found: list[Path] = []
    _prune_object(content, schema, (), found)
    return [FieldIssue(join(path), "unknown field") for path in found[:MAX_ISSUES]]


def _prune(value: Any, schema: Schema | None, path: Path, found: list[Path]) -> None:
    if isinstance(value, dict):
        if schema is None:
            found += [(*path, name) for name in value]
            value.clear()
        else:
            _prune_object(value, schema, path, found)
    elif isinstance(value, list):
        # Below a place that keeps what is unknown, elements without a schema are kept whole.
        if schema is not None and schema.preserve and schema.items is None:
            return
        items = schema.items if schema is not None else None
        for index, item in enumerate(value):
            _prune(item, items, (*path, index), found)


def _prune_object(value: dict[str, Any], schema: Schema, path: Path, found: list[Path]) -> None:
    properties, additional = schema.properties, schema.additional
    for name in list(value):
        if (schema.embedded or not path) and name in OWN:
            continue
        known = properties.get(name)
        if known is not None:
            _prune(value[name], known, (*path, name), found)
        elif additional is not None and additional is not False:
            _prune(value[name], schema.additional_schema, (*path, name), found)
        elif not schema.preserve:
            found.append((*path, name))
            del value[name]


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Take out null where it may not stand and no default replaces it."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            child = schema.child(name)
            if child is None:
                continue
            if value[name] is None:
                if not child.nullable and child.default is ABSENT:
                    del value[name]
            else:
                drop_nulls(value[name], child)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.items)


def fill_defaults(value: Any, schema: Schema | None) -> None:
    """Fill in defaults for what is absent, and for null where it may not stand."""
    if schema is None or not schema.has_defaults:
        return
    if isinstance(value, dict):
        for name, child in schema.properties.items():
            if child.default is not ABSENT and (name not in value or (value[name] is None and not child.nullable)):
                value[name] = copy(child.default)
        extra = schema.additional_schema
        for name in value:
            known = schema.properties.get(name)
            if known is None and extra is not None and value[name] is None and not extra.nullable:
                value[name] = None if extra.default is ABSENT else copy(extra.default)
            fill_defaults(value[name], known or extra)
    elif isinstance(value, list) and schema.items is not None:
        items = schema.items
        for index, item in enumerate(value):
            if item is None and not items.nullable and items.default is not ABSENT:
                value[index] = copy(items.default)
            fill_defaults(value[index], items)


def copy(value: Any) -> Any:
    """Return plain values of one's own."""
    return orjson.loads(orjson.dumps(value)) if isinstance(value, (dict, list)) else value
