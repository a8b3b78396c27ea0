"""The one hook for authorisation: authorisers are asked in turn, and the first who knows decides.

An authoriser allows, denies, or has no opinion. Nobody's opinion means no. A verdict carries its reason: of a yes it
shows in access reviews, of a no in the 403 that the client sees. Members of ``system:masters`` may do everything,
before anybody is asked, so that no broken role can lock out whoever is to repair it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from controlplane.apiserver import audit
from controlplane.apiserver.auth.attributes import Attributes, of_request
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.auth.policy import Rule
    from controlplane.apiserver.request import Request, User

MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an authoriser says: yes, no, or (`allowed` is None) that it does not know, perhaps with a reason."""

    allowed: bool | None
    reason: str = ""


ALLOWED = Verdict(allowed=True)
NO_OPINION = Verdict(allowed=None)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an authoriser can list of somebody's rights in a namespace."""

    rules: Sequence[Rule] = ()
    incomplete: str = ""
    """Why the list does not say everything; empty when it does."""


class Authorizer(Protocol):
    """Whoever has an opinion."""

    def authorize(self, asked: Attributes) -> Verdict:
        """Say yes, no, or nothing."""
        ...

    def rules(self, user: User, namespace: str) -> Rules:
        """List what is allowed by rules, for whoever wants to know all at once."""
        ...


class AlwaysAllow(Authorizer):
    """Mode AlwaysAllow: for those who authorise elsewhere."""

    def authorize(self, asked: Attributes) -> Verdict:
        """Say yes."""
        return ALLOWED

    def rules(self, user: User, namespace: str) -> Rules:
        """Everything."""
        from controlplane.apiserver.auth.policy import EVERYTHING

        return Rules(EVERYTHING)


class AlwaysDeny(Authorizer):
    """Mode AlwaysDeny: only masters may do anything."""

    def authorize(self, asked: Attributes) -> Verdict:
        """Say that it is not for this one to allow."""
        return Verdict(allowed=None, reason="Everything is forbidden.")

    def rules(self, user: User, namespace: str) -> Rules:
        """Nothing."""
        return Rules()


class Authorizers:
    """Several authorisers, asked in order."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def check(self, request: Request) -> None:
        """Return when the request is allowed.

        Raises ForbiddenError with what was asked and the reasons given.
        """
        if MASTERS not in request.user.groups or audit.current() is not None:
            self.admit(of_request(request))

    def admit(self, asked: Attributes) -> None:
        """Return when a request that asks this is allowed; the audit log has why. Raises ForbiddenError."""
        verdict = self.decide(asked)
        record = audit.current()
        if record is not None:
            record.authorized(allowed=bool(verdict.allowed), reason=verdict.reason)
        if not verdict.allowed:
            raise forbidden(asked, verdict.reason)

    def require(self, asked: Attributes) -> None:
        """Return when something is allowed that a request needs besides itself. Raises ForbiddenError."""
        verdict = self.decide(asked)
        if not verdict.allowed:
            raise forbidden(asked, verdict.reason)

    def decide(self, asked: Attributes) -> Verdict:
        """Return the verdict: a yes or a clear no with its reason, or no opinion with everybody's reasons."""
        if MASTERS in asked.user.groups:
            return ALLOWED
        reasons: list[str] = []
        for authorizer in self._authorizers:
            verdict = authorizer.authorize(asked)
            if verdict.allowed is not None:
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
        return Verdict(allowed=None, reason="\n".join(reasons)) if reasons else NO_OPINION

    def rules(self, user: User, namespace: str) -> Rules:
        """Return everything that rules allow a user in a namespace."""
        found: list[Rule] = []
        gaps: list[str] = []
        for authorizer in self._authorizers:
            one = authorizer.rules(user, namespace)
            found += one.rules
            if one.incomplete:
                gaps.append(one.incomplete)
        return Rules(found, "; ".join(gaps))


def forbidden(asked: Attributes, why: str = "") -> ForbiddenError:
    """Return the usual 403: ``pods "web" is forbidden: User "alice" cannot get resource "pods" in API group "" …``."""
    user = asked.user.name
    if asked.path:
        text = f'forbidden: User "{user}" cannot {asked.verb} path "{asked.path}"'
        return ForbiddenError(f"{text}: {why}" if why else text, details={})
    where = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
    subject = f'{asked.group_resource} "{asked.name}"' if asked.name else asked.group_resource
    message = (
        f'{subject} is forbidden: User "{user}" cannot {asked.verb} resource "{asked.full_resource}" '
        f'in API group "{asked.group}"{where}'
    )
    return ForbiddenError(
        f"{message}: {why}" if why else message, name=asked.name, kind=asked.resource, group=asked.group
    )
