"""Random objects of every kind survive JSON, YAML, protobuf and storage."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.api import codec, kinds, storage
from wharfinger.api.codec import schema
from wharfinger.api.codec.schema import FieldInfo

TEXTS = ("", "a", "web-1", "é", "x y", "yes", "0755", "<&>", "2026-01-02", "\n", '"')
QUANTITIES = ("0", "1", "500m", "1Gi", "1e3", "0.5", "1000m", "-1", "1n")


class Maker:
    """Makes messages whose every field is a possible one."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def message(self, message: Message, depth: int = 0) -> None:
        descriptor = schema.descriptor_of(message)
        made = self._special(message, schema.form_of(descriptor), depth)
        if made:
            return
        for field in schema.info_of(descriptor).fields:
            if self._chance.random() < (0.5 if depth < 2 else 0.25):
                self._field(message, field, depth)

    def _field(self, message: Any, field: FieldInfo, depth: int) -> None:
        if field.message is None:
            if field.is_map:
                getattr(message, field.name)[self._chance.choice(TEXTS)] = self._scalar(field)
            elif field.repeated:
                getattr(message, field.name).extend(self._scalar(field) for _ in range(self._chance.randrange(3)))
            else:
                setattr(message, field.name, self._scalar(field))
            return
        if depth > 7 and (field.pointer or field.repeated or field.is_map):
            return
        target = getattr(message, field.name)
        if field.is_map:
            self.message(target[self._chance.choice(TEXTS)], depth + 1)
        elif field.repeated:
            for _ in range(self._chance.randrange(3)):
                self.message(target.add(), depth + 1)
        else:
            target.SetInParent()
            self.message(target, depth + 1)
            if field.pointer and codec.to_json(target) is None:
                message.ClearField(field.name)  # Kubernetes shows such a pointer as null, and reads null as none

    def _scalar(self, field: FieldInfo) -> Any:
        match field.scalar:
            case "string":
                return self._chance.choice(TEXTS)
            case "bool":
                return self._chance.random() < 0.5
            case "bytes":
                return self._chance.randbytes(3)
            case "double":
                return self._chance.choice((0.0, 1.5, -2.0, 1e20))
            case "int32":
                return self._chance.choice((0, 1, -1, 2**31 - 1, -(2**31)))
            case _:
                return self._chance.choice((0, 1, -1, 2**63 - 1, -(2**63)))

    def _special(self, message: Any, form: int, depth: int) -> bool:
        choice = self._chance.choice
        if form == schema.TIME:
            if choice((True, False)):
                message.seconds, message.nanos = choice((0, 1, -1, 1767323045)), 0
        elif form == schema.MICRO_TIME:
            if choice((True, False)):
                message.seconds, message.nanos = choice((0, 1, -1, 1767323045)), choice((0, 1000, 999_999_000))
        elif form == schema.DURATION:
            message.duration = choice((0, 1, -1, 10**9, 3_661_500_000_000))
        elif form == schema.QUANTITY:
            message.string = choice(QUANTITIES)
        elif form == schema.INT_OR_STRING:
            if choice((True, False)):
                message.type, message.strVal = 1, choice(TEXTS)
            else:
                message.intVal = choice((0, 80, -1))
        elif form == schema.RAW_JSON:
            message.raw = choice((b"{}", b'{"a":[1,2.5,null,"x"]}', b'"text"', b"7"))
        elif form == schema.SCHEMA_OR_BOOL:
            message.allows = choice((True, False))
            if message.allows and depth < 7:
                self.message(message.schema, depth + 1)
                message.schema.SetInParent()
        elif form in (schema.SCHEMA_OR_ARRAY, schema.SCHEMA_OR_STRING_ARRAY):
            self.message(message.schema, depth + 1)
            message.schema.SetInParent()
        else:
            return False
        return True


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: f"{kind.api_version}-{kind.kind}")
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_round_trips(kind: kinds.Kind, seed: int) -> None:
    message = kind.message()
    Maker(seed).message(message)
    canonical = codec.canonical_bytes(message)
    document = codec.to_json(message)
    assert codec.canonical_bytes(kind.message.FromString(canonical)) == canonical
    assert codec.to_json(kind.message.FromString(canonical)) == document
    for data in (document, codec.to_json_bytes(message)):
        again = codec.from_json(data, kind.message, validation="Strict").message
        assert codec.canonical_bytes(again) == canonical
        assert codec.to_json(again) == document
    if kind.stored and kind.kind != "CustomResourceDefinition":  # its old version cannot hold every nonsense
        assert codec.to_json(storage.decode(storage.encode(message))) == document


@settings(max_examples=60)
@given(kind=st.sampled_from(kinds.KINDS), seed=st.integers(0, 2**32))
def test_yaml_round_trips(kind: kinds.Kind, seed: int) -> None:
    message = kind.message()
    Maker(seed).message(message)
    again = codec.from_yaml(codec.to_yaml(codec.to_json(message)), kind.message, validation="Strict").message
    assert codec.canonical_bytes(again) == codec.canonical_bytes(message)
