"""Judges values by a schema, with the causes that Kubernetes reports.

The keywords are those of OpenAPI v3 that structural schemas may use. A combination that fails (anyOf, oneOf, not,
allOf) is told without a field, followed by the causes of the alternative that came closest, as the reference does it.

What an update leaves as it was is not judged again ("ratcheting", in Kubernetes since 1.30): an object whose schema has
become stricter can still be changed elsewhere. Elements of lists with keys are compared with those of the same keys,
elements of other lists with none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.api import codec, formats, patterns
from wharfinger.api.custom.schema import ABSENT
from wharfinger.api.errors import BadRequestError, FieldError
from wharfinger.api.types import meta
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wharfinger.api.custom.schema import Schema

NOWHERE = "<nil>"
"""The field of causes that concern the whole."""


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal; unlike Python's ``==`` it tells true from 1."""
    if one is other:
        return True
    if one != other:
        return False
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def validate(value: Any, schema: Schema, errors: Errors, *, path: str = "", old: Any = ABSENT) -> None:
    """Note what is wrong with a value; `old` is what it replaces."""
    if old is not ABSENT and same(value, old):
        return
    _type(value, schema, errors, path)
    if value is None:
        if schema.enum and not schema.nullable:
            _enum(value, schema, errors, path)
        return
    _combined(value, schema, errors, path)
    if isinstance(value, str):
        _string(value, schema, errors, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _number(value, schema, errors, path)
    elif isinstance(value, list):
        _list(value, schema, errors, path, old)
    if schema.enum:
        _enum(value, schema, errors, path)
    if isinstance(value, dict):
        _object(value, schema, errors, path, old)


# --- single values ----------------------------------------------------------------------------------------------------


def type_of(value: Any) -> str:
    """Return the type of a plain value, as schemas name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _type(value: Any, schema: Schema, errors: Errors, path: str) -> None:
    wanted, found = schema.type, type_of(value)
    if value is None:
        # Without a type anything goes, but only where nothing else is said about it either.
        if not schema.nullable and (wanted or schema.int_or_string):
            errors.append(_wrong_type(path, value, wanted or "integer,string", found))
        return
    if schema.int_or_string:
        whole = found == "integer" or (isinstance(value, float) and value.is_integer())
        if not whole and found != "string":
            errors.append(_wrong_type(path, value, "integer,string", found))
        return
    if not wanted or found == wanted or (wanted == "number" and found == "integer"):
        return
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        return
    errors.append(_wrong_type(path, value, wanted, found))


def _wrong_type(path: str, value: Any, wanted: str, found: str) -> Any:
    shown = value if found not in ("object", "array") else found
    return FieldError.type_invalid(path or NOWHERE, shown, f"must be of type {wanted}: found {found}")


def _enum(value: Any, schema: Schema, errors: Errors, path: str) -> None:
    if not any(same(value, item) for item in schema.enum):
        shown = [item if isinstance(item, str) else json.dumps(item) for item in schema.enum]
        errors.not_supported(path or NOWHERE, value, shown)


def _string(value: str, schema: Schema, errors: Errors, path: str) -> None:
    source = schema.source
    longest, shortest = source.get("maxLength"), source.get("minLength")
    if longest is not None and len(value) > longest:
        errors.too_long(path or NOWHERE, int(longest))
    if shortest is not None and len(value) < shortest:
        errors.invalid(path or NOWHERE, value, f"should be at least {shortest} chars long")
    if schema.pattern is not None and not patterns.matches(schema.pattern, value):
        errors.invalid(path or NOWHERE, value, f"should match '{source['pattern']}'")
    form = source.get("format")
    if form and schema.type in ("string", ""):
        check = formats.check_of(form)
        if check is not None and not (schema.int_or_string or check(value)):
            errors.append(FieldError.type_invalid(path or NOWHERE, value, f"must be of type {form}"))


def _number(value: float, schema: Schema, errors: Errors, path: str) -> None:
    source = schema.source
    most, least, factor = source.get("maximum"), source.get("minimum"), source.get("multipleOf")
    field = path or NOWHERE
    if factor and not _is_multiple(value, factor):
        errors.invalid(field, value, f"should be a multiple of {_show(factor)}")
    if most is not None:
        if source.get("exclusiveMaximum"):
            if not value < most:
                errors.invalid(field, value, f"should be less than {_show(most)}")
        elif value > most:
            errors.invalid(field, value, f"should be less than or equal to {_show(most)}")
    if least is not None:
        if source.get("exclusiveMinimum"):
            if not value > least:
                errors.invalid(field, value, f"should be greater than {_show(least)}")
        elif value < least:
            errors.invalid(field, value, f"should be greater than or equal to {_show(least)}")
    limit = formats.INTEGERS.get(source.get("format", ""))
    if limit is not None and schema.type == "integer" and not -limit <= value < limit:
        errors.invalid(field, value, f"should be a valid {source['format']}")


def _is_multiple(value: float, factor: float) -> bool:
    quotient = value / factor
    return abs(quotient - round(quotient)) < 1e-9 * max(1.0, abs(quotient))


def _show(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


# --- what holds other values ------------------------------------------------------------------------------------------


def _list(value: list[Any], schema: Schema, errors: Errors, path: str, old: Any) -> None:
    source = schema.source
    most, least = source.get("maxItems"), source.get("minItems")
    if most is not None and len(value) > most:
        errors.too_many(path or NOWHERE, len(value), int(most))
    if least is not None and len(value) < least:
        errors.invalid(path or NOWHERE, len(value), f"should have at least {least} items")
    items = schema.items
    if items is None:
        return
    before: dict[bytes, Any] = {}
    if schema.list_type == "map" and isinstance(old, list):
        before = {key_of(item, schema): item for item in old}
    for index, item in enumerate(value):
        was = before.get(key_of(item, schema), ABSENT) if before else ABSENT
        validate(item, items, errors, path=f"{path}[{index}]", old=was)


def _object(value: dict[str, Any], schema: Schema, errors: Errors, path: str, old: Any) -> None:
    source = schema.source
    most, least = source.get("maxProperties"), source.get("minProperties")
    if most is not None and len(value) > most:
        errors.too_many(path or NOWHERE, len(value), int(most))
    if least is not None and len(value) < least:
        errors.invalid(path or NOWHERE, len(value), f"should have at least {least} properties")
    before = old if isinstance(old, dict) else {}
    for name in schema.required:
        if name not in value:
            errors.required(_below(path, name))
    if schema.properties or schema.additional is not None:
        extra = schema.additional_schema
        for name, item in value.items():
            known = schema.properties.get(name) or extra
            if known is not None:
                validate(item, known, errors, path=_below(path, name), old=before.get(name, ABSENT))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# --- combinations -----------------------------------------------------------------------------------------------------


def _combined(value: Any, schema: Schema, errors: Errors, path: str) -> None:
    where = path or "the object"
    if schema.any_of:
        closest = _closest(value, schema.any_of, path)
        if closest is not None:
            errors.invalid(NOWHERE, "", f'"{where}" must validate at least one schema (anyOf)')
            errors += closest
    if schema.one_of:
        each = [_alone(value, item, path) for item in schema.one_of]
        right = sum(not causes for causes in each)
        if right != 1:
            how = f"Found {right} valid alternatives" if right else "Found none valid"
            errors.invalid(NOWHERE, "", f'"{where}" must validate one and only one schema (oneOf). {how}')
            if not right:
                nearest = min(each, key=len)
                errors += nearest
    if schema.all_of:
        found = [_alone(value, item, path) for item in schema.all_of]
        for causes in found:
            errors += causes
        if any(found):
            errors.invalid(NOWHERE, "", f'"{where}" must validate all the schemas (allOf)')
    if schema.negated is not None and not _alone(value, schema.negated, path):
        errors.invalid(NOWHERE, "", f'"{where}" must not validate the schema (not)')


def _alone(value: Any, schema: Schema, path: str) -> Errors:
    found = Errors()
    validate(value, schema, found, path=path)
    return found


def _closest(value: Any, schemas: tuple[Schema, ...], path: str) -> Errors | None:
    """Return the causes of the alternative with the fewest; None when one holds."""
    best: Errors | None = None
    for schema in schemas:
        found = _alone(value, schema, path)
        if not found:
            return None
        if best is None or len(found) < len(best):
            best = found
    return best


# --- lists with keys, objects within objects --------------------------------------------------------------------------


def key_of(element: Any, schema: Schema) -> bytes:
    """Return what tells an element of a list with keys from others."""
    if not isinstance(element, dict):
        return orjson.dumps(element)
    return orjson.dumps([element.get(key) for key in schema.list_keys], option=orjson.OPT_SORT_KEYS)


def duplicates(value: Any, schema: Schema | None, errors: Errors, *, path: str = "") -> None:
    """Note elements that stand twice in lists that are sets or maps by keys."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                duplicates(item, schema.child(name), errors, path=_below(path, name))
    elif isinstance(value, list):
        if schema.list_type != "atomic":
            seen: set[bytes] = set()
            for index, item in enumerate(value):
                by_keys = schema.list_type == "map" and isinstance(item, dict)
                key = key_of(item, schema) if by_keys else orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
                if key in seen:
                    shown = {name: item.get(name) for name in schema.list_keys} if by_keys else item
                    errors.duplicate(f"{path}[{index}]", shown)
                seen.add(key)
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                duplicates(item, schema.items, errors, path=f"{path}[{index}]")


def embedded(value: Any, schema: Schema | None, path: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each object within an object that has metadata of its own, with its path."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.embedded and path:
            yield value, path
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                yield from embedded(item, schema.child(name), _below(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from embedded(item, schema.items, f"{path}[{index}]")


def embedded_metadata(value: Any, schema: Schema, errors: Errors) -> None:
    """Judge what objects within an object say about themselves."""
    for item, path in embedded(value, schema):
        for field in ("apiVersion", "kind"):
            text = item.get(field)
            if not isinstance(text, str) or not text:
                errors.required(f"{path}.{field}", "must not be empty")
            elif field == "kind" and (complaints := names.dns1035_label(text.lower())):
                errors.invalid(f"{path}.kind", text, "; ".join(complaints))
            elif field == "apiVersion" and text.count("/") > 1:
                errors.invalid(f"{path}.apiVersion", text, "must be a version, or a group and a version")
        own = item.get("metadata")
        if isinstance(own, dict):
            try:
                read = codec.from_json({"metadata": own}, meta.PartialObjectMetadata, validation="Ignore").message
            except BadRequestError as error:
                errors.invalid(f"{path}.metadata", "", error.message)
                continue
            if read.metadata.name or read.metadata.generateName:
                metadata.validate(
                    read.metadata,
                    errors,
                    namespaced=bool(read.metadata.namespace),
                    name=names.path_segment,
                    path=f"{path}.metadata",
                )
