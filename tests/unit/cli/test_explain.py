"""The text of ``wharf explain``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.definitions import definition
from wharfinger.api.custom import kind_of
from wharfinger.api.openapi.customs import CustomModel
from wharfinger.api.openapi.schemas import Schemas
from wharfinger.cli.explain import render
from wharfinger.cli.failures import CommandError

SCHEMA = {
    "type": "object",
    "description": "A lamp.",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["watts"],
            "properties": {
                "watts": {"type": "integer", "description": "How bright it is."},
                "hue": {"type": "string", "enum": ["warm", "cold"]},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "port": {"x-kubernetes-int-or-string": True},
            },
        }
    },
}


def explained(*fields: str, recursive: bool = False) -> str:
    from wharfinger.api import codec
    from wharfinger.api.types import apiextensions

    made = definition("x.example.com")
    schema: Any = codec.from_json(SCHEMA, apiextensions.JSONSchemaProps).message
    made.spec.versions[0].schema.openAPIV3Schema.CopyFrom(schema)
    kind = kind_of(made, made.spec.versions[0], names=made.spec.names)
    schemas = Schemas(v3=True)
    root = schemas.of_custom(CustomModel(kind))["$ref"].rpartition("/")[2]
    return "".join(render(kind, schemas.definitions, root, list(fields), recursive=recursive))


def test_a_kind() -> None:
    text = explained()
    assert text.startswith(
        "GROUP:      x.example.com\nKIND:       Lamp\nVERSION:    v1\n\nDESCRIPTION:\n    A lamp.\nFIELDS:\n"
    )
    assert "  metadata\t<ObjectMeta>\n" in text
    assert "  spec\t<Object>\n    <no description>\n" in text


def test_fields() -> None:
    text = explained("spec")
    assert "FIELD: spec <Object>\n" in text
    assert "  watts\t<integer> -required-\n    How bright it is.\n" in text
    assert "  hue\t<string>\n  ENUM:\n      warm\n      cold\n" in text
    assert "  parts\t<[]Object>\n" in text
    assert "  labels\t<map[string]string>\n" in text
    assert "  port\t<IntOrString>\n" in text
    assert "FIELD: id <string>\n" in explained("spec", "parts", "id")
    with pytest.raises(CommandError, match='field "nope" does not exist'):
        explained("spec", "nope")


def test_recursive() -> None:
    text = explained(recursive=True)
    assert "  spec\t<Object>\n    hue\t<string>\n" in text
    assert "    parts\t<[]Object>\n      id\t<string>\n" in text
    assert "no description" not in text
