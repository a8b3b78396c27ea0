"""What the reference to an image says about pulling: ``:latest``, or no tag at all, may change at any time."""

from __future__ import annotations

import re
from functools import lru_cache

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::\d+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Return the pull policy of an image that names none: Always for ``latest``, else IfNotPresent.

    What is no image at all counts as one with a tag, as in Kubernetes; validation will speak about it.
    """
    match = _REFERENCE.fullmatch(image) if len(image) < 4096 else None
    if match is None or match["digest"]:
        return "IfNotPresent"
    return "Always" if (match["tag"] or "latest") == "latest" else "IfNotPresent"
