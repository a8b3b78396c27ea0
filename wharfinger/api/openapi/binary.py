"""The OpenAPI v2 document as protobuf, the only form in which kubectl asks for it.

The message types are those of ``openapi.v2`` (github.com/google/gnostic, ``openapiv2/OpenAPIv2.proto``); what is
written here is what clients read: definitions with their extensions, operations with their parameters. A document is
written once and never read here, so a few functions do, instead of generated classes for a hundred messages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Of the answer. Clients ask for it with an @ before the version, which no media type may have."""
ACCEPTED = frozenset({CONTENT_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"})
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _field(number, value) if value else b""


def _flag(number: int, value: object) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def _any(value: Any) -> bytes:
    """Encode an ``Any``: its YAML (JSON is YAML)."""
    return _field(2, json.dumps(value) + "\n")


def _extensions(number: int, value: dict[str, Any]) -> bytes:
    found = (name for name in value if name.startswith("x-"))
    return b"".join(_field(number, _field(1, name) + _field(2, _any(value[name]))) for name in found)


def _named(entries: Iterable[tuple[str, bytes]], number: int = 1) -> bytes:
    return b"".join(_field(number, _field(1, name) + _field(2, data)) for name, data in entries)


def _schema(value: dict[str, Any]) -> bytes:
    parts = [
        _text(1, value.get("$ref", "")),
        _text(2, value.get("format", "")),
        _text(4, value.get("description", "")),
    ]
    if "default" in value:
        parts.append(_field(5, _any(value["default"])))
    parts += [_field(19, name) for name in value.get("required", ())]
    parts += [_field(20, _any(item)) for item in value.get("enum", ())]
    if "additionalProperties" in value:
        additional = value["additionalProperties"]
        allowed = _field(1, _schema(additional)) if isinstance(additional, dict) else _flag(2, additional)
        parts.append(_field(21, allowed))
    if "type" in value:
        parts.append(_field(22, _field(1, value["type"])))
    if "items" in value:
        parts.append(_field(23, _field(1, _schema(value["items"]))))
    if "properties" in value:
        properties = ((name, _schema(item)) for name, item in value["properties"].items())
        parts.append(_field(25, _named(properties)))
    parts.append(_extensions(31, value))
    return b"".join(parts)


def _parameter(value: dict[str, Any]) -> bytes:
    """Encode a parameter of the query or path as an item of ``parameters``; a body's is left out."""
    if value["in"] == "body":
        return b""
    common = _text(2, value["in"]) + _text(3, value.get("description", "")) + _text(4, value["name"])
    if value["in"] == "query":
        inner = _field(3, _flag(1, value.get("required")) + common + _text(6, value["type"]))
    else:
        inner = _field(4, _flag(1, value.get("required")) + common + _text(5, value["type"]))
    return _field(1, _field(2, inner))


def _operation(value: dict[str, Any]) -> bytes:
    parts = [_field(1, tag) for tag in value.get("tags", ())]
    parts.append(_text(5, value["operationId"]))
    parts += [_field(6, item) for item in value["produces"]]
    parts += [_field(7, item) for item in value["consumes"]]
    parts += [_field(8, item) for parameter in value["parameters"] if (item := _parameter(parameter))]
    parts.append(_extensions(13, value))
    return b"".join(parts)


def _path_item(value: dict[str, Any]) -> bytes:
    parts = [_field(_METHODS[method], _operation(value[method])) for method in _METHODS if method in value]
    parts += [_field(9, item) for parameter in value.get("parameters", ()) if (item := _parameter(parameter))]
    return b"".join(parts)


def encode(document: dict[str, Any]) -> bytes:
    """Return a v2 document as protobuf."""
    info = document["info"]
    paths = ((name, _path_item(item)) for name, item in document["paths"].items())
    definitions = ((name, _schema(item)) for name, item in document["definitions"].items())
    return b"".join(
        (
            _field(1, document["swagger"]),
            _field(2, _field(1, info["title"]) + _field(2, info["version"])),
            _field(8, _named(paths, 2)),
            _field(9, _named(definitions)),
        )
    )
