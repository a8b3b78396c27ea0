"""Patches, made into functions from the old object to the new one: after a conflict they are applied again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api import errors, patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.request import Request

APPLY_PATCH = "application/apply-patch+yaml"


def compile_patch(patch_type: str, body: bytes, request: Request) -> Callable[[Any], Any]:
    """Return the function that applies a patch; it leaves the old object alone.

    Unknown and duplicate fields become warnings of the request, or an error with ``Strict``. Raises
    UnsupportedMediaTypeError for a type that is not known, BadRequestError for what is no patch.
    """
    if patch_type == APPLY_PATCH:
        raise errors.UnsupportedMediaTypeError("server-side apply is not built yet; use another patch type")
    if patch_type not in patch.PATCH_TYPES:
        raise errors.UnsupportedMediaTypeError(
            f"the patch type {patch_type!r} is not known; supported are {', '.join(patch.PATCH_TYPES)}"
        )
    request.heeds_warnings = True
    validation: Any = request.options.field_validation or "Warn"
    patch.parse(body, patch.PATCH_TYPES[patch_type], validation=validation)

    def apply(old: Any) -> Any:
        decoded = patch.apply(old, body, patch_type, validation=validation)
        request.warnings += [text for text in map(str, decoded.issues) if text not in request.warnings]
        return decoded.message

    return apply
