"""The annotation in which client-side apply keeps what was applied last, byte for byte as kubectl writes it."""

from __future__ import annotations

import json
from typing import Any

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def annotated(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a document with its namespace and with the annotation that holds itself."""
    metadata = dict(document.get("metadata") or {})
    if namespace:
        metadata["namespace"] = namespace
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    metadata["annotations"] = annotations
    text = go_json({**document, "metadata": metadata}) + "\n"
    return {**document, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


def last_applied(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return what was applied last; None when the annotation is missing or unreadable."""
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def go_json(value: Any) -> str:
    """Write JSON as Go does: compact, keys sorted, and safe inside HTML."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
