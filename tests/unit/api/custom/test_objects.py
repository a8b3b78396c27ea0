"""Objects that bring their own coding along, beside messages."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.support.definitions import definition
from wharfinger.api import codec, fields, kinds, ownership, patch, storage, tables, validation
from wharfinger.api.custom import PrinterColumn, bare_kind, kind_of
from wharfinger.api.custom.paths import SimplePath
from wharfinger.api.errors import BadRequestError, InvalidError


def lamps() -> Any:
    made = definition("x.example.com")
    return kind_of(made, made.spec.versions[0], names=made.spec.names)


def lamp(kind: Any, **content: Any) -> Any:
    value = {"apiVersion": kind.api_version, "kind": "Lamp", "metadata": {"name": "a", "namespace": "d"}, **content}
    return codec.from_json(value, kind.message).message


def test_it_is_handled_like_a_message() -> None:
    kind = lamps()
    obj = lamp(kind, spec={"n": 1})
    assert kinds.of(obj) is kind
    assert codec.to_json(obj)["spec"] == {"n": 1}
    copy = kind.message()
    copy.CopyFrom(obj)
    copy.metadata.labels["x"] = "y"
    copy.content = {"spec": {"n": 2}}
    assert obj.content == {"spec": {"n": 1}}
    assert not obj.metadata.labels
    read = kind.message.FromString(copy.SerializeToString())
    assert (read.content, dict(read.metadata.labels)) == ({"spec": {"n": 2}}, {"x": "y"})
    assert validation.validate_create(obj) == []
    assert fields.value(obj, "metadata.name") == "a"
    assert [column.name for column in tables.table_for(kind).columns] == ["Name", "Age"]


def test_what_is_read() -> None:
    kind = lamps()
    value = {"apiVersion": kind.api_version, "kind": "Lamp", "metadata": {"name": "a", "nmae": "b"}}
    assert [str(issue) for issue in codec.from_json(value, kind.message).issues] == ['unknown field "metadata.nmae"']
    with pytest.raises(BadRequestError, match="strict"):
        codec.from_json(value, kind.message, validation="Strict")
    doubled = b'{"apiVersion":"x.example.com/v1","kind":"Lamp","spec":{"a":1,"a":2}}'
    assert [str(issue) for issue in codec.from_json(doubled, kind.message).issues] == ['duplicate field "spec.a"']
    for wrong in ({}, {"kind": "Lamp"}, {"kind": "Lamp", "apiVersion": "x.example.com/v2"}, {**value, "metadata": []}):
        with pytest.raises(BadRequestError):
            codec.from_json(wrong, kind.message)
    other = codec.from_json({**value, "kind": "Candle"}, kind.message).message
    with pytest.raises(InvalidError) as refused:
        validation.validate_create(other)
    assert refused.value.kind == "Candle"


def test_patches_leave_the_old_object_alone() -> None:
    obj = lamp(lamps(), spec={"list": [1], "n": 1})
    new = patch.apply(obj, b'[{"op":"add","path":"/spec/list/-","value":2}]', "json").message
    assert (obj.content["spec"]["list"], new.content["spec"]["list"]) == ([1], [1, 2])
    assert patch.apply(obj, b'{"spec":{"n":null}}', "merge").message.content == {"spec": {"list": [1]}}


def test_owners_of_fields_without_a_schema_are_deduced() -> None:
    kind = lamps()
    applied = ownership.Applied(
        {"apiVersion": kind.api_version, "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"m": {"k": 1}, "l": [1]}},
        "me",
    )
    made = ownership.apply(applied, None, kind.message)
    (entry,) = made.metadata.managedFields
    assert codec.to_json(entry)["fieldsV1"] == {"f:spec": {".": {}, "f:l": {}, "f:m": {".": {}, "f:k": {}}}}


def test_versions_are_added_to_json() -> None:
    obj = lamp(lamps(), spec={})
    raw = storage.with_resource_version(obj.SerializeToString(), 17)
    assert type(obj).FromString(raw).metadata.resourceVersion == "17"


def test_classes_end_with_their_last_object() -> None:
    kind = lamps()
    obj = lamp(kind)
    gone = weakref.ref(kind.message)
    del kind, obj
    gc.collect()
    assert gone() is None


def test_kinds_of_clients_know_no_schema() -> None:
    kind = bare_kind(
        group="x.example.com", version="v1", kind="Lamp", resource="lamps", namespaced=True,
        columns=[PrinterColumn("Watts", "integer", ".spec.watts"), PrinterColumn("Free", "string", ".spec.free")],
    )  # fmt: skip
    obj = lamp(kind, spec={"watts": 5, "free": {"a": [1]}})
    assert list(tables.table_for(kind).row(obj, 0.0)) == ["a", 5, '{"a":[1]}']


def test_simple_paths() -> None:
    path = SimplePath.parse(".spec.a.b")
    content: dict[str, Any] = {"spec": {"x": 1}}
    changed = path.set(content, 3)
    assert (path.get(content), path.get(changed)) == (None, 3)
    assert content == {"spec": {"x": 1}}
    assert str(path) == ".spec.a.b"
