"""Which representation a client wants (``Accept``) and which one it sent (``Content-Type``).

Besides the media type an ``Accept`` clause may ask for another shape of the answer: ``as=Table`` or
``as=PartialObjectMetadata`` with a version and the group ``meta.k8s.io``. Clauses are tried by weight, then in order;
one that asks for a shape that is not there is passed over, and when none is left the answer is 406.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from controlplane.apiserver.request import JSON, PROTOBUF, YAML
from wharfinger.api.errors import NotAcceptableError

META_GROUP = "meta.k8s.io"
TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"
_SHAPES = frozenset({TABLE, PARTIAL, PARTIAL_LIST})
_VERSIONS = frozenset({"v1", "v1beta1"})
_TYPES = (JSON, YAML, PROTOBUF)


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is to look."""

    media: str = JSON
    shape: str = ""
    """Empty: the object itself."""
    version: str = "v1"
    """Of the shape."""

    @property
    def shape_api_version(self) -> str:
        """As it stands in the answer."""
        return f"{META_GROUP}/{self.version}"


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of an Accept header."""

    media: str
    parameters: tuple[tuple[str, str], ...]
    weight: float

    def get(self, name: str) -> str:
        """Return a parameter, empty when it is not there."""
        return dict(self.parameters).get(name, "")


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[Clause, ...]:
    """Read an Accept header; the best clause first."""
    found: list[Clause] = []
    for part in accept.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        weight, parameters = 1.0, []
        for piece in rest:
            name, _, value = piece.partition("=")
            name, value = name.strip().lower(), value.strip().strip('"')
            if name == "q":
                try:
                    weight = float(value)
                except ValueError:
                    weight = 1.0
            elif name:
                parameters.append((name, value))
        if media:
            found.append(Clause(media.lower(), tuple(parameters), weight))
    return tuple(sorted((clause for clause in found if clause.weight > 0), key=lambda clause: -clause.weight))


def _media(clause: Clause) -> str:
    if clause.media == "*/*":
        return JSON
    return clause.media if clause.media in _TYPES else ""


@lru_cache(maxsize=512)
def negotiate(accept: str, *, described: bool = True) -> Form:
    """Return the form that an Accept header asks for. Raises NotAcceptableError.

    What is not `described` (custom objects) has no protobuf form, except of its metadata alone.
    """
    if not accept.strip():
        return Form()
    known = False
    for clause in clauses(accept):
        media = _media(clause)
        if not media:
            continue
        known = True
        shape, version, group = clause.get("as"), clause.get("v"), clause.get("g")
        if not shape:
            if media == PROTOBUF and not described:
                continue
            return Form(media)
        if shape in _SHAPES and group == META_GROUP and version in _VERSIONS and (shape != TABLE or media != PROTOBUF):
            return Form(media, shape, version)
    raise not_acceptable(details=not known)


def not_acceptable(*, details: bool = False) -> NotAcceptableError:
    """Return the usual 406."""
    return NotAcceptableError(
        f"only the following media types are accepted: {', '.join(_TYPES)}", details={} if details else None
    )


@lru_cache(maxsize=512)
def for_errors(accept: str) -> str:
    """Return the media type for an error: what is accepted if we have it, else JSON."""
    return next((media for clause in clauses(accept) if (media := _media(clause))), JSON)


def content_type(header: str) -> str:
    """Return the media type of a body without its parameters; JSON when there is no header."""
    return header.partition(";")[0].strip().lower() if header else JSON
