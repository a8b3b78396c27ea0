"""Patches, made into functions from the old object to the new one.

A patch works on JSON, so the old object is shown as JSON, changed and read again. A JSON patch and a merge patch are
plain; a strategic merge patch knows the lists' keys from the schema. Unknown fields that the patch brings are
found when the result is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.api import codec, errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from controlplane.apiserver.request import Request

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def compile_patch(patch_type: str, text: bytes, message_class: type[Message], request: Request) -> Callable[[Any], Any]:
    """Parse a patch and return the function that applies it.

    Raises BadRequestError for what is no patch, UnsupportedMediaTypeError for a type that is not known.
    """
    if patch_type == APPLY_PATCH:
        raise errors.UnsupportedMediaTypeError("server-side apply is not built yet; use another patch type")
    if patch_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise errors.UnsupportedMediaTypeError(
            f"the patch type {patch_type!r} is not known; supported are {JSON_PATCH}, {MERGE_PATCH}, {STRATEGIC_PATCH}"
        )
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise errors.BadRequestError(f"the patch is no JSON: {error}") from error
    if patch_type == JSON_PATCH:
        if not isinstance(value, list):
            raise errors.BadRequestError("a JSON patch is a list of operations")
    elif not isinstance(value, dict):
        raise errors.BadRequestError("a merge patch is an object")
    validation: Any = request.options.field_validation or "Warn"

    def apply(old: Any) -> Any:
        from wharfinger.api import patch

        document = codec.to_json(old)
        if patch_type == JSON_PATCH:
            result = patch.json_patch(document, value)
        elif patch_type == MERGE_PATCH:
            result = patch.merge_patch(document, value)
        else:
            result = patch.strategic_merge(document, value, message_class)
        decoded = codec.from_json(result, message_class, validation=validation)
        request.warnings[:] = [str(issue) for issue in decoded.issues]
        return decoded.message

    return apply
