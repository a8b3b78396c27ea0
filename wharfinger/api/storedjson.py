"""What Kubernetes stores as JSON: custom resources, and their definitions in an old version.

Custom resources lie in etcd as JSON with sorted keys. A CustomResourceDefinition still lies there as ``v1beta1``, where
what all versions have in common stands beside them (schema, subresources, columns), so that an old server could read
it. Both are written by Go's JSON encoder, whose escapes and numbers are its own; :func:`go_json` writes the same bytes.
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from wharfinger.api.codec.decode import from_json
from wharfinger.api.codec.encode import to_json
from wharfinger.api.errors import InternalError
from wharfinger.api.types import apiextensions
from wharfinger.api.unreadable import Unreadable

GROUP = "apiextensions.k8s.io"
STORED_VERSION = f"{GROUP}/v1beta1"

_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""Field of a version to the field of the spec that holds it when all versions agree."""
_SPEC_ORDER = (
    "group", "version", "names", "scope", "validation", "subresources", "versions", "additionalPrinterColumns",
    "conversion", "preserveUnknownFields", "selectableFields",
)  # fmt: skip
_VERSION_ORDER = (
    "name", "served", "storage", "deprecated", "deprecationWarning", "schema", "subresources",
    "additionalPrinterColumns", "selectableFields",
)  # fmt: skip
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = {character.encode(): escape.encode() for character, escape in _ESCAPES.items()}


def go_json(value: Any, *, sort_keys: bool = False) -> bytes:
    """Write JSON as Go's encoder does, with the line feed that ends each stored value."""
    data = orjson.dumps(_numbers(value), option=orjson.OPT_SORT_KEYS if sort_keys else None)
    for character, escape in _ESCAPED.items():
        if character in data:
            data = data.replace(character, escape)
    return data + b"\n"


def _numbers(value: Any) -> Any:
    """Put each float into the form in which Go writes it; other values stay the same objects."""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        return {name: _numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


def _number(value: float) -> Any:
    if value == 0:
        return orjson.Fragment(b"-0") if math.copysign(1, value) < 0 else 0
    size = abs(value)
    if 1e-6 <= size < 1e21:
        if value == int(value):
            return orjson.Fragment(str(int(value)).encode())
        text = repr(value)
        return value if "e" not in text else orjson.Fragment(_positional(text).encode())
    mantissa, _, exponent = f"{value!r}".partition("e")
    mantissa = mantissa.removesuffix(".0")
    return orjson.Fragment(f"{mantissa}e{int(exponent):+d}".encode())


def _positional(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{digits.replace('.', '')}"


# --- custom resources -------------------------------------------------------------------------------------------------


def encode_custom(resource: dict[str, Any]) -> bytes:
    """Return the stored value of a custom resource; its resourceVersion is not stored."""
    metadata = {name: value for name, value in resource.get("metadata", {}).items() if name != "resourceVersion"}
    return go_json({**resource, "metadata": metadata}, sort_keys=True)


def with_resource_version(raw: bytes, version: str) -> bytes:
    """Return the JSON of a custom object with its ``metadata.resourceVersion`` set."""
    document = orjson.loads(raw)
    document["metadata"]["resourceVersion"] = version
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def decode_json(value: bytes) -> dict[str, Any]:
    """Return the object of a value stored as JSON. Raises InternalError when it is none."""
    if isinstance(value, Unreadable):
        raise value.error()
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InternalError(f"a stored value is neither protobuf nor JSON: {error}") from error
    if not isinstance(found, dict):
        raise InternalError("a stored value is JSON, but no object")
    return found


# --- their definitions ------------------------------------------------------------------------------------------------


def encode_definition(definition: apiextensions.CustomResourceDefinition) -> bytes:
    """Return the stored value of a CustomResourceDefinition."""
    document = to_json(definition)
    document["apiVersion"] = STORED_VERSION
    spec = document["spec"]
    versions = spec["versions"] or []
    if versions:
        spec["version"] = versions[0]["name"]
        for field, place in _SHARED.items():
            first = versions[0].get(field)
            if all(version.get(field) == first for version in versions):
                for version in versions:
                    version.pop(field, None)
                if first is not None:
                    spec[place] = first
    for columns in (spec.get("additionalPrinterColumns"), *(item.get("additionalPrinterColumns") for item in versions)):
        for column in columns or ():
            column["JSONPath"] = column.pop("jsonPath")
    if spec.get("conversion"):
        spec["conversion"] = _old_conversion(spec["conversion"])
    spec.setdefault("preserveUnknownFields", False)
    spec["versions"] = [_ordered(version, _VERSION_ORDER) for version in versions] or None
    document["spec"] = _ordered(spec, _SPEC_ORDER)
    return go_json(document)


def decode_definition(document: dict[str, Any]) -> apiextensions.CustomResourceDefinition:
    """Return the definition that a stored JSON object holds, in whichever version."""
    if document.get("apiVersion") == STORED_VERSION:
        document = {**document, "apiVersion": f"{GROUP}/v1", "spec": _new_spec(document.get("spec") or {})}
    return from_json(document, apiextensions.CustomResourceDefinition, validation="Ignore").message


def _ordered(value: dict[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    return {name: value[name] for name in order if name in value}


def _old_conversion(conversion: dict[str, Any]) -> dict[str, Any]:
    old: dict[str, Any] = {"strategy": conversion["strategy"]}
    webhook = conversion.get("webhook")
    if webhook:
        if webhook.get("clientConfig"):
            old["webhookClientConfig"] = _ordered(webhook["clientConfig"], ("url", "service", "caBundle"))
        if webhook.get("conversionReviewVersions"):
            old["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return old


def _new_spec(old: dict[str, Any]) -> dict[str, Any]:
    spec = {name: value for name, value in old.items() if name not in ("version", *_SHARED.values())}
    versions = [dict(version) for version in old.get("versions") or ()]
    if not versions and old.get("version"):
        versions = [{"name": old["version"], "served": True, "storage": True}]
    for version in versions:
        for field, place in _SHARED.items():
            if version.get(field) is None and old.get(place) is not None:
                version[field] = old[place]
        if version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [
                {"jsonPath" if name == "JSONPath" else name: value for name, value in column.items()}
                for column in version["additionalPrinterColumns"]
            ]
    spec["versions"] = versions
    conversion = old.get("conversion")
    if conversion:
        spec["conversion"] = {"strategy": conversion.get("strategy", "None")}
        webhook = {
            "clientConfig": conversion.get("webhookClientConfig"),
            "conversionReviewVersions": conversion.get("conversionReviewVersions"),
        }
        if any(webhook.values()):
            spec["conversion"]["webhook"] = webhook
    return spec
