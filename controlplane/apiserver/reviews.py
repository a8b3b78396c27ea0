"""Reviews: questions about who somebody is and what they may do, answered by the same code that decides requests.

They are created and never stored. Asking is a right like any other: the role ``system:basic-user`` lets everybody ask
about themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.auth.authorizer import MASTERS, Rules
from controlplane.apiserver.auth.policy import EVERYTHING
from controlplane.apiserver.request import Answer, Request, User
from wharfinger.api import codec, errors, kinds, times, validation
from wharfinger.api.errors import UnauthorizedError
from wharfinger.api.types import authentication, authorization

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.auth.bearer import Bearer
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


class Reviews:
    """Answers reviews."""

    def __init__(self, authorizers: Authorizers, tokens: Bearer) -> None:
        self._authorizers = authorizers
        self._tokens = tokens

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
            self._rules(request.user, review)
        elif isinstance(review, authorization.SelfSubjectAccessReview):
            self._decide(request.user, review)
        else:
            spec = review.spec
            extra = tuple((key, tuple(spec.extra[key].items)) for key in sorted(spec.extra))
            self._decide(User(spec.user, tuple(spec.groups), spec.uid, extra), review)

    def _review_token(self, review: authentication.TokenReview) -> None:
        review.status.Clear()
        try:
            user, audiences = self._tokens.review(review.spec.token, review.spec.audiences)
        except UnauthorizedError:
            review.status.error = "invalid bearer token"
            review.status.user.SetInParent()
            return
        review.status.authenticated = True
        _describe(review.status.user, user)
        review.status.audiences.extend(audiences)

    def _decide(self, user: User, review: Any) -> None:
        review.status.Clear()
        spec = review.spec
        if spec.HasField("nonResourceAttributes"):
            asked = Attributes(user, spec.nonResourceAttributes.verb, path=spec.nonResourceAttributes.path or "/")
        else:
            about = spec.resourceAttributes
            asked = Attributes(
                user, about.verb, about.group, about.resource, about.subresource, about.namespace, about.name,
                version=about.version, field_selector=_selector(about),
            )  # fmt: skip
        verdict = self._authorizers.decide(asked)
        review.status.allowed = bool(verdict.allowed)
        if verdict.allowed is False:
            review.status.denied = True
        if verdict.reason:
            review.status.reason = verdict.reason

    def _rules(self, user: User, review: authorization.SelfSubjectRulesReview) -> None:
        namespace = review.spec.namespace
        if not namespace:
            raise errors.BadRequestError("no namespace on request")
        status = review.status
        status.Clear()
        found = Rules(EVERYTHING) if MASTERS in user.groups else self._authorizers.rules(user, namespace)
        for rule in found.rules:
            if rule.urls:
                status.nonResourceRules.add(verbs=rule.verbs, nonResourceURLs=rule.urls)
            if rule.resources:
                status.resourceRules.add(
                    verbs=rule.verbs, apiGroups=rule.groups, resources=rule.resources, resourceNames=rule.names
                )
        status.incomplete = bool(found.incomplete)
        if found.incomplete:
            status.evaluationError = found.incomplete


def _selector(about: authorization.ResourceAttributes) -> str:
    """Return the field selector of a question as text."""
    selector = about.fieldSelector
    if selector.rawSelector:
        return str(selector.rawSelector)
    terms = [
        f"{item.key}={_escaped(item.values[0])}"
        for item in selector.requirements
        if item.operator == "In" and len(item.values) == 1
    ]
    return ",".join(terms)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _describe(info: authentication.UserInfo, user: User) -> None:
    info.Clear()
    info.username, info.uid = user.name, user.uid
    info.groups.extend(user.groups)
    for key, values in user.extra:
        info.extra[key].items.extend(values)
