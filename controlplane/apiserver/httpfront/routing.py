"""Paths of the API to what they address.

::

    /api/v1/…                    the core group
    /apis/GROUP/VERSION/…        the others
        RESOURCE[/NAME[/SUBRESOURCE]]
        namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
        watch/…                  the same as a watch (the old form of ?watch=true)
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from wharfinger.api.errors import BadRequestError, NotFoundError

_OF_NAMESPACES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Address:
    """What a path addresses."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watching: bool = False


def path_of(target: str) -> str:
    """Return the path of a request's target, which proxies write with scheme and host before it (RFC 9112, 3.2).

    Raises BadRequestError for targets that hold none: ``*`` and the ``host:port`` of CONNECT.
    """
    path = target.partition("?")[0]
    if not path.startswith("/"):
        scheme, separator, rest = path.partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            raise BadRequestError("the request's target must be a path")
        path = "/" + rest.partition("/")[2]
    return path


def segments(raw_path: str) -> list[str]:
    """Split a path as it was sent and undo its escapes.

    Raises BadRequestError for what would be another path once unescaped.
    """
    parts = [unquote(part, errors="strict") for part in _checked(raw_path).split("/")[1:]]
    if any("/" in part or "\0" in part for part in parts):
        raise BadRequestError("the path holds an escaped slash or NUL: no name has one")
    return parts


def _checked(raw_path: str) -> str:
    try:
        unquote(raw_path, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the path is not UTF-8: {error}") from error
    return raw_path


def not_found(why: str = "") -> NotFoundError:
    """Return the 404 for a path that no resource has."""
    text = "the server could not find the requested resource"
    return NotFoundError(f"{text}: {why}" if why else text, details={})


def address(parts: list[str]) -> Address:
    """Read the segments of a resource's path (below a group version). Raises NotFoundError."""
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    watching = rest[0] == "watch"
    if watching:
        rest = rest[1:]
    if rest and rest[-1] == "" and len(rest) > 1:
        rest = rest[:-1]
    if not rest or not all(rest):
        raise not_found()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 and not (len(rest) > 3 and rest[2] == "proxy"):
        raise not_found()
    resource, name, subresource = (*rest[:3], "", "")[:3]
    return Address(group, version, resource, namespace, name, subresource, watching)
