"""Which schemas definitions may have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.definitions import definition
from wharfinger.api import codec, validation
from wharfinger.api.types import apiextensions

PATH = "spec.validation.openAPIV3Schema"


def causes(schema: dict[str, Any], **version: Any) -> list[tuple[str, str]]:
    document = codec.to_json(definition("x.example.com"))
    document["spec"]["versions"][0] |= {"schema": {"openAPIV3Schema": {"type": "object", **schema}}, **version}
    document["spec"]["conversion"] = {"strategy": "None"}
    found = codec.from_json(document, apiextensions.CustomResourceDefinition).message
    return [
        (cause.field.removeprefix(f"{PATH}."), cause.reason.removeprefix("FieldValue"))
        for cause in validation.validate_create(found)
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "default": "x"}}},
        {
            "properties": {
                "a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}
            }
        },
        {"properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}},
        {
            "properties": {"a": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"properties": {"a": {"enum": ["x"]}}}],
        },
        {
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                }
            }
        },
        {
            "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.a > 1 && has(self.metadata)"}],
        },
    ],
)
def test_accepted(schema: dict[str, Any]) -> None:
    assert causes(schema) == []


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"properties": {"a": {"type": "string", "default": 1}}}, ("properties[a].default", "TypeInvalid")),
        (
            {"properties": {"a": {"type": "string", "default": "x", "enum": ["y"]}}},
            ("properties[a].default", "NotSupported"),
        ),
        (
            {"properties": {"a": {"type": "object", "default": {"q": 1}, "properties": {}}}},
            ("properties[a].default", "Invalid"),
        ),
        (
            {"properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
            ("properties[metadata]", "Forbidden"),
        ),
        ({"properties": {"kind": {"type": "integer"}}}, ("properties[kind].type", "Invalid")),
        (
            {"properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": True}}},
            ("properties[a].properties", "Required"),
        ),
        ({"anyOf": [{"properties": {"b": {"minimum": 1}}}]}, ("properties[b]", "Required")),
        (
            {
                "properties": {
                    "l": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                    }
                }
            },
            ("properties[l].items.properties[k].default", "Required"),
        ),
        (
            {
                "properties": {
                    "l": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "object", "properties": {}},
                    }
                }
            },
            ("properties[l].items.x-kubernetes-map-type", "Invalid"),
        ),
        ({"x-kubernetes-validations": [{"rule": "self.nothing"}]}, ("x-kubernetes-validations[0].rule", "Invalid")),
    ],
)
def test_refused(schema: dict[str, Any], wrong: tuple[str, str]) -> None:
    assert causes(schema) == [wrong]


def test_selectable_fields() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    }

    def field(path: str) -> list[tuple[str, str]]:
        return causes(schema, selectableFields=[{"jsonPath": path}])

    place = "spec.selectableFields[0].jsonPath"
    assert field(".a") == []
    assert [field(path) for path in (".b", ".o", ".metadata.name", "a")] == [[(place, "Invalid")]] * 4


def test_groups_of_kubernetes_need_approval() -> None:
    found = definition("things.k8s.io")
    found.spec.conversion.strategy = "None"
    assert [cause.field for cause in validation.validate_create(found)] == [
        "metadata.annotations[api-approved.kubernetes.io]"
    ]
    found.metadata.annotations["api-approved.kubernetes.io"] = "unapproved, a test"
    assert validation.validate_create(found) == []
