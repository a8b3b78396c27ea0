"""From the body of a PATCH and the object as it is to the patched object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from wharfinger.api import kinds
from wharfinger.api.codec import text
from wharfinger.api.codec.decode import Decoded, Validation, from_value
from wharfinger.api.codec.encode import to_json
from wharfinger.api.codec.issues import FieldIssue, plain, strict_error
from wharfinger.api.codec.selfcoded import SelfCoded
from wharfinger.api.errors import BadRequestError, FieldError, InvalidError, UnsupportedMediaTypeError
from wharfinger.api.patch.json import json_patch
from wharfinger.api.patch.merge import merge_patch
from wharfinger.api.patch.strategic import strategic_merge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

PatchType = Literal["json", "merge", "strategic"]
PATCH_TYPES: dict[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
"""Media types to the short names used here."""

_OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})

M = TypeVar("M", bound="Message")


def parse(body: bytes, patch_type: str, *, validation: Validation = "Warn") -> tuple[Any, list[FieldIssue]]:
    """Read a patch; returns it with its duplicate fields and the unknown ones of JSON patch operations.

    With ``Ignore`` nobody looks for them; with ``Strict`` it is still :func:`apply` that refuses them, since Kubernetes
    answers for the patched object. Raises BadRequestError for what is no JSON or has the wrong shape.
    """
    value, duplicated = text.parse(body, duplicates=validation != "Ignore")
    if patch_type == "json":
        if not isinstance(value, list) or not all(isinstance(operation, dict) for operation in value):
            raise BadRequestError("a JSON patch is a list of operations, each an object with op and path")
    elif not isinstance(value, dict):
        raise BadRequestError("the patch must be an object with the fields to change")
    if validation == "Ignore":
        return value, []
    found = list(plain(value, "")) if duplicated else []
    if patch_type == "json":
        found += [
            FieldIssue(f"[{number}].{name}", "unknown field")
            for number, operation in enumerate(value)
            for name in operation
            if name not in _OPERATION_FIELDS
        ]
    return value, found


def apply(current: M, body: bytes, patch_type: str, *, validation: Validation = "Warn") -> Decoded[M]:
    """Return the object that `current` becomes by a patch, with the issues of both.

    `patch_type` is a short name or a media type. Raises BadRequestError for a malformed patch, InvalidError when it
    cannot be applied or the result is no object of the kind any more (cause: field ``patch``), and
    UnsupportedMediaTypeError for another type of patch.
    """
    kind = PATCH_TYPES.get(patch_type, patch_type)
    patch, found = parse(body, kind, validation=validation)
    if kind != "json" and not isinstance(current, SelfCoded) and _is_partial(patch, current):
        return _apply_to_parts(current, patch, kind, validation, found)
    return _apply(current, patch, kind, validation, found)


def _is_partial(patch: Mapping[str, Any], current: Message) -> bool:
    """Whether a patch only changes parts of the object that are messages of their own, and leaves out another one."""
    fields = current.DESCRIPTOR.fields_by_name
    parts = [fields.get(name) for name in patch]
    return len(parts) < len(fields) and all(
        part is not None and part.type == part.TYPE_MESSAGE and not part.is_repeated for part in parts
    )


def _apply_to_parts(
    current: M, patch: Mapping[str, Any], kind: str, validation: Validation, found: list[FieldIssue]
) -> Decoded[M]:
    """Do the same, but turn only the parts that the patch names into JSON and back: of a pod's status, not its spec."""
    before = type(current)()
    for name in patch:
        if current.HasField(name):
            getattr(before, name).CopyFrom(getattr(current, name))
    decoded = _apply(before, patch, kind, validation, found)
    after = type(current)()
    after.CopyFrom(current)
    for name in patch:
        after.ClearField(name)
        if decoded.message.HasField(name):
            getattr(after, name).CopyFrom(getattr(decoded.message, name))
    decoded.message = after
    return decoded


def _apply(current: M, patch: Any, kind: str, validation: Validation, found: list[FieldIssue]) -> Decoded[M]:
    document = to_json(current)
    message_class = type(current)
    match kind:
        case "json":
            patched = json_patch(document, patch)
        case "merge":
            patched = merge_patch(document, patch)
        case "strategic":
            patched = strategic_merge(document, patch, message_class)
            # Kubernetes converts this one without looking at its type again
            for name in ("kind", "apiVersion"):
                if name in document:
                    patched[name] = document[name]
        case _:
            raise UnsupportedMediaTypeError(f"{kind!r} is none of the patch types {', '.join(PATCH_TYPES)}")
    return _decode(patched, message_class, validation, found)


def _decode(patched: Any, message_class: type[M], validation: Validation, found: list[FieldIssue]) -> Decoded[M]:
    try:
        text.check_depth(patched)
        lenient: Validation = "Ignore" if validation == "Ignore" else "Warn"
        decoded = from_value(patched, message_class, validation=lenient, duplicated=False)
        decoded.issues = [*found, *decoded.issues]
        if decoded.issues and validation == "Strict":
            raise strict_error(decoded.issues)
        return decoded
    except BadRequestError as error:
        kind = kinds.of(message_class).kind
        cause = FieldError("patch", "FieldValueInvalid", f"Invalid value: the patched {kind}: {error}")
        raise InvalidError(f"the patch makes no valid {kind}: {error}", causes=[cause]) from error
