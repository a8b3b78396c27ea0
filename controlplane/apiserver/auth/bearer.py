"""Bearer tokens, whatever they are: a line of the static file, a service account's, a bootstrap token.

Each source says of a token whose it is, or that it is none of its own; a token that looks like one of its own and does
not hold is refused at once. The answer to a client is always the same, so that nobody learns how close a guess was;
what was wrong stands in the log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from controlplane.apiserver import audit
from wharfinger.api.errors import UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.request import User

log = logging.getLogger(__name__)

STALE = "authentication.k8s.io/stale-token"
"""Annotation of an audit event: the request's token should have been read anew."""


@dataclass(frozen=True, slots=True)
class Identified:
    """Whose a token is, and for whom it is meant."""

    user: User
    audiences: tuple[str, ...] | None = None
    """None: tokens of this source are for everybody who trusts the server."""
    stale: str = ""
    """What the audit log is to say of a token that should have been replaced by now; empty for others."""


class Source(Protocol):
    """One kind of token."""

    def identify(self, token: str) -> Identified | None:
        """Return whose the token is; None when it is no token of this kind.

        Raises UnauthorizedError when it is of this kind and does not hold (any more).
        """


class Bearer:
    """All kinds together."""

    def __init__(self, sources: Sequence[Source], audiences: Sequence[str] = ()) -> None:
        """`audiences` are this server's own names: a request's token must be for one of them."""
        self._sources = tuple(sources)
        self._audiences = tuple(audiences)

    def user_of(self, header: str) -> User:
        """Return the user that an ``authorization`` header stands for.

        Raises UnauthorizedError when it is no bearer token, nobody's, or for somebody else.
        """
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthorizedError("the authorization header must be: Bearer <token>")
        user, _ = self.review(token.strip())
        return user

    def review(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Return whose a token is, and which of `audiences` (none: this server) it is meant for.

        Raises UnauthorizedError.
        """
        wanted = tuple(audiences) or self._audiences
        for source in self._sources:
            try:
                found = source.identify(token)
            except UnauthorizedError as error:
                log.info("a token was refused", extra={"reason": error.message})
                break
            if found is None:
                continue
            if found.audiences is None:
                return found.user, tuple(one for one in wanted if one in self._audiences)
            meant = tuple(one for one in found.audiences if one in wanted)
            if meant:
                if found.stale:
                    log.debug("a token is stale", extra={"token": found.stale})
                    audit.annotate_early(STALE, found.stale)
                return found.user, meant
            log.info("a token was refused", extra={"reason": f"it is for {', '.join(found.audiences)}"})
            break
        raise UnauthorizedError("Unauthorized")
