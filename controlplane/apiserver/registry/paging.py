"""Continue tokens: where a list goes on, pinned to the revision of its first page.

The notation is Kubernetes': URL-safe base64 without padding around ``{"v":"meta.k8s.io/v1","rv":N,"start":KEY}``, where
KEY is relative to the collection and the first one to look at. ``rv`` of -1 means: go on at whatever is newest.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from wharfinger.api.errors import BadRequestError

_VERSION = "meta.k8s.io/v1"


class Position(NamedTuple):
    """Where a page begins."""

    revision: int
    """-1: the newest."""
    after: str
    """The last key seen, relative to the collection."""


def encode(position: Position) -> str:
    """Return the token for a position."""
    start = position.after + "\0"
    text = json.dumps({"v": _VERSION, "rv": position.revision, "start": start}, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(token: str) -> Position:
    """Read a token.

    Raises BadRequestError for what is no token of this kind, including one that points out of the collection.
    """
    try:
        value = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, revision, start = value["v"], value["rv"], value["start"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequestError("continue: the token is not valid; start the list anew without it") from error
    if version != _VERSION:
        raise BadRequestError(f"continue: the token is of version {version!r}, which this server does not read")
    if not isinstance(revision, int) or isinstance(revision, bool) or revision == 0 or revision < -1:
        raise BadRequestError("continue: the token names no resourceVersion")
    if not isinstance(start, str) or not start:
        raise BadRequestError("continue: the token names no object to go on from")
    # A key and "\0" is the first key after it.
    after = start.removesuffix("\0")
    if any(part in (".", "..") for part in after.split("/")):
        raise BadRequestError("continue: the token points out of the collection")
    return Position(revision, after)
