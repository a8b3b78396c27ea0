"""Pruning, defaulting and judging by schemas."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api.custom import celrules, shaping, values
from wharfinger.api.custom.schema import of_json
from wharfinger.api.validation.errors import Errors

KEEP = "x-kubernetes-preserve-unknown-fields"


def pruned(source: dict[str, Any], value: Any) -> tuple[Any, list[str]]:
    content = shaping.copy(value)
    found = shaping.prune(content, of_json(source))
    return content, [issue.path for issue in found]


def test_pruning() -> None:
    source = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "free": {"type": "object", KEEP: True, "properties": {"known": {"type": "object", "properties": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {}}}},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {KEEP: True}}},
        },
    }
    value = {
        "a": "1", "b": 1, "list": [{"x": 1, "y": 2}], "free": {"any": {"thing": 1}, "known": {"q": 1}},
        "map": {"k": {"x": 1, "y": 2}}, "inner": {"kind": "K", "metadata": {"q": 1}, "spec": {"z": 1}, "other": 1},
    }  # fmt: skip
    kept, unknown = pruned(source, value)
    assert kept == {
        "a": "1", "list": [{"x": 1}], "free": {"any": {"thing": 1}, "known": {}}, "map": {"k": {"x": 1}},
        "inner": {"kind": "K", "metadata": {"q": 1}, "spec": {"z": 1}},
    }  # fmt: skip
    assert unknown == ["b", "list[0].y", "free.known.q", "map.k.y", "inner.other"]
    assert pruned({"type": "object", KEEP: True}, {"x": {"y": 1}}) == ({"x": {"y": 1}}, [])


def test_null_and_defaults() -> None:
    source = {
        "type": "object",
        "properties": {
            "foo": {"type": "string", "default": "d"},
            "bar": {"type": "string", "nullable": True},
            "baz": {"type": "string"},
            "deep": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 3}}},
            "list": {
                "type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "T"}}}
            },
            "map": {"type": "object", "additionalProperties": {"type": "string", "default": "v"}},
        },
    }  # fmt: skip
    schema = of_json(source)
    value: dict[str, Any] = {"foo": None, "bar": None, "baz": None, "list": [{}], "map": {"k": None}}
    shaping.drop_nulls(value, schema)
    shaping.fill_defaults(value, schema)
    assert value == {"foo": "d", "bar": None, "deep": {"n": 3}, "list": [{"p": "T"}], "map": {"k": "v"}}
    value["deep"]["n"] = 4
    again: dict[str, Any] = {}
    shaping.fill_defaults(again, schema)
    assert again["deep"] == {"n": 3}


def causes(schema: dict[str, Any], value: Any, **more: Any) -> list[tuple[str, str]]:
    errors = Errors()
    values.validate(value, of_json(schema), errors, path="v", **more)
    return [(error.field, error.reason.removeprefix("FieldValue")) for error in errors]


@pytest.mark.parametrize(
    ("schema", "good", "bad", "reason"),
    [
        ({"type": "integer"}, [1, 1.0, -3], ["1", 1.5, True, {}, None], "TypeInvalid"),
        ({"type": "number"}, [1, 1.5], ["1", False], "TypeInvalid"),
        ({"type": "boolean"}, [True], [1, "true"], "TypeInvalid"),
        ({"type": "string", "nullable": True}, [None, "a"], [1], "TypeInvalid"),
        ({"x-kubernetes-int-or-string": True}, [1, "a"], [1.5, True, {}], "TypeInvalid"),
        ({"type": "string", "maxLength": 2}, ["éé"], ["abc"], "TooLong"),
        ({"type": "string", "minLength": 2}, ["ab"], ["a"], "Invalid"),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["ab"], ["A", "a\n", ""], "Invalid"),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c"], "NotSupported"),
        ({"type": "integer", "enum": [1]}, [1], [2], "NotSupported"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4], "Invalid"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1], "Invalid"),
        ({"type": "number", "multipleOf": 0.1}, [0.3, 1], [0.25], "Invalid"),
        ({"type": "integer", "format": "int32"}, [1], [1 << 31], "Invalid"),
        ({"type": "array", "items": {}, "maxItems": 1}, [[1]], [[1, 2]], "TooMany"),
        ({"type": "array", "items": {}, "minItems": 1}, [[1]], [[]], "Invalid"),
        ({"type": "object", "additionalProperties": {}, "maxProperties": 1}, [{"a": 1}], [{"a": 1, "b": 2}], "TooMany"),
        ({"type": "object", "minProperties": 1}, [{"a": 1}], [{}], "Invalid"),
        ({"type": "string", "format": "ipv4"}, ["1.2.3.4"], ["1.2.3"], "TypeInvalid"),
        ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["x"], "TypeInvalid"),
        ({"type": "string", "format": "date"}, ["2026-01-31"], ["2026-02-31", "1"], "TypeInvalid"),
        ({"type": "string", "format": "duration"}, ["1m30s"], ["x"], "TypeInvalid"),
        ({"type": "string", "format": "byte"}, ["YQ=="], ["="], "TypeInvalid"),
        ({"type": "string", "format": "hostname"}, ["a.example.com"], ["-a", ""], "TypeInvalid"),
        ({"type": "string", "format": "email"}, ["a@b.c"], ["a"], "TypeInvalid"),
        ({"type": "string", "format": "not-checked"}, ["anything"], [], ""),
    ],
)  # fmt: skip
def test_keywords(schema: dict[str, Any], good: list[Any], bad: list[Any], reason: str) -> None:
    for value in good:
        assert causes(schema, value) == [], value
    for value in bad:
        assert causes(schema, value) == [("v", reason)], value


def test_paths() -> None:
    schema = {
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": "string"}, "l": {"type": "array", "items": {"type": "object", "required": ["x"]}}},
        "additionalProperties": {"type": "integer"},
    }  # fmt: skip
    assert causes(schema, {"l": [{"x": 1}, {}], "other": "1"}) == [
        ("v.a", "Required"), ("v.l[1].x", "Required"), ("v.other", "TypeInvalid"),
    ]  # fmt: skip


def test_combinations() -> None:
    either = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}
    assert causes(either, {"a": 1}) == []
    assert causes(either, {"a": 1, "b": 1}) == [("<nil>", "Invalid")]
    assert causes(either, {}) == [("<nil>", "Invalid"), ("v.a", "Required")]
    some = {"anyOf": [{"minimum": 10}, {"maximum": 1}], "type": "integer"}
    assert causes(some, 0) == []
    assert causes(some, 5) == [("<nil>", "Invalid"), ("v", "Invalid")]
    both = {"allOf": [{"minimum": 2}, {"maximum": 4}], "type": "integer"}
    assert causes(both, 3) == []
    assert [field for field, _ in causes(both, 5)] == ["v", "<nil>"]
    assert causes({"not": {"enum": ["x"]}, "type": "string"}, "x") == [("<nil>", "Invalid")]


def test_what_stays_is_not_judged_again() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "integer"}}}
    old = {"a": "long", "b": 1}
    assert causes(schema, {"a": "long", "b": 2}, old=old) == []
    assert causes(schema, {"a": "longer", "b": 1}, old=old) == [("v.a", "TooLong")]
    assert causes(schema, {"a": "long", "b": True}, old=old) == [("v.b", "TypeInvalid")]
    keyed = {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}},
    }  # fmt: skip
    assert causes(keyed, [{"k": "n", "v": 1}, {"k": "a", "v": 5}], old=[{"k": "a", "v": 5}]) == []


def ruled(schema: dict[str, Any], value: Any, **more: Any) -> list[tuple[str, str, str]]:
    errors = Errors()
    celrules.run(value, of_json({"type": "object", "properties": {"spec": schema}}), errors, **more)
    return [(error.field, error.reason.removeprefix("FieldValue"), error.message) for error in errors]


def test_rules() -> None:
    schema = {
        "type": "object",
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "when": {"type": "string", "format": "date-time"},
            "name": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "name is immutable", "reason": "FieldValueForbidden"}]},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}},
                      "x-kubernetes-validations": [{"rule": "self.n > 0.5"}]}},
        },
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "messageExpression": "'%d is more than %d'.format([self.min, self.max])",
             "fieldPath": ".min"},
            {"rule": "!has(self.when) || self.when.getFullYear() > 2000"},
        ],
    }  # fmt: skip
    good = {"min": 1, "max": 2, "when": "2026-01-01T00:00:00Z", "name": "a", "parts": [{"n": 1}]}
    assert ruled(schema, {"spec": good}) == []
    wrong = ruled(schema, {"spec": {**good, "min": 3, "when": "1999-01-01T00:00:00Z", "parts": [{"n": 0}, {}]}})
    assert [(field, reason) for field, reason, _ in wrong] == [
        ("spec.min", "Invalid"), ("spec", "Invalid"), ("spec.parts[0]", "Invalid"), ("spec.parts[1]", "Invalid"),
    ]  # fmt: skip
    assert "3 is more than 2" in wrong[0][2]
    assert "failed rule: " in wrong[1][2]
    assert "no such key" in wrong[3][2]
    changed = ruled(schema, {"spec": {**good, "name": "b"}}, old={"spec": good})
    assert changed == [("spec.name", "Forbidden", "Forbidden: name is immutable")]


def test_rules_wait_for_a_valid_object() -> None:
    errors = Errors()
    errors.required("spec.a")
    schema = of_json({"type": "object", "x-kubernetes-validations": [{"rule": "self.q"}]})
    celrules.run({"metadata": {}}, schema, errors)
    assert [error.field for error in errors] == ["spec.a", "<nil>"]


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"rule": ""}, "rule"),
        ({"rule": "self.nope > 1"}, "rule"),
        ({"rule": "self.l.all(x, x.nope)"}, "rule"),
        ({"rule": "self.a >"}, "rule"),
        ({"rule": "foo(self)"}, "rule"),
        ({"rule": "self.a == 'x'", "messageExpression": "1 +"}, "messageExpression"),
        ({"rule": "self.a == 'x'", "reason": "Nonsense"}, "reason"),
        ({"rule": "self.a == 'x'", "optionalOldSelf": True}, "optionalOldSelf"),
        ({"rule": "self.a == 'x'", "message": "a\nb"}, "message"),
    ],
)
def test_rules_in_definitions(rule: dict[str, Any], field: str) -> None:
    schema = of_json(
        {"type": "object", "properties": {
            "a": {"type": "string"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}}}}
    )  # fmt: skip
    errors = Errors()
    celrules.check((rule,), schema, errors, "s", correlated=True)
    assert [error.field for error in errors] == [f"s.x-kubernetes-validations[0].{field}"]


def test_old_values_are_not_known_everywhere() -> None:
    errors = Errors()
    celrules.check(({"rule": "self == oldSelf"},), of_json({"type": "string"}), errors, "s", correlated=False)
    assert len(errors) == 1
