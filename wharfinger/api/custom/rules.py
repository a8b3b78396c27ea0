"""The rules of a custom kind: what it says it is, metadata, schema, list keys, objects within, replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api.custom import celrules, values
from wharfinger.api.errors import FieldError, invalid
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

if TYPE_CHECKING:
    from wharfinger.api.custom.kinds import CustomKind
    from wharfinger.api.custom.schema import Schema

_MAX_REPLICAS = (1 << 31) - 1


def rules_of(kind: CustomKind, schema: Schema | None) -> Rules:
    """Return the rules; without a schema (clients) there are none."""
    if schema is None:
        return Rules(create=lambda obj, errors: None, update=lambda obj, old, errors: None)

    def create(obj: Any, errors: Errors) -> None:
        _check_kind(obj, kind)
        metadata.validate(obj.metadata, errors, namespaced=kind.namespaced, name=names.dns1123_subdomain)
        value = obj.to_value()
        values.validate(value, schema, errors)
        _replicas(obj, kind, errors)
        values.embedded_metadata(value, schema, errors)
        values.duplicates(value, schema, errors)
        celrules.run(value, schema, errors)

    def update(obj: Any, old: Any, errors: Errors) -> None:
        _check_kind(obj, kind)
        metadata.validate(obj.metadata, errors, namespaced=kind.namespaced, name=names.path_segment)
        metadata.validate_update(obj.metadata, old.metadata, errors)
        metadata.validate_update(obj.metadata, old.metadata, errors)  # the general pass, and the kind's own
        status(obj, old, errors)

    def status(obj: Any, old: Any, errors: Errors) -> None:
        value, before = obj.to_value(), old.to_value()
        values.validate(value, schema, errors, old=before)
        _replicas(obj, kind, errors)
        values.embedded_metadata(value, schema, errors)
        already = Errors()
        values.duplicates(before, schema, already)
        if not already:
            values.duplicates(value, schema, errors)
        celrules.run(value, schema, errors, old=before)

    return Rules(create=create, update=update, subresources={"status": status})


def _check_kind(obj: Any, kind: CustomKind) -> None:
    """Raise InvalidError for an object that says that it is another kind: under the name that it gives itself."""
    if obj.kind != kind.kind:
        cause = FieldError.invalid("kind", obj.kind, f"must be {kind.kind}")
        raise invalid(obj.kind, kind.group, obj.metadata.name, [cause])


def _replicas(obj: Any, kind: CustomKind, errors: Errors) -> None:
    """Judge the numbers that the scale subresource shows."""
    if kind.scale is None:
        return
    for path in (kind.scale.replicas, kind.scale.status_replicas):
        value = path.get(obj.content)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            errors.invalid(str(path), value, "should be a whole number")
        elif value < 0:
            errors.invalid(str(path), value, "should be a non-negative integer")
        elif value > _MAX_REPLICAS:
            errors.invalid(str(path), value, f"should be less than or equal to {_MAX_REPLICAS}")
    if kind.scale.selector is not None:
        text = kind.scale.selector.get(obj.content)
        if text is not None and not isinstance(text, str):
            errors.invalid(str(kind.scale.selector), text, "should be a string")
