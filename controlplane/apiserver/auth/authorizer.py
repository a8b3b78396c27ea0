"""The one hook for authorisation: authorisers are asked in turn, and the first who knows decides.

An authoriser allows, denies, or has no opinion. Nobody's opinion means no. A verdict carries its reason, which goes
into the 403 that the client sees. Role-based access control is one more authoriser at the end of the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.request import Request


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an authoriser says about one request."""

    allowed: bool
    reason: str = ""


ALLOWED = Verdict(allowed=True)


class Authorizer(Protocol):
    """Whoever has an opinion on requests."""

    def authorize(self, request: Request) -> Verdict | None:
        """Say yes, no, or nothing (None)."""
        ...


class Masters(Authorizer):
    """Members of ``system:masters`` may do everything, as in Kubernetes."""

    def authorize(self, request: Request) -> Verdict | None:
        """Allow masters; no opinion on others."""
        return ALLOWED if "system:masters" in request.user.groups else None


class Authorizers:
    """Several authorisers, asked in order."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def check(self, request: Request) -> None:
        """Return when the request is allowed.

        Raises ForbiddenError with what was asked and the reasons given.
        """
        reasons: list[str] = []
        for authorizer in self._authorizers:
            verdict = authorizer.authorize(request)
            if verdict is None:
                continue
            if verdict.allowed:
                return
            reasons.append(verdict.reason)
            break
        raise forbidden(request, "; ".join(reasons))


def forbidden(request: Request, why: str = "") -> ForbiddenError:
    """Return the usual 403: ``pods "web" is forbidden: User "alice" cannot get resource "pods" in API group "" …``."""
    kind = request.kind
    resource = f"{kind.resource}/{request.subresource}" if request.subresource else kind.resource
    where = f' in the namespace "{request.namespace}"' if request.namespace else " at the cluster scope"
    subject = f'{kind.group_resource} "{request.name}"' if request.name else kind.group_resource
    message = (
        f'{subject} is forbidden: User "{request.user.name}" cannot {request.verb} resource "{resource}" '
        f'in API group "{kind.group}"{where}'
    )
    return ForbiddenError(
        f"{message}: {why}" if why else message, name=request.name, kind=kind.resource, group=kind.group
    )
