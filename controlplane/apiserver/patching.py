"""Patches, made into functions from the old object to the new one: after a conflict they are applied again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api import codec, errors, ownership, patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.request import Request

APPLY_PATCH = "application/apply-patch+yaml"


def compile_apply(body: bytes, request: Request) -> Callable[[Any], Any]:
    """Return the function that applies a configuration to the stored object, or to None for a new one.

    Raises BadRequestError for what is no configuration of the request's kind or has no manager's name.
    """
    documents = codec.load_documents(body)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise errors.BadRequestError("an apply patch must be one object, in YAML or JSON")
    if not request.options.field_manager:
        raise errors.BadRequestError("an apply patch needs the name of its field manager")
    applied = ownership.Applied(documents[0], request.options.field_manager, request.options.force, request.subresource)
    applied.check(request.kind)
    request.heeds_warnings = request.applying = True
    return lambda old: ownership.apply(applied, old, request.kind.message)


def compile_patch(patch_type: str, body: bytes, request: Request) -> Callable[[Any], Any]:
    """Return the function that applies a patch; it leaves the old object alone.

    Unknown and duplicate fields become warnings of the request, or an error with ``Strict``. Raises
    UnsupportedMediaTypeError for a type that is not known, BadRequestError for what is no patch.
    """
    if patch_type not in patch.PATCH_TYPES:
        raise errors.UnsupportedMediaTypeError(
            f"the patch type {patch_type!r} is not known; supported are {', '.join(patch.PATCH_TYPES)}"
        )
    if patch.PATCH_TYPES[patch_type] == "strategic" and not request.kind.described:
        raise errors.UnsupportedMediaTypeError(
            f"{request.kind.group_resource} have no schema for strategic merge patches; "
            "take application/merge-patch+json, application/json-patch+json or application/apply-patch+yaml"
        )
    request.heeds_warnings = True
    validation: Any = request.options.field_validation or "Warn"
    patch.parse(body, patch.PATCH_TYPES[patch_type], validation=validation)

    def apply(old: Any) -> Any:
        decoded = patch.apply(old, body, patch_type, validation=validation)
        request.warnings += [text for text in map(str, decoded.issues) if text not in request.warnings]
        return decoded.message

    return apply
