"""Objects of custom kinds in memory: real metadata, and everything else as plain JSON values.

A class is made for each version of a definition, with the kind in it, which has the schema. Whoever
holds an object of an older definition can go on with it; nothing is registered anywhere, so that a class vanishes with
its last object.

`content` is everything but ``apiVersion``, ``kind`` and ``metadata``. It is never changed in place once it is in an
object: whoever changes it puts a new dict there. So copies share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import orjson

from wharfinger.api import codec
from wharfinger.api.codec import issues
from wharfinger.api.codec.decode import Decoded
from wharfinger.api.codec.selfcoded import SelfCoded
from wharfinger.api.codec.text import check_depth
from wharfinger.api.custom import shaping
from wharfinger.api.errors import BadRequestError, InternalError
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from wharfinger.api.codec.decode import Validation
    from wharfinger.api.codec.issues import FieldIssue
    from wharfinger.api.custom.kinds import CustomKind
    from wharfinger.api.ownership.fields import Type
    from wharfinger.api.validation.registry import Rules

_SORTED = orjson.OPT_SORT_KEYS


class CustomObject(SelfCoded):
    """An object of a custom kind; use the classes derived from it."""

    __slots__ = ("api_version", "content", "kind", "metadata")

    KIND: ClassVar[CustomKind]
    _rules: ClassVar[Rules]

    def __init__(self) -> None:
        self.metadata = meta.ObjectMeta()
        self.content: dict[str, Any] = {}
        self.kind = self.KIND.kind
        """As the sender said; validation refuses another one than the resource's."""
        self.api_version = self.KIND.api_version

    # --- what messages can -----------------------------------------------------------------------------------------

    def CopyFrom(self, other_msg: Any) -> None:  # noqa: N802
        """Become a copy of another object."""
        copied = meta.ObjectMeta()
        copied.CopyFrom(other_msg.metadata)
        self.metadata = copied
        self.content = other_msg.content
        self.kind = other_msg.kind

    def SerializeToString(self, **_: Any) -> bytes:  # noqa: N802
        """Return the object as JSON with sorted keys."""
        return orjson.dumps(self.to_value(), option=_SORTED)

    @classmethod
    def FromString(cls, s: bytes) -> Self:  # noqa: N802
        """Read an object from JSON that this project has written; nothing (as in bookmarks) is an empty object."""
        return cls.of_stored(orjson.loads(s)) if s else cls()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomObject):
            return NotImplemented
        return bool(self.metadata == other.metadata) and self.content == other.content

    __hash__ = None  # type: ignore[assignment]

    # --- plain values ----------------------------------------------------------------------------------------------

    @classmethod
    def of_stored(cls, value: dict[str, Any]) -> Self:
        """Make an object of what is stored, whatever version it says. Raises InternalError for broken metadata."""
        made = cls()
        own = value.get("metadata")
        if own:
            try:
                read = codec.from_json({"metadata": own}, meta.PartialObjectMetadata, validation="Ignore").message
            except BadRequestError as error:
                raise InternalError(f"a stored {cls.KIND.kind} has broken metadata: {error}") from error
            made.metadata.CopyFrom(read.metadata)
        made.content = {name: item for name, item in value.items() if name not in shaping.OWN}
        return made

    @classmethod
    def from_value(cls, value: dict[str, Any], *, validation: Validation, duplicated: bool) -> Decoded[Self]:
        """Read what a client sent: cut to the schema and completed from it.

        Raises BadRequestError for metadata of wrong types, for what does not say its kind, for another version, and
        with ``Strict`` for unknown and duplicate fields.
        """
        found: list[FieldIssue] = []
        if validation != "Ignore" and duplicated:
            found += issues.plain(value, "")
        check_depth(value)
        try:
            copied = orjson.loads(orjson.dumps(value))
        except (TypeError, RecursionError) as error:
            raise BadRequestError(f"the object holds what JSON cannot express: {error}") from error
        made = cls()
        made._say_what_it_is(copied)
        own = copied.get("metadata")
        if own is not None:
            read = codec.from_json({"metadata": own}, meta.PartialObjectMetadata, validation="Warn")
            made.metadata.CopyFrom(read.message.metadata)
            found += read.issues if validation != "Ignore" else ()
        content = {name: item for name, item in copied.items() if name not in shaping.OWN}
        pruned = cls.shape(content)
        if validation != "Ignore":
            found += pruned
        made.content = content
        if found and validation == "Strict":
            raise issues.strict_error(found)
        return Decoded(made, found)

    def _say_what_it_is(self, value: dict[str, Any]) -> None:
        kind, api_version, wanted = value.get("kind"), value.get("apiVersion"), self.KIND
        for name, got in (("kind", kind), ("apiVersion", api_version)):
            if not isinstance(got, str) or not got:
                raise BadRequestError(f"{name}: the object must say what it is; {name} is missing or no string")
        if api_version != wanted.api_version:
            raise BadRequestError(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({wanted.api_version})"
            )
        self.kind = str(kind)

    @classmethod
    def shape(cls, content: dict[str, Any]) -> list[FieldIssue]:
        """Prune and complete content in place; return what the schema does not know."""
        schema = cls.KIND.schema
        if schema is None:
            return []
        pruned = shaping.prune(content, schema)
        shaping.drop_nulls(content, schema)
        shaping.fill_defaults(content, schema)
        return pruned

    def to_value(self) -> dict[str, Any]:
        """Return the object as plain values; the content is shared."""
        own: dict[str, Any] = codec.to_json(self.metadata)
        if own.get("creationTimestamp", True) is None:
            del own["creationTimestamp"]
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": own, **self.content}

    def part(self, name: str) -> dict[str, Any]:
        """Return a top-level field that is an object (``spec``, ``status``); empty when it is not there."""
        found = self.content.get(name)
        return found if isinstance(found, dict) else {}

    @classmethod
    def rules(cls) -> Rules:
        """Return the rules of the kind; made at first use, since clients have no need of them."""
        found: Rules | None = cls.__dict__.get("_rules")
        if found is None:
            from wharfinger.api.custom.rules import rules_of

            found = rules_of(cls.KIND, cls.KIND.schema)
            cls._rules = found
        return found

    @classmethod
    def field_type(cls) -> Type:
        """Return what the object is as far as the ownership of fields goes."""
        from wharfinger.api.custom.ownership import root_type

        return root_type(cls.KIND.schema)
