"""Heads: what this server does not take in those of requests, and the warnings in those of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

_VERSIONS = ((1, 1), (1, 0))
_OPAQUE = frozenset({"user-agent", "cookie", "referer", "accept", "authorization"})
"""Headers that nobody here reads, or whose readers have an answer of their own to half characters."""


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_head(http: web.BaseRequest) -> None:
    """Refuse what HTTP/1.1 knows and this server does not.

    Raises BadRequestError (of 417 for an expectation), UnsupportedMediaTypeError for a body that is compressed.
    """
    for name, value in http.headers.items():
        # Such bytes would be half characters in every text and answer that they get into.
        if not value.isascii() and name.lower() not in _OPAQUE and not _encodable(value):
            raise errors.BadRequestError(f"the header {name} is not UTF-8")
    if tuple(http.version) not in _VERSIONS:
        raise errors.BadRequestError(f"HTTP/{http.version[0]}.{http.version[1]} is not spoken here, but HTTP/1.1")
    headers = http.headers
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise errors.UnsupportedMediaTypeError("a body must be sent as it is, without Content-Encoding")
    if headers.get("Transfer-Encoding", "chunked").strip().lower() != "chunked":
        raise errors.BadRequestError("the only Transfer-Encoding of a request that is known is chunked")
    if headers.get("Expect", "100-continue").strip().lower() != "100-continue":
        error = errors.BadRequestError("the only expectation that can be met is 100-continue")
        error.status_code = 417
        raise error


_WARNING_LENGTH = 256
_WARNINGS_LENGTH = 4096
_WARNINGS = 64
"""How many are told, in how many characters each when they are many, and in all: clients refuse too many headers."""


def warnings(texts: Sequence[str]) -> list[str]:
    """Return the values of the Warning headers for texts, each once; shortened when they are many."""
    texts = list(dict.fromkeys(texts))
    if sum(map(len, texts)) > _WARNINGS_LENGTH:
        texts = [text if len(text) <= _WARNING_LENGTH else text[:_WARNING_LENGTH] for text in texts]
    told, length = [], 0
    for text in texts[:_WARNINGS]:
        length += len(text)
        if length > _WARNINGS_LENGTH:
            break
        told.append(_warning(text))
    return told


def _warning(text: str) -> str:
    """Return the value of a Warning header (RFC 9111's 299) for a text."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
