"""Objects as they lie in etcd: ``k8s\\0`` and a ``runtime.Unknown`` envelope around the object's own bytes.

This is Kubernetes' storage format, so a real kube-apiserver can read what we write and the other way round.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from wharfinger.api import codec, kinds
from wharfinger.api.errors import InternalError
from wharfinger.api.types import runtime

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
    kind = kinds.of(message)
    return wrap(kind.api_version, kind.kind, codec.canonical_bytes(message))


def unwrap(value: bytes) -> tuple[str, str, bytes]:
    """Return apiVersion, kind and the object's own bytes. Raises InternalError for what is no envelope."""
    if value[:4] != PREFIX:
        raise InternalError(f"a stored value starts with {value[:16]!r}, not with {PREFIX!r}")
    try:
        unknown = runtime.Unknown.FromString(value[4:])
    except Exception as error:
        raise InternalError(f"a stored value has a broken envelope: {error}") from error
    return unknown.typeMeta.apiVersion, unknown.typeMeta.kind, unknown.raw


def decode(value: bytes) -> Message:
    """Return the object that a stored value holds. Raises InternalError when it is broken or of an unknown kind."""
    api_version, name, raw = unwrap(value)
    kind = kinds.by_kind(api_version, name)
    if kind is None:
        raise InternalError(f"a stored value is a {name} of {api_version}, which the schema does not know")
    try:
        return kind.message.FromString(raw)
    except Exception as error:
        raise InternalError(f"a stored {name} is broken: {error}") from error


def with_resource_version(raw: bytes, revision: int) -> bytes:
    """Return an object's bytes with ``metadata.resourceVersion`` set, without decoding them.

    Protobuf merges a message that stands twice and lets the last scalar win, and metadata is field 1 of every kind;
    so a few bytes at the end do it.
    """
    version = str(revision).encode()
    size = len(version)
    return raw + bytes((10, size + 2, 50, size)) + version
