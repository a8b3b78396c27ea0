"""What the descriptors say about each message, read once and kept: the input of every compiler in this package."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor

from wharfinger.api import kinds
from wharfinger.proto import options_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

OBJECT: int = options_pb2.OBJECT
TIME: int = options_pb2.TIME
MICRO_TIME: int = options_pb2.MICRO_TIME
DURATION: int = options_pb2.DURATION
QUANTITY: int = options_pb2.QUANTITY
INT_OR_STRING: int = options_pb2.INT_OR_STRING
RAW_JSON: int = options_pb2.RAW_JSON
LIST: int = options_pb2.LIST
SCHEMA_OR_ARRAY: int = options_pb2.SCHEMA_OR_ARRAY
SCHEMA_OR_BOOL: int = options_pb2.SCHEMA_OR_BOOL
SCHEMA_OR_STRING_ARRAY: int = options_pb2.SCHEMA_OR_STRING_ARRAY

_SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_DOUBLE: "double",
}


@dataclass(frozen=True, eq=False)
class FieldInfo:
    """One field of a message."""

    name: str
    """In the message class."""
    json: str
    """In JSON."""
    number: int
    scalar: str
    """The scalar type of the value (of each element or map value); empty for messages."""
    message: Descriptor | None
    """The message type of the value (of each element or map value)."""
    repeated: bool
    is_map: bool
    pointer: bool
    inline: bool
    omitempty: bool
    omitzero: bool
    owner: Descriptor | None
    """The message type that has the field."""
    options: Any
    """The ``(wharf.field)`` options, for merge keys and list types."""


@dataclass(frozen=True, eq=False)
class MessageInfo:
    """One message type."""

    name: str
    descriptor: Descriptor
    form: int
    """A value of ``wharf.JsonForm``."""
    fields: tuple[FieldInfo, ...]
    """In the order of their numbers."""
    kind: str
    """The kind in JSON for a kind or a list of one, else empty."""
    api_version: str

    @property
    def message_class(self) -> type[Message]:
        """The class whose instances these are."""
        return class_of(self.descriptor)

    @property
    def json_fields(self) -> dict[str, tuple[FieldInfo, ...]]:
        """Return where each JSON name leads: the chain of inlined fields and then the field itself."""
        return _json_fields(self.descriptor)


def descriptor_of(message: Message | type[Message]) -> Descriptor:
    """Return the descriptor of a message; the one place that knows that two stubs disagree about its type."""
    return message.DESCRIPTOR  # type: ignore[return-value]


@cache
def class_of(descriptor: Descriptor) -> type[Message]:
    """Return the generated class of a message type."""
    return message_factory.GetMessageClass(descriptor)


@cache
def form_of(descriptor: Descriptor) -> int:
    """Return the JSON form of a message type."""
    extensions: Any = descriptor.GetOptions().Extensions
    form: int = extensions[options_pb2.json_form]
    return form


@cache
def info_of(descriptor: Descriptor) -> MessageInfo:
    """Return what is known about a message type."""
    fields = tuple(_field(field) for field in sorted(descriptor.fields, key=lambda field: field.number))
    kind, api_version = _TYPE_META.get(descriptor.full_name, ("", ""))
    return MessageInfo(descriptor.name, descriptor, form_of(descriptor), fields, kind, api_version)


def _field(field: FieldDescriptor) -> FieldInfo:
    extensions: Any = field.GetOptions().Extensions
    options = extensions[options_pb2.field]
    repeated: bool = field.is_repeated
    entry = field.message_type if repeated and field.message_type is not None else None
    is_map = entry is not None and entry.GetOptions().map_entry
    value = entry.fields_by_name["value"] if is_map and entry is not None else field
    return FieldInfo(
        name=field.name,
        json=field.json_name,
        number=field.number,
        scalar="" if value.message_type is not None else _SCALARS[value.type],
        message=value.message_type,
        repeated=repeated and not is_map,
        is_map=is_map,
        pointer=options.pointer,
        inline=options.inline,
        omitempty=options.omitempty,
        omitzero=options.omitzero,
        owner=field.containing_type,
        options=options,
    )


@cache
def _json_fields(descriptor: Descriptor) -> dict[str, tuple[FieldInfo, ...]]:
    found: dict[str, tuple[FieldInfo, ...]] = {}
    for field in info_of(descriptor).fields:
        if field.inline and field.message is not None:
            for name, chain in _json_fields(field.message).items():
                found[name] = (field, *chain)
        else:
            found[field.json] = (field,)
    return found


def _type_meta() -> dict[str, tuple[str, str]]:
    found = {}
    for kind in kinds.KINDS:
        found[kind.message.DESCRIPTOR.full_name] = (kind.kind, kind.api_version)
        if kind.list_message is not None:
            found[kind.list_message.DESCRIPTOR.full_name] = (kind.list_message.DESCRIPTOR.name, kind.api_version)
    for name in ("List", "APIGroup", "APIGroupList", "APIResourceList", "APIVersions"):
        found[f"k8s.io.apimachinery.pkg.apis.meta.v1.{name}"] = (name, "v1")
    return found


_TYPE_META = _type_meta()
