"""Access reviews and token requests: questions that are answered, never kept.

Rules: the API references of ``SubjectAccessReview``, ``LocalSubjectAccessReview``, ``SelfSubjectAccessReview`` and
``TokenRequest``.
"""

from __future__ import annotations

from wharfinger.api.types import authentication, authorization, meta
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_MIN_SECONDS = 600
_MAX_SECONDS = 1 << 32
_SELECTORS = ("fieldSelector", "labelSelector")


def _create(review: authorization.SubjectAccessReview, errors: Errors) -> None:
    _validate_spec(review.spec, errors)
    _only_namespace(review.metadata, "", errors)


def _create_local(review: authorization.LocalSubjectAccessReview, errors: Errors) -> None:
    spec, namespace = review.spec, review.metadata.namespace
    _validate_spec(spec, errors)
    _only_namespace(review.metadata, namespace, errors)
    if spec.HasField("resourceAttributes") and spec.resourceAttributes.namespace != namespace:
        errors.invalid("spec.resourceAttributes.namespace", spec.resourceAttributes.namespace, "must match metadata")
    if spec.HasField("nonResourceAttributes"):
        errors.invalid("spec.nonResourceAttributes", "", "disallowed on this kind of request")


def _create_self(review: authorization.SelfSubjectAccessReview, errors: Errors) -> None:
    _validate_question(review.spec, errors)
    _only_namespace(review.metadata, "", errors)


def _validate_spec(spec: authorization.SubjectAccessReviewSpec, errors: Errors) -> None:
    _validate_question(spec, errors)
    if not spec.user and not spec.groups:
        errors.invalid("spec.user", "", "at least one of user or group must be specified")


def _validate_question(
    spec: authorization.SubjectAccessReviewSpec | authorization.SelfSubjectAccessReviewSpec, errors: Errors
) -> None:
    if spec.HasField("resourceAttributes"):
        if spec.HasField("nonResourceAttributes"):
            errors.invalid("spec.nonResourceAttributes", "", "cannot be specified in combination with others")
        _validate_selectors(spec.resourceAttributes, errors)
    elif not spec.HasField("nonResourceAttributes"):
        errors.invalid("spec.resourceAttributes", "", "exactly one of resource or non-resource attributes is needed")


def _validate_selectors(attributes: authorization.ResourceAttributes, errors: Errors) -> None:
    for field in _SELECTORS:
        if not attributes.HasField(field):
            continue
        selector = getattr(attributes, field)
        path = f"spec.resourceAttributes.{field}"
        if selector.rawSelector and selector.requirements:
            errors.invalid(f"{path}.rawSelector", selector.rawSelector, "may not specified at the same time")
        elif not selector.rawSelector and not selector.requirements:
            errors.required(f"{path}.requirements", f"when {path} is specified, requirements or rawSelector is needed")
        for index, requirement in enumerate(selector.requirements):
            at = f"{path}.requirements[{index}]"
            if not requirement.key:
                errors.required(f"{at}.key", "must be specified")
            if requirement.operator in ("In", "NotIn"):
                if not requirement.values:
                    errors.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            elif requirement.operator in ("Exists", "DoesNotExist"):
                if requirement.values:
                    errors.forbidden(f"{at}.values", "may not be specified with this operator")
            else:
                errors.invalid(f"{at}.operator", requirement.operator, "not a valid selector operator")


def _only_namespace(own: meta.ObjectMeta, namespace: str, errors: Errors) -> None:
    """Reviews carry no metadata; what the server itself sets on the way is not the client's doing."""
    rest = meta.ObjectMeta()
    rest.CopyFrom(own)
    for field in ("managedFields", "uid", "creationTimestamp"):
        rest.ClearField(field)
    if not rest.namespace or rest.namespace == namespace:
        rest.ClearField("namespace")
    # Clients of protobuf write every field, also those that are zero.
    if any(value not in ("", 0) for _, value in rest.ListFields()):
        errors.invalid("metadata", "", "must be empty" + (" except for namespace" if namespace else ""))


def _create_token(request: authentication.TokenRequest, errors: Errors) -> None:
    seconds = request.spec.expirationSeconds
    if seconds < _MIN_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MAX_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


RULES = {
    authorization.SubjectAccessReview: Rules(create=_create, update=lambda obj, old, errors: None),
    authorization.LocalSubjectAccessReview: Rules(create=_create_local, update=lambda obj, old, errors: None),
    authorization.SelfSubjectAccessReview: Rules(create=_create_self, update=lambda obj, old, errors: None),
    authentication.TokenRequest: Rules(create=_create_token, update=lambda obj, old, errors: None),
}
