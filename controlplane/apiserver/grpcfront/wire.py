"""Answers made of ready bytes.

A message of the native API is a few tags and lengths around an object's bytes, which are there already. So they are put
around by hand: a fifth of the cost of filling generated messages, and one copy less. Joined ``WatchBatch`` bytes of
single events are a ``WatchBatch`` of all of them, which is what makes a watch cost a microsecond an event.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from controlplane.apiserver.request import JSON, Answer
from wharfinger.api import errors
from wharfinger.api.types import runtime
from wharfinger.proto.native import resources_v1_pb2 as native

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.store import Entry, WatchEvent
    from wharfinger.api.kinds import Kind
    from wharfinger.api.types import meta

_BOOKMARK = int(native.BOOKMARK)
_JSON = JSON.encode()


def parsed(message: Any, data: bytes) -> Any:
    """Read a request message of the class `message`. Raises BadRequestError."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise errors.BadRequestError(
            f"{len(data)} bytes are no {message.DESCRIPTOR.full_name} (fields of the right types, UTF-8): {error}"
        ) from error


def varint(number: int) -> bytes:
    """Encode a number as protobuf does."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(tag: int, data: bytes) -> bytes:
    """Encode a length-delimited field; `tag` is the number times 8 plus 2."""
    return bytes((tag,)) + varint(len(data)) + data


@cache
def _type_meta(api_version: str, kind: str) -> bytes:
    return field(0x0A, runtime.TypeMeta(apiVersion=api_version, kind=kind).SerializeToString())


def object_bytes(answer: Answer, warnings: Iterable[str] = (), *, brief: bool = False) -> bytes:
    """Return the bytes of a native ``Object``."""
    raw = _brief(answer) if brief else answer.raw
    head = _type_meta(answer.kind.api_version, answer.kind.kind)
    size = varint(len(raw))
    tail = b"" if answer.kind.described else field(0x22, _JSON)
    inner = len(head) + 1 + len(size) + len(raw) + len(tail)
    parts = [b"\x0a", varint(inner), head, b"\x12", size, raw, tail]
    for warning in warnings:
        parts.append(field(0x12, warning.encode()))
    return b"".join(parts)


def _brief(answer: Answer) -> bytes:
    metadata = answer.message().metadata  # type: ignore[attr-defined]
    short = answer.kind.message()
    for name in ("name", "namespace", "uid", "resourceVersion", "generation"):
        setattr(short.metadata, name, getattr(metadata, name))  # type: ignore[attr-defined]
    return short.SerializeToString()


def result_bytes(write_id: int, obj: bytes) -> bytes:
    """Return the bytes of a ``WriteResults`` with one success; such bytes may be joined."""
    return field(0x0A, b"\x08" + varint(write_id) + field(0x12, obj))


def error_bytes(write_id: int, status: meta.Status) -> bytes:
    """Return the bytes of a ``WriteResults`` with one failure."""
    return field(0x0A, b"\x08" + varint(write_id) + field(0x1A, status.SerializeToString()))


def event_form(resource: StoredResource) -> str:
    """Return the name under which an event remembers its bytes for this kind."""
    return f"grpc {resource.kind.api_version}{resource.state}"


def event_maker(resource: StoredResource) -> object:
    """Return the function that makes the bytes of a ``WatchBatch`` with one event."""

    form = b"" if resource.kind.described else field(0x12, _JSON)

    def make(event: WatchEvent) -> bytes:
        kind = int(event.type)
        head = bytes((0x08, kind))
        tail = b"\x18" + varint(event.revision)
        if kind == _BOOKMARK:
            return field(0x0A, head + tail)
        return field(0x0A, head + field(0x12, resource.raw(event.entry)) + tail) + form

    return make


def initial_end(revision: int) -> bytes:
    """Return the bytes of a ``WatchBatch`` with the bookmark that ends the initial events."""
    return field(0x0A, bytes((0x08, _BOOKMARK, 0x18)) + varint(revision) + b"\x20\x01")


def error_event(status: meta.Status) -> bytes:
    """Return the bytes of a ``WatchBatch`` that ends a watch with an error."""
    return field(0x0A, bytes((0x08, int(native.ERROR))) + field(0x12, status.SerializeToString()))


def items(resource: StoredResource, entries: Iterable[Entry]) -> list[bytes]:
    """Return the ``items`` fields of a ``ListChunk``."""
    raw = resource.raw
    return [field(0x22, raw(entry)) for entry in entries]


def chunk_head(kind: Kind, revision: int) -> bytes:
    """Return what the first chunk of a list begins with."""
    type_meta = runtime.TypeMeta(apiVersion=kind.api_version, kind=kind.kind).SerializeToString()
    head = field(0x0A, str(revision).encode()) + field(0x2A, type_meta)
    return head if kind.described else head + field(0x32, _JSON)


def bound(pods: Kind, namespace: str, pod: str, revision: int) -> bytes:
    """Return the ``Object`` that answers a bind in the write stream: the pod's name and version alone."""
    message = pods.message()
    metadata = message.metadata  # type: ignore[attr-defined]
    metadata.namespace, metadata.name, metadata.resourceVersion = namespace, pod, str(revision)
    return object_bytes(Answer(pods, message.SerializeToString(), revision))
