"""Objects whose kind no descriptor of ``proto/`` describes: their class knows how they are written and judged.

All of the project handles objects as protobuf messages. The kinds that definitions of custom resources make come and go
while a server runs, so they cannot be generated; their objects have real metadata and JSON for the rest. A class of
such objects derives from :class:`SelfCoded`: it has no descriptor, and where the codec, validation and ownership would
look into a descriptor they ask the class instead. Nothing else has to tell the two apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from google.protobuf.message import Message

if TYPE_CHECKING:
    from wharfinger.api.codec.decode import Decoded, Validation
    from wharfinger.api.kinds import Kind
    from wharfinger.api.ownership.fields import Type
    from wharfinger.api.types import meta
    from wharfinger.api.validation.registry import Rules


class SelfCoded(Message):
    """An object without a descriptor. Its ``SerializeToString`` and ``FromString`` deal in JSON text."""

    __slots__ = ()

    KIND: ClassVar[Kind]
    metadata: meta.ObjectMeta

    @classmethod
    def from_value(cls, value: dict[str, Any], *, validation: Validation, duplicated: bool) -> Decoded[Self]:
        """Make an object of plain values; see :func:`~wharfinger.api.codec.decode.from_value`."""
        raise NotImplementedError

    def to_value(self) -> dict[str, Any]:
        """Return the object as plain values, ``kind`` and ``apiVersion`` included."""
        raise NotImplementedError

    @classmethod
    def rules(cls) -> Rules:
        """Return what :mod:`wharfinger.api.validation` judges objects of the class by."""
        raise NotImplementedError

    @classmethod
    def field_type(cls) -> Type:
        """Return what the object is as far as the ownership of fields goes."""
        raise NotImplementedError
