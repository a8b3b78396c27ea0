"""What makes a schema structural, beyond its single keywords: skeleton and values apart, defaults that hold, list keys.

Works on the schema as JSON, as a definition writes it; paths are those that Kubernetes reports
(``spec.validation.openAPIV3Schema.properties[spec].default``). Rules: "Specifying a structural schema", "Defaulting"
and "Merge strategy" in Kubernetes' documentation of CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.api.custom.schema import Schema, of_json
from wharfinger.api.validation.errors import Errors

Json = Mapping[str, Any]
_SCALARS = ("boolean", "integer", "number", "string")
_METADATA = frozenset({"name", "generateName"})
_COMBINED = ("allOf", "anyOf", "oneOf")


def validate(source: Json, errors: Errors, path: str) -> None:
    """Judge the whole schema of a version."""
    _root(source, errors, path)
    if not _walk(source, errors, path):
        return
    try:
        compiled = of_json(source)
    except ValueError:
        return  # a pattern that cannot be compiled has been told where it stands
    _defaults(compiled, errors, path)
    _rules(compiled, errors, path)


def _root(source: Json, errors: Errors, path: str) -> None:
    properties = source.get("properties") or {}
    for name in ("apiVersion", "kind"):
        kind = properties.get(name, {}).get("type", "string")
        if kind != "string":
            errors.invalid(f"{path}.properties[{name}].type", kind, "must be string")
    about = properties.get("metadata")
    if about is not None:
        known = set(about.get("properties") or {})
        if known - _METADATA or set(about) - {"type", "description", "properties", "required"}:
            errors.forbidden(
                f"{path}.properties[metadata]",
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            )


def _walk(source: Json, errors: Errors, path: str) -> bool:
    """Judge a place and what is below it; returns whether there are defaults or rules anywhere."""
    further = "default" in source or "x-kubernetes-validations" in source
    if source.get("additionalProperties") is False:
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    if source.get("x-kubernetes-embedded-resource"):
        if source.get("type") != "object":
            errors.invalid(f"{path}.type", source.get("type", ""), "must be object for an embedded resource")
        if not source.get("properties") and not source.get("x-kubernetes-preserve-unknown-fields"):
            errors.required(
                f"{path}.properties", "must not be empty in an embedded resource that does not keep unknown fields"
            )
    if source.get("x-kubernetes-preserve-unknown-fields") and source.get("type") not in (None, "", "object", "array"):
        errors.invalid(f"{path}.type", source.get("type"), "must be object where unknown fields are kept")
    _lists(source, errors, path)
    for word in _COMBINED:
        for index, part in enumerate(source.get(word) or ()):
            _skeleton(part, source, errors, path, f"{word}[{index}]")
    if isinstance(source.get("not"), dict):
        _skeleton(source["not"], source, errors, path, "not")
    for name, item in sorted((source.get("properties") or {}).items()):
        further = _walk(item, errors, f"{path}.properties[{name}]") or further
    if isinstance(source.get("items"), dict):
        further = _walk(source["items"], errors, f"{path}.items") or further
    if isinstance(source.get("additionalProperties"), dict):
        further = _walk(source["additionalProperties"], errors, f"{path}.additionalProperties") or further
    return further


def _lists(source: Json, errors: Errors, path: str) -> None:
    kind = source.get("x-kubernetes-list-type")
    items = source.get("items")
    if kind not in ("map", "set") or not isinstance(items, dict):
        return
    if items.get("nullable"):
        errors.forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}")
    if kind == "set":
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            errors.invalid(
                f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type", ""),
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            )  # fmt: skip
        if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
            errors.invalid(
                f"{path}.items.x-kubernetes-list-type", items["x-kubernetes-list-type"],
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            )  # fmt: skip
        return
    if items.get("type") != "object":
        errors.invalid(f"{path}.items.type", items.get("type", ""), "must be object in a list of type map")
    keys = source.get("x-kubernetes-list-map-keys") or []
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key in keys[:index]:
            errors.duplicate(f"{path}.x-kubernetes-list-map-keys[{index}]", key)
            continue
        own = properties.get(key)
        if own is None:
            continue  # told already
        where = f"{path}.items.properties[{key}]"
        if own.get("type") not in _SCALARS and not own.get("x-kubernetes-int-or-string"):
            errors.invalid(f"{where}.type", own.get("type", ""), "must be a scalar type as a key of a list")
        if own.get("nullable"):
            errors.forbidden(f"{where}.nullable", "a key of a list cannot be nullable")
        if key not in (items.get("required") or ()) and "default" not in own:
            errors.required(f"{where}.default", "a key of a list must have a default or be a required property")


def _skeleton(part: Json, whole: Json, errors: Errors, path: str, where: str) -> None:
    """Note what a combination speaks of without the skeleton having it."""
    known = whole.get("properties") or {}
    for name, item in sorted((part.get("properties") or {}).items()):
        if name not in known:
            errors.required(f"{path}.properties[{name}]", f"because it is defined in {path}.{where}.properties[{name}]")
        else:
            _skeleton(item, known[name], errors, f"{path}.properties[{name}]", where)
    if isinstance(part.get("items"), dict):
        items = whole.get("items")
        if not isinstance(items, dict):
            errors.required(f"{path}.items", f"because it is defined in {path}.{where}.items")
        else:
            _skeleton(part["items"], items, errors, f"{path}.items", where)
    for word in _COMBINED:
        for index, inner in enumerate(part.get(word) or ()):
            _skeleton(inner, whole, errors, path, f"{where}.{word}[{index}]")
    if isinstance(part.get("not"), dict):
        _skeleton(part["not"], whole, errors, path, f"{where}.not")


def _defaults(schema: Schema, errors: Errors, path: str) -> None:
    """Judge each default by the schema at its place: it must be what would be accepted there, and complete."""
    from wharfinger.api.custom import shaping, values  # they know validation, which knows definitions
    from wharfinger.api.custom.schema import ABSENT

    if schema.default is not ABSENT:
        where = f"{path}.default"
        value = shaping.copy(schema.default)
        unknown = shaping.prune(value, schema) if isinstance(value, dict) else []
        if unknown:
            names = ", ".join(issue.path for issue in unknown)
            errors.invalid(where, schema.default, f"must not have unknown fields ({names})")
        shaping.fill_defaults(value, schema)
        values.validate(value, schema, errors, path=where)
    for name in sorted(schema.properties):
        _defaults(schema.properties[name], errors, f"{path}.properties[{name}]")
    if schema.items is not None:
        _defaults(schema.items, errors, f"{path}.items")
    if schema.additional_schema is not None:
        _defaults(schema.additional_schema, errors, f"{path}.additionalProperties")


def _rules(schema: Schema, errors: Errors, path: str, *, correlated: bool = True) -> None:
    """Judge the rules of a schema; below lists without keys no old value is known."""
    from wharfinger.api.custom import celrules

    if not schema.has_rules:
        return
    celrules.check(schema.rules, schema, errors, path, correlated=correlated)
    for name in sorted(schema.properties):
        _rules(schema.properties[name], errors, f"{path}.properties[{name}]", correlated=correlated)
    if schema.items is not None:
        _rules(schema.items, errors, f"{path}.items", correlated=correlated and schema.list_type == "map")
    if schema.additional_schema is not None:
        _rules(schema.additional_schema, errors, f"{path}.additionalProperties", correlated=correlated)
