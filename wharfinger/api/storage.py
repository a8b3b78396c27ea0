"""Objects as they lie in etcd: ``k8s\\0`` and a ``runtime.Unknown`` envelope around the object's own bytes.

This is Kubernetes' storage format, so a real kube-apiserver can read what we write and the other way round. Custom
resources and their definitions are stored as JSON instead (:mod:`wharfinger.api.storedjson`).

``python -m wharfinger.api.storage check FILE`` checks a corpus of stored objects (:mod:`wharfinger.api.storagecheck`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from wharfinger.api import codec, kinds, storedjson
from wharfinger.api.errors import InternalError
from wharfinger.api.types import apiextensions, runtime
from wharfinger.api.unreadable import Unreadable

if TYPE_CHECKING:
    from google.protobuf.message import Message

PREFIX = b"k8s\0"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


@cache
def _head(api_version: str, kind: str) -> bytes:
    inner = b"\n" + _varint(len(api_version)) + api_version.encode() + b"\x12" + _varint(len(kind)) + kind.encode()
    return PREFIX + b"\n" + _varint(len(inner)) + inner + b"\x12"


_TAIL = b"\x1a\x00\x22\x00"


def wrap(api_version: str, kind: str, raw: bytes) -> bytes:
    """Put an object's own bytes into the envelope."""
    return _head(api_version, kind) + _varint(len(raw)) + raw + _TAIL


def encode(message: Message) -> bytes:
    """Return the value that Kubernetes would store for an object."""
    if isinstance(message, apiextensions.CustomResourceDefinition):
        return storedjson.encode_definition(message)
    kind = kinds.of(message)
    return wrap(kind.api_version, kind.kind, codec.canonical_bytes(message))


def unwrap(value: bytes) -> tuple[str, str, bytes]:
    """Return apiVersion, kind and the object's own bytes. Raises InternalError for what is no envelope."""
    if value[:4] != PREFIX:
        if isinstance(value, Unreadable):
            raise value.error()
        raise InternalError(f"a stored value starts with {value[:16]!r}, not with {PREFIX!r}")
    try:
        unknown = runtime.Unknown.FromString(value[4:])
    except DecodeError as error:
        raise InternalError(f"a stored value has a broken envelope: {error}") from error
    return unknown.typeMeta.apiVersion, unknown.typeMeta.kind, unknown.raw


def decode(value: bytes) -> Message:
    """Return the object that a stored value holds. Raises InternalError when it is broken or of an unknown kind."""
    if value[:1] == b"{":
        document = storedjson.decode_json(value)
        if not _is_definition(document):
            raise InternalError(f"a stored {document.get('kind')} is a custom resource, which has no message class")
        return storedjson.decode_definition(document)
    api_version, name, raw = unwrap(value)
    kind = kinds.by_kind(api_version, name)
    if kind is None:
        raise InternalError(f"a stored value is a {name} of {api_version}, which the schema does not know")
    try:
        return kind.message.FromString(raw)
    except DecodeError as error:
        raise InternalError(f"a stored {name} is broken: {error}") from error


def _is_definition(document: dict[str, Any]) -> bool:
    version = str(document.get("apiVersion"))
    return document.get("kind") == "CustomResourceDefinition" and version.startswith(f"{storedjson.GROUP}/")


def is_custom(value: bytes) -> bool:
    """Whether a stored value is a custom resource, which is no message but JSON."""
    return value[:1] == b"{" and not _is_definition(storedjson.decode_json(value))


def encode_custom(resource: dict[str, Any]) -> bytes:
    """Return the value that Kubernetes would store for a custom resource."""
    return storedjson.encode_custom(resource)


def decode_custom(value: bytes) -> dict[str, Any]:
    """Return the custom resource that a stored value holds. Raises InternalError when it is no JSON object."""
    return storedjson.decode_json(value)


def with_resource_version(raw: bytes, revision: int) -> bytes:
    """Return an object's bytes with ``metadata.resourceVersion`` set, without decoding them.

    Protobuf merges a message that stands twice and lets the last scalar win, and metadata is field 1 of every kind;
    so a few bytes at the end do it. The JSON of a custom object is read and written anew. What is not stored has
    revision 0 and stays without.
    """
    if not revision:
        return raw
    if raw[:1] == b"{":
        return storedjson.with_resource_version(raw, str(revision))
    version = str(revision).encode()
    size = len(version)
    return raw + bytes((10, size + 2, 50, size)) + version


if __name__ == "__main__":
    import sys

    from wharfinger.api.storagecheck import main

    sys.exit(main(sys.argv[1:]))
