"""Merge patch (RFC 7386): objects merge, null removes, everything else replaces."""

from __future__ import annotations

from typing import Any

from wharfinger.api.errors import BadRequestError


def merge_patch(doc: Any, patch: Any) -> Any:
    """Return `doc` with `patch` merged into it; neither is changed.

    Beyond the RFC, and as kube-apiserver does, fields that are null vanish from objects inside of new lists as well.
    Raises BadRequestError when `patch` is no object.
    """
    if not isinstance(patch, dict):
        raise BadRequestError("a merge patch is an object with the fields to change")
    return _merge(doc, patch)


def _merge(doc: Any, patch: dict[str, Any]) -> Any:
    merged = dict(doc) if isinstance(doc, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _merge(merged.get(name), value)
        else:
            merged[name] = value if isinstance(merged.get(name), dict) else _without_nulls(value)
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
