"""What the fields of custom objects are for server-side apply: read from the schema, guessed where there is none.

Where a schema keeps unknown fields, values say themselves what they are: objects are maps, everything else belongs to
one manager as a whole, as Kubernetes deduces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.api.codec.schema import descriptor_of
from wharfinger.api.custom.schema import ABSENT
from wharfinger.api.errors import StatusError
from wharfinger.api.ownership.fields import SCALAR, Type, dump
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from wharfinger.api.custom.schema import Schema

_METADATA = Type("object", descriptor_of(meta.ObjectMeta))


@dataclass(frozen=True)
class Deduced(Type):
    """A place without a schema: a map when the value is an object, else one whole."""

    kind: str = "map"

    def child(self, name: str) -> Type:
        """Return the type below a name: the same freedom."""
        return DEDUCED

    def resolved(self, *found: Any) -> Type:
        """Return what the values at hand are."""
        return self if all(value is None or isinstance(value, dict) for value in found) else SCALAR


DEDUCED = Deduced()


@dataclass(frozen=True)
class SchemaType(Type):
    """A place that a schema describes."""

    schema: Schema | None = None
    root: bool = False
    """Whether it is an object with metadata of its own."""

    def declares(self, name: str) -> bool:
        """Whether a name is a field of the schema; others are keys of a map."""
        return self.schema is not None and (name in self.schema.properties or (self.root and name in _OWN))

    def child(self, name: str) -> Type:
        """Return the type below a name. Raises StatusError for one that the schema does not know."""
        if self.root and name in _OWN:
            return _METADATA if name == "metadata" else SCALAR
        assert self.schema is not None
        known = self.schema.child(name)
        if known is not None:
            return type_of(known)
        if self.schema.preserve or self.schema.additional is True:
            return DEDUCED
        raise StatusError(f"field not declared in schema: .{name}")

    @property
    def element(self) -> Type:
        """The type of a list's elements."""
        assert self.schema is not None
        return type_of(self.schema.items) if self.schema.items is not None else DEDUCED

    def key_of(self, element: Any) -> str:
        """Return the path element of a list's element. Raises StatusError when no key is there."""
        if self.kind == "set":
            return f"v:{dump(element)}"
        if not isinstance(element, dict):
            raise StatusError("an element of a list with keys must be an object")
        items = self.schema.items if self.schema is not None else None
        found: dict[str, Any] = {}
        for key in self.keys:
            if element.get(key) is not None:
                found[key] = element[key]
            elif items is not None and key in items.properties and items.properties[key].default is not ABSENT:
                found[key] = items.properties[key].default
        if not found:
            raise StatusError(f"an element of a list must have one of its keys: {', '.join(self.keys)}")
        return f"k:{dump(dict(sorted(found.items())))}"


_OWN = frozenset({"apiVersion", "kind", "metadata"})


def type_of(schema: Schema) -> Type:
    """Return the type of a place."""
    if schema.type == "array":
        if schema.list_type == "map":
            return SchemaType("list", keys=schema.list_keys, schema=schema)
        return SchemaType("set", schema=schema) if schema.list_type == "set" else SCALAR
    if schema.type == "object":
        if schema.map_type == "atomic":
            return SCALAR
        if schema.properties or schema.embedded:
            return SchemaType("object", schema=schema, root=schema.embedded)
        if schema.additional_schema is not None:
            return SchemaType("map", schema=schema)
        return DEDUCED if schema.preserve or schema.additional is True else SchemaType("object", schema=schema)
    if not schema.type and schema.preserve and not schema.int_or_string:
        return DEDUCED
    return SCALAR


def root_type(schema: Schema | None) -> Type:
    """Return the type of a whole object."""
    return SchemaType("object", schema=schema, root=True) if schema is not None else DEDUCED
