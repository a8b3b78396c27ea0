"""Sets of fields: as paths while they are worked with, as ``FieldsV1`` when they are stored.

A path is a tuple of elements in the notation of FieldsV1: ``f:spec``, ``k:{"name":"web"}``, ``v:"x"``. What an element
means follows from the schema: lists are atomic unless they are marked as sets or as maps by keys, maps and objects are
granular unless they are marked as atomic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.api.codec import schema
from wharfinger.api.codec.schema import form_of, info_of
from wharfinger.api.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from google.protobuf.descriptor import Descriptor

    from wharfinger.api.codec.schema import FieldInfo

Path = tuple[str, ...]
Fields = frozenset[Path]
EMPTY: Fields = frozenset()


@dataclass(frozen=True)
class Type:
    """What a value at some place is, as far as ownership goes."""

    kind: str
    """``scalar`` (also everything atomic), ``object``, ``map``, ``list`` (by keys) or ``set``."""
    descriptor: Descriptor | None = None
    """Of an object, or of the elements of a map or list that are objects."""
    keys: tuple[str, ...] = ()

    def resolved(self, *found: Any) -> Type:
        """Return what the values at hand are; only where no schema is do they decide."""
        return self

    def declares(self, name: str) -> bool:
        """Whether a name below is a field of the schema, and not a key of a map."""
        return self.kind == "object"

    def child(self, name: str) -> Type:
        """Return the type below a field name (``object``, ``map``). Raises StatusError for an unknown field."""
        if self.kind == "map":
            return _value_type(self.descriptor)
        assert self.descriptor is not None
        chain = info_of(self.descriptor).json_fields.get(name)
        if chain is None:
            if name in ("apiVersion", "kind"):
                return SCALAR
            raise StatusError(f"field not declared in schema: .{name}")
        return field_type(chain[-1])

    @property
    def element(self) -> Type:
        """The type of a list's elements."""
        return _value_type(self.descriptor)

    def key_of(self, element: Any) -> str:
        """Return the path element of a list's element. Raises StatusError when a key is missing."""
        if self.kind == "set":
            return f"v:{dump(element)}"
        if not isinstance(element, dict):
            raise StatusError("an element of a list with keys must be an object")
        assert self.descriptor is not None
        known = info_of(self.descriptor).json_fields
        found: dict[str, Any] = {}
        for key in self.keys:
            if element.get(key) is not None:
                found[key] = element[key]
            elif known[key][-1].options.default:
                found[key] = json.loads(known[key][-1].options.default)
            elif known[key][-1].scalar == "string" and not known[key][-1].pointer:
                continue
        if not found:
            raise StatusError(f"an element of a list must have one of its keys: {', '.join(self.keys)}")
        return f"k:{dump(dict(sorted(found.items())))}"


SCALAR = Type("scalar")
_ATOMIC = frozenset({
    *(f"apimachinery.pkg.apis.meta.v1.{name}" for name in ("LabelSelector", "OwnerReference")),
    *(f"api.core.v1.{name}" for name in (
        "ConfigMapKeySelector", "SecretKeySelector", "FileKeySelector", "LocalObjectReference", "ObjectReference",
        "TypedLocalObjectReference", "SecretReference", "ObjectFieldSelector", "ResourceFieldSelector", "NodeSelector",
        "NodeSelectorTerm", "TopologySelectorTerm", "ScopeSelector", "EndpointAddress", "EndpointPort",
    )),
    "api.rbac.v1.RoleRef", "api.rbac.v1.Subject", "api.networking.v1.ServiceBackendPort",
    "api.discovery.v1.EndpointPort", "api.autoscaling.v1.CrossVersionObjectReference",
    *(f"api.admissionregistration.v1.{name}" for name in (
        "MatchResources", "NamedRuleWithOperations", "ParamKind", "ParamRef",
    )),
})  # fmt: skip
"""Objects that belong to one manager as a whole: what the API definitions call ``structType=atomic``."""


def dump(value: Any) -> str:
    """Write a value as path elements hold it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _value_type(descriptor: Descriptor | None) -> Type:
    if descriptor is None:
        return SCALAR
    if form_of(descriptor) != schema.OBJECT or descriptor.full_name.removeprefix("k8s.io.") in _ATOMIC:
        return SCALAR
    return Type("object", descriptor)


def field_type(info: FieldInfo) -> Type:
    """Return the type of a field."""
    options = info.options
    if info.is_map:
        return SCALAR if options.map_type == "atomic" else Type("map", info.message)
    if info.repeated:
        if options.list_type == "map" and info.message is not None:
            return Type("list", info.message, tuple(options.list_map_keys))
        return Type("set", info.message) if options.list_type == "set" else SCALAR
    if options.map_type == "atomic":
        return SCALAR
    if options.map_type == "granular" and info.message is not None:
        return Type("object", info.message)
    return _value_type(info.message)


def of_value(value: Any, at: Type, path: Path = ()) -> Iterator[Path]:
    """Yield the fields that a value sets. Raises StatusError for what the schema does not know or holds twice."""
    at = at.resolved(value)
    if at.kind == "scalar":
        yield path
    elif at.kind in ("list", "set"):
        if value is None:
            return
        for key, element in keyed(value, at).items():
            yield (*path, key)
            if at.kind == "list":
                yield from of_value(element, at.element, (*path, key))
    else:
        if value is None:
            return
        for name, child in value.items():
            below = (*path, f"f:{name}")
            kind = at.child(name)
            if child is None or child == {} or not at.declares(name):
                yield below
            if child is not None:
                yield from of_value(child, kind, below)


def keyed(value: Any, at: Type) -> dict[str, Any]:
    """Return a list's elements by their path elements. Raises StatusError for one that stands twice."""
    if not isinstance(value, list):
        raise StatusError("a list is wanted")
    found: dict[str, Any] = {}
    for element in value:
        key = at.key_of(element)
        if key in found:
            raise StatusError(f"duplicate entries for key [{key[2:]}]")
        found[key] = element
    return found


@dataclass
class Difference:
    """What changed from one value to another."""

    added: set[Path]
    changed: set[Path]
    removed: set[Path]


def compare(old: Any, new: Any, at: Type) -> Difference:
    """Compare two values of one type; an absent one is None."""
    found = Difference(set(), set(), set())
    _compare(old, new, at, (), found)
    return found


def _compare(old: Any, new: Any, at: Type, path: Path, found: Difference) -> None:
    if old is None and new is None:
        return
    at = at.resolved(old, new)
    if path:
        if old is None:
            found.added.add(path)
        elif new is None:
            found.removed.add(path)
    if at.kind == "scalar":
        if path and old is not None and new is not None and old != new:
            found.changed.add(path)
        return
    if at.kind in ("list", "set"):
        before, after = (_lenient(value, at) for value in (old, new))
        for key in {**before, **after}:
            _compare(before.get(key), after.get(key), at.element, (*path, key), found)
        return
    before, after = old or {}, new or {}
    for name in {**before, **after}:
        _compare(before.get(name), after.get(name), at.child(name), (*path, f"f:{name}"), found)


def _lenient(value: Any, at: Type) -> dict[str, Any]:
    """Return elements by key; of those that stand twice the last one (stored objects may have such)."""
    return {at.key_of(element): element for element in value or ()}


def with_parents(fields: Iterable[Path]) -> set[Path]:
    """Return the fields and everything above them."""
    return {path[:size] for path in fields for size in range(1, len(path) + 1)}


def to_json(fields: Fields) -> dict[str, Any]:
    """Return a set as FieldsV1."""
    root: dict[str, Any] = {}
    for path in sorted(fields):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    _tidy(root)
    return root


def _tidy(node: dict[str, Any]) -> None:
    for name, child in node.items():
        if name != ".":
            if list(child) == ["."]:
                child.clear()
            else:
                _tidy(child)


def from_json(value: Any) -> Fields:
    """Read a set. Raises ValueError for what is no FieldsV1."""
    found: set[Path] = set()
    _read(value, (), found)
    return frozenset(found)


def _read(value: Any, path: Path, found: set[Path]) -> None:
    if not isinstance(value, dict):
        raise ValueError("FieldsV1 must be nested objects")
    if not value and path:
        found.add(path)
    for name, child in value.items():
        if name == ".":
            found.add(path)
        elif name[:2] in ("f:", "k:", "v:", "i:"):
            _read(child, (*path, name), found)
        else:
            raise ValueError(f"{name!r} begins like no path element")
