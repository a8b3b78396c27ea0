"""Priority levels of API requests. Rules: "API Priority and Fairness" in Kubernetes' documentation.

Nothing acts on them here; they are judged all the same, so that what is stored is what Kubernetes would store.
"""

from __future__ import annotations

from wharfinger.api.types import flowcontrol
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_LEVELS = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_MOST_QUEUES = 10_000_000
_WHOLE = 100


def _validate_spec(spec: flowcontrol.PriorityLevelConfigurationSpec, errors: Errors) -> None:
    if spec.type == "Limited":
        if spec.HasField("exempt"):
            errors.forbidden("spec.exempt", "must be nil if the type is Limited")
        if spec.HasField("limited"):
            _validate_limited(spec.limited, errors)
        else:
            errors.required("spec.limited", "must not be empty when type is Limited")
    elif spec.type == "Exempt":
        if spec.HasField("limited"):
            errors.forbidden("spec.limited", "must be nil if the type is not Limited")
        if spec.HasField("exempt"):
            _validate_shares(spec.exempt, errors, "spec.exempt")
    else:
        errors.not_supported("spec.type", spec.type, _LEVELS)


def _validate_shares(
    level: flowcontrol.LimitedPriorityLevelConfiguration | flowcontrol.ExemptPriorityLevelConfiguration,
    errors: Errors,
    path: str,
) -> None:
    if level.nominalConcurrencyShares < 0:
        errors.invalid(
            f"{path}.nominalConcurrencyShares", level.nominalConcurrencyShares, "must be a non-negative integer"
        )
    if not 0 <= level.lendablePercent <= _WHOLE:
        errors.invalid(f"{path}.lendablePercent", level.lendablePercent, "must be between 0 and 100, inclusive")


def _validate_limited(level: flowcontrol.LimitedPriorityLevelConfiguration, errors: Errors) -> None:
    path = "spec.limited"
    _validate_shares(level, errors, path)
    if level.borrowingLimitPercent < 0:
        errors.invalid(
            f"{path}.borrowingLimitPercent", level.borrowingLimitPercent, "if specified, must be a non-negative integer"
        )
    response, at = level.limitResponse, f"{path}.limitResponse"
    if response.type == "Queue":
        if response.HasField("queuing"):
            _validate_queuing(response.queuing, errors, f"{at}.queuing")
        else:
            errors.required(f"{at}.queuing", "must not be empty if limitResponse.type is Queue")
    elif response.type == "Reject":
        if response.HasField("queuing"):
            errors.forbidden(f"{at}.queuing", "must be nil if limitResponse.type is not Queue")
    else:
        errors.not_supported(f"{at}.type", response.type, _RESPONSES)


def _validate_queuing(queuing: flowcontrol.QueuingConfiguration, errors: Errors, path: str) -> None:
    if queuing.queueLengthLimit <= 0:
        errors.invalid(f"{path}.queueLengthLimit", queuing.queueLengthLimit, "must be positive")
    if queuing.queues <= 0:
        errors.invalid(f"{path}.queues", queuing.queues, "must be positive")
    elif queuing.queues > _MOST_QUEUES:
        errors.invalid(f"{path}.queues", queuing.queues, f"must not be greater than {_MOST_QUEUES}")
    if queuing.handSize <= 0:
        errors.invalid(f"{path}.handSize", queuing.handSize, "must be positive")
    elif queuing.handSize > queuing.queues:
        errors.invalid(f"{path}.handSize", queuing.handSize, f"must not be greater than queues ({queuing.queues})")


def _create(level: flowcontrol.PriorityLevelConfiguration, errors: Errors) -> None:
    metadata.validate_kind(level.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    _validate_spec(level.spec, errors)


def _update(
    level: flowcontrol.PriorityLevelConfiguration, old: flowcontrol.PriorityLevelConfiguration, errors: Errors
) -> None:
    metadata.validate_kind_update(level.metadata, old.metadata, errors)
    _validate_spec(level.spec, errors)


RULES = {flowcontrol.PriorityLevelConfiguration: Rules(create=_create, update=_update)}
