"""The rules for ``resourceVersion``, ``resourceVersionMatch`` and ``sendInitialEvents`` of lists and watches.

They follow the page "API Concepts: Resource versions" of Kubernetes; combinations that it does not define are refused
with the field that is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api import errors
from wharfinger.api.errors import FieldError

if TYPE_CHECKING:
    from wharfinger.api.types import meta

_MATCHES = ("Exact", "NotOlderThan", "")
_DIGITS = 20
"""Of the largest number that has 64 bits."""


def parse_version(text: str) -> int:
    """Read a resourceVersion; 0 for an empty one.

    Raises a StatusError of code 500 without a reason, which is what Kubernetes answers for one that is no number.
    """
    if not text:
        return 0
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    shown = text if len(text) <= 64 else f"{text[:61]}..."
    raise errors.StatusError(f'resourceVersion: Invalid value: "{shown}": must be a number (of 64 bits) or empty')


def check(options: meta.ListOptions, *, watching: bool) -> None:
    """Check the options of a list or watch against each other.

    Raises InvalidError that names the fields.
    """
    causes = list(_watch_causes(options) if watching else _list_causes(options))
    if causes:
        raise errors.invalid("ListOptions", "meta.k8s.io", "", causes)


def _list_causes(options: meta.ListOptions) -> list[FieldError]:
    causes: list[FieldError] = []
    match = options.resourceVersionMatch
    version = options.resourceVersion
    if match:
        if getattr(options, "continue"):
            causes.append(_forbidden("resourceVersionMatch", "it may not be given together with continue"))
        if not version:
            causes.append(_forbidden("resourceVersionMatch", "it may only be given together with resourceVersion"))
        if match not in _MATCHES:
            causes.append(FieldError.not_supported("resourceVersionMatch", match, _MATCHES))
        elif match == "Exact" and version == "0":
            causes.append(_forbidden("resourceVersionMatch", "Exact needs a resourceVersion other than 0"))
    if options.HasField("sendInitialEvents"):
        causes.append(_forbidden("sendInitialEvents", "only a watch has initial events"))
    return causes


def _watch_causes(options: meta.ListOptions) -> list[FieldError]:
    causes: list[FieldError] = []
    match = options.resourceVersionMatch
    if not options.HasField("sendInitialEvents"):
        if match:
            causes.append(_forbidden("resourceVersionMatch", "a watch takes it only together with sendInitialEvents"))
        return causes
    if match != "NotOlderThan":
        causes.append(_forbidden("resourceVersionMatch", "sendInitialEvents needs NotOlderThan"))
        if match:
            causes.append(FieldError.not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
    if getattr(options, "continue"):
        causes.append(_forbidden("continue", "a watch cannot be continued"))
    return causes


def _forbidden(field: str, detail: str) -> FieldError:
    return FieldError.forbidden(field, detail)
