"""Whatever a client sends, defaulting and validation answer; none of their rules may fail on an odd object."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from wharfinger.api import defaults, kinds, validation
from wharfinger.api.errors import FieldError
from wharfinger.api.validation import warnings

TEXTS = [
    *("", "a", "A", "a/b", "/", "..", "1", "-1", "10.0.0.1", "fd00::1", "10.0.0.0/33", "x" * 300, "None", "Always"),
    *("Exists", "In", "TCP", "example.com/gpu", "hugepages-2Mi", "cpu", "50%", "* * * * *", "ä\n", "ClusterIP"),
    *("Localhost", "object", "array", "string", "Never", "ExternalName", "Indexed", "Pods", "Resource", "Utilization"),
]
NUMBERS = [-(1 << 31), -1, 0, 1, 2, 80, 65536, (1 << 31) - 1]
AMOUNTS = ["", "0", "1", "-1", "100m", "1Gi", "1e3", "1n"]
TESTED = sorted(kinds.KINDS, key=repr)


def _scalar(field: FieldDescriptor, chance: random.Random) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = chance.choice(TEXTS)
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return chance.choice([-1.5, 0.0, 2.5])
    if kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return abs(chance.choice(NUMBERS))
    return chance.choice(NUMBERS)


def fill(message: Message, chance: random.Random, depth: int = 0) -> None:
    """Give a message random content; the deeper, the less."""
    if message.DESCRIPTOR.name == "Quantity":
        message.string = chance.choice(AMOUNTS)  # type: ignore[attr-defined]
        return
    for field in message.DESCRIPTOR.fields:
        if chance.random() > (0.7 if depth < 2 else 0.35) or (field.message_type is not None and depth > 7):
            continue
        target = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            for _ in range(chance.randint(0, 3)):
                key = chance.choice(TEXTS)
                if value.message_type is not None:
                    fill(target[key], chance, depth + 1)
                else:
                    target[key] = _scalar(value, chance)
        elif field.message_type is not None:
            if field.is_repeated:
                for _ in range(chance.randint(0, 2)):
                    fill(target.add(), chance, depth + 1)
            else:
                target.SetInParent()
                fill(target, chance, depth + 1)
        elif field.is_repeated:
            target.extend(_scalar(field, chance) for _ in range(chance.randint(0, 3)))
        else:
            setattr(message, field.name, _scalar(field, chance))


@pytest.mark.parametrize("kind", TESTED, ids=repr)
def test_every_rule_has_an_answer(kind: kinds.Kind) -> None:
    chance = random.Random(repr(kind))
    previous: Any = kind.message()
    for _ in range(40):
        obj: Any = kind.message()
        fill(obj, chance)
        defaults.apply(obj)
        once = obj.SerializeToString(deterministic=True)
        defaults.apply(obj)
        assert obj.SerializeToString(deterministic=True) == once, "defaulting is not done after once"
        causes = validation.validate_create(obj)
        warnings.creating(obj)
        if kind.stored:
            for subresource in ("", "status", "ephemeralcontainers", "resize", "approval", "finalize"):
                causes += validation.validate_update(obj, previous, subresource=subresource)
            warnings.updating(obj, previous)
        assert all(isinstance(cause, FieldError) for cause in causes)
        assert obj.SerializeToString(deterministic=True) == once, "validation changes nothing"
        previous = obj
