"""Structural schemas, compiled once a version of a definition into nodes that all the rest walks along.

A structural schema says at each place of an object exactly once what is there: the skeleton (type, properties, items,
additional properties and Kubernetes' extensions). Logical combinations (allOf, anyOf, oneOf, not) only restrict values.
So pruning, defaulting, ownership and list keys need the skeleton alone, and each is one walk over object and nodes.
Source: "Specifying a structural schema" in Kubernetes' documentation of CustomResourceDefinitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wharfinger.api import codec, patterns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.types import apiextensions

_NONE: Mapping[str, Any] = MappingProxyType({})
"""Shared by the many places that have nothing to say: schemas of thousands of nodes are usual."""
_KEYWORDS = (
    "maxLength", "minLength", "pattern", "format", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum",
    "multipleOf", "maxItems", "minItems", "maxProperties", "minProperties",
)  # fmt: skip
_CONVERTED = frozenset({"date-time", "date", "duration", "byte"})
ABSENT: Any = object()
"""Stands where a schema says nothing: None is a value."""


@dataclass(slots=True, eq=False)
class Schema:
    """What may stand at one place of an object."""

    source: Mapping[str, Any]
    """The keywords that restrict single values (``maxLength``, ``format``, …), as they were written."""
    type: str = ""
    properties: Mapping[str, Schema] = field(default_factory=lambda: _NONE)
    items: Schema | None = None
    additional: Schema | bool | None = None
    """Of names that `properties` does not have: a schema, whether they may be at all, or nothing said."""
    preserve: bool = False
    """x-kubernetes-preserve-unknown-fields: nothing is pruned here."""
    embedded: bool = False
    """x-kubernetes-embedded-resource: an object with apiVersion, kind and metadata of its own."""
    int_or_string: bool = False
    nullable: bool = False
    default: Any = ABSENT
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    pattern: patterns.Pattern | None = None
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    negated: Schema | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    """x-kubernetes-validations."""
    has_defaults: bool = False
    """Whether a default stands here or anywhere below."""
    has_rules: bool = False
    """Whether a rule stands here or anywhere below."""
    converts: bool = False
    """Whether rules see the value (or one below) as something else than JSON has it: a time, a span, a double."""

    @property
    def additional_schema(self) -> Schema | None:
        """The schema of additional properties; None when there is none (also when any are allowed)."""
        return self.additional if isinstance(self.additional, Schema) else None

    def child(self, name: str) -> Schema | None:
        """Return the schema of a property, named or additional."""
        return self.properties.get(name) or self.additional_schema


def compile_schema(message: apiextensions.JSONSchemaProps) -> Schema:
    """Compile the schema of one version, as a definition holds it (and has validated it)."""
    return of_json(codec.to_json(message))


def of_json(source: Mapping[str, Any]) -> Schema:
    """Compile a schema from JSON. Raises ValueError for a pattern that is none."""
    additional = source.get("additionalProperties")
    properties = {name: of_json(item) for name, item in (source.get("properties") or {}).items()}
    keywords = {name: source[name] for name in _KEYWORDS if name in source}
    made = Schema(
        keywords or _NONE,
        type=source.get("type", ""),
        properties=properties or _NONE,
        items=of_json(source["items"]) if isinstance(source.get("items"), dict) else None,
        additional=of_json(additional) if isinstance(additional, dict) else additional,
        preserve=bool(source.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(source.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(source.get("x-kubernetes-int-or-string")),
        nullable=bool(source.get("nullable")),
        default=source.get("default", ABSENT),
        list_type=source.get("x-kubernetes-list-type") or "atomic",
        list_keys=tuple(source.get("x-kubernetes-list-map-keys") or ()),
        map_type=source.get("x-kubernetes-map-type") or "granular",
        required=tuple(source.get("required") or ()),
        enum=tuple(source.get("enum") or ()),
        pattern=patterns.compile_pattern(source["pattern"]) if source.get("pattern") else None,
        all_of=tuple(of_json(item) for item in source.get("allOf") or ()),
        any_of=tuple(of_json(item) for item in source.get("anyOf") or ()),
        one_of=tuple(of_json(item) for item in source.get("oneOf") or ()),
        negated=of_json(source["not"]) if isinstance(source.get("not"), dict) else None,
        rules=tuple(source.get("x-kubernetes-validations") or ()),
    )
    below = [item for item in (*made.properties.values(), made.items, made.additional_schema) if item is not None]
    made.has_defaults = made.default is not ABSENT or any(item.has_defaults for item in below)
    made.has_rules = bool(made.rules) or any(item.has_rules for item in below)
    special = made.type == "number" or source.get("format") in _CONVERTED
    made.converts = special or any(item.converts for item in below)
    return made
