"""Reviews: questions about who somebody is and what they may do, answered by the same code that decides requests.

They are created and never stored. Whoever is known may ask about themselves, as the role system:basic-user says;
questions about others need a right like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.auth.certificates import AUTHENTICATED
from controlplane.apiserver.request import Answer, Request, User
from wharfinger.api import codec, errors, kinds, times, validation
from wharfinger.api.errors import ForbiddenError, UnauthorizedError
from wharfinger.api.types import authentication, authorization, core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.auth.tokens import TokenFile
    from wharfinger.api.kinds import Kind

_SELF = frozenset(
    kinds.of(message)
    for message in (
        authentication.SelfSubjectReview,
        authorization.SelfSubjectAccessReview,
        authorization.SelfSubjectRulesReview,
    )
)
_OTHERS = frozenset(
    kinds.of(message)
    for message in (
        authentication.TokenReview,
        authorization.LocalSubjectAccessReview,
        authorization.SubjectAccessReview,
    )
)
KINDS: Mapping[tuple[str, str, str], Kind] = {
    (kind.group, kind.version, kind.resource): kind for kind in (*_SELF, *_OTHERS)
}
_ANY = kinds.of(core.Pod)
_EVERYWHERE = ("/healthz", "/livez", "/readyz", "/version")
_FOR_KNOWN = ("/api", "/apis", "/openapi")


class Reviews:
    """Answers reviews."""

    def __init__(self, authorizers: Authorizers, tokens: TokenFile | None) -> None:
        self._authorizers = authorizers
        self._tokens = tokens

    def authorize(self, request: Request) -> None:
        """Raise ForbiddenError unless the user may ask."""
        if request.kind in _SELF and AUTHENTICATED in request.user.groups:
            return
        self._authorizers.check(request)

    def answer(self, request: Request, review: Any) -> Answer:
        """Return the review with its status filled in. Raises InvalidError for a question that makes no sense."""
        if request.kind.namespaced and not review.metadata.namespace:
            review.metadata.namespace = request.namespace
        if causes := validation.validate_create(review):
            error = errors.invalid(request.kind.kind, request.kind.group, review.metadata.name, causes)
            error.kind = ""  # as Kubernetes has it for reviews
            raise error
        self._fill(request, review)
        return Answer(request.kind, codec.canonical_bytes(review), created=True)

    def _fill(self, request: Request, review: Any) -> None:
        if isinstance(review, authentication.SelfSubjectReview):
            review.metadata.creationTimestamp.CopyFrom(times.now())
            _describe(review.status.userInfo, request.user)
        elif isinstance(review, authentication.TokenReview):
            self._review_token(review)
        elif isinstance(review, authorization.SelfSubjectRulesReview):
            self._rules(request.user, review.status)
        elif isinstance(review, authorization.SelfSubjectAccessReview):
            self._decide(request.user, review)
        else:
            spec = review.spec
            self._decide(User(spec.user, tuple(spec.groups), spec.uid), review)

    def _review_token(self, review: authentication.TokenReview) -> None:
        review.status.Clear()
        try:
            if self._tokens is None:
                raise UnauthorizedError("this server takes no tokens")
            user = self._tokens.user_of(f"Bearer {review.spec.token}")
        except UnauthorizedError as error:
            review.status.error = f"[invalid bearer token] {error.message}"
            review.status.user.SetInParent()
            return
        review.status.authenticated = True
        _describe(review.status.user, user)
        review.status.audiences.extend(review.spec.audiences)

    def _decide(self, user: User, review: Any) -> None:
        review.status.Clear()
        if review.spec.HasField("nonResourceAttributes"):
            review.status.allowed = may_see(user, review.spec.nonResourceAttributes.path)
            return
        asked = review.spec.resourceAttributes
        kind = next(
            (kind for kind in kinds.KINDS if (kind.group, kind.resource) == (asked.group, asked.resource)),
            replace(_ANY, group=asked.group, resource=asked.resource, version=asked.version, kind=""),
        )
        request = Request(user, asked.verb, kind, asked.namespace, asked.name, asked.subresource)
        try:
            self._authorizers.check(request)
        except ForbiddenError:
            review.status.allowed = False
        else:
            review.status.allowed = True

    @staticmethod
    def _rules(user: User, status: authorization.SubjectRulesReviewStatus) -> None:
        status.Clear()
        if "system:masters" in user.groups:
            status.resourceRules.add(verbs=["*"], apiGroups=["*"], resources=["*"])
            status.nonResourceRules.add(verbs=["*"], nonResourceURLs=["*"])
            status.incomplete = False
            return
        for kind in sorted(_SELF, key=lambda kind: kind.resource):
            status.resourceRules.add(verbs=["create"], apiGroups=[kind.group], resources=[kind.resource])
        status.nonResourceRules.add(verbs=["get"], nonResourceURLs=[*_EVERYWHERE, *_FOR_KNOWN])
        # Rules of the daemons and of node agents are not listed: they depend on the object.
        status.incomplete = True


def may_see(user: User, path: str) -> bool:
    """Whether a user may read a path that is no resource."""
    if "system:masters" in user.groups:
        return True
    places = (*_EVERYWHERE, *_FOR_KNOWN) if AUTHENTICATED in user.groups else _EVERYWHERE
    return any(path == place or path.startswith(place + "/") for place in places)


def _describe(info: authentication.UserInfo, user: User) -> None:
    info.Clear()
    info.username, info.uid = user.name, user.uid
    info.groups.extend(user.groups)
