"""Protobuf from clients: the one format that carries fields unseen, so it is checked before it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError

from wharfinger.api.codec import schema
from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")


def from_protobuf(data: bytes, message_class: type[M]) -> M:
    """Read an object from its own protobuf bytes (without an envelope).

    Fields that the schema does not know are dropped, as Kubernetes drops them; left in, they would be stored. Raises
    BadRequestError for bytes that are no such message, for text that is not UTF-8 and for more than 100 levels.
    """
    try:
        message = message_class.FromString(data)
    except DecodeError as error:
        name = schema.descriptor_of(message_class).name
        raise BadRequestError(
            f"{len(data)} bytes are no protobuf {name} (fields of the right types, UTF-8, at most 100 levels): {error}"
        ) from error
    message.DiscardUnknownFields()
    return message
