"""Whether two messages mean the same, as Kubernetes compares them when a part must not change.

Two notations of one amount are equal (``1`` and ``1000m``), an empty list is no list, and a field that is no pointer
may be unset in memory where another copy holds its zero value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from wharfinger.api import quantity
from wharfinger.proto import options_pb2

_QUANTITY = "k8s.io.apimachinery.pkg.api.resource.Quantity"
Compare = Callable[[Any, Any], bool]


def semantic_equal(one: Message, other: Message) -> bool:
    """Whether two messages of one class mean the same."""
    return one == other or _comparison(one)(one, other)


_COMPARISONS: dict[str, Compare] = {}


def _comparison(message: Message) -> Compare:
    descriptor: Any = message.DESCRIPTOR
    found = _COMPARISONS.get(descriptor.full_name)
    if found is None:
        found = _COMPARISONS[descriptor.full_name] = _compile(descriptor)
    return found


def _compile(descriptor: Descriptor) -> Compare:
    if descriptor.full_name == _QUANTITY:
        return _quantities
    checks = [_field(field) for field in descriptor.fields]

    def compare(one: Any, other: Any) -> bool:
        return all(check(one, other) for check in checks)

    return compare


def _quantities(one: Any, other: Any) -> bool:
    return quantity.parse(one.string or "0") == quantity.parse(other.string or "0")


def _field(field: FieldDescriptor) -> Compare:
    name = field.name
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        value = nested.fields_by_name["value"].message_type
        if value is None:
            return lambda one, other: dict(getattr(one, name)) == dict(getattr(other, name))

        def maps(one: Any, other: Any) -> bool:
            first, second = getattr(one, name), getattr(other, name)
            return first.keys() == second.keys() and all(semantic_equal(first[key], second[key]) for key in first)

        return maps
    if field.is_repeated:

        def lists(one: Any, other: Any) -> bool:
            first, second = getattr(one, name), getattr(other, name)
            if len(first) != len(second):
                return False
            if nested is None:
                return list(first) == list(second)
            return all(semantic_equal(a, b) for a, b in zip(first, second, strict=True))

        return lists
    options: Any = field.GetOptions()
    pointer = bool(options.Extensions[options_pb2.field].pointer)

    def plain(one: Any, other: Any) -> bool:
        if pointer and one.HasField(name) != other.HasField(name):
            return False
        first, second = getattr(one, name), getattr(other, name)
        return semantic_equal(first, second) if nested is not None else bool(first == second)

    return plain
