"""Disruption budgets. Rules: "Specifying a Disruption Budget for your Application" in Kubernetes' documentation.

The reference judges their names only as parts of a path.
"""

from __future__ import annotations

from wharfinger.api.types import policy
from wharfinger.api.validation.common import (
    at_most_100_percent,
    label_selector,
    nonnegative,
    one_of,
    positive_int_or_percent,
)
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def _create(budget: policy.PodDisruptionBudget, errors: Errors) -> None:
    spec = budget.spec
    if spec.HasField("minAvailable") and spec.HasField("maxUnavailable"):
        errors.invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if spec.HasField(field):
            positive_int_or_percent(getattr(spec, field), errors, f"spec.{field}")
            at_most_100_percent(getattr(spec, field), errors, f"spec.{field}")
    if spec.HasField("selector"):
        label_selector(spec.selector, errors, "spec.selector")
    if spec.HasField("unhealthyPodEvictionPolicy"):
        one_of(errors, "spec.unhealthyPodEvictionPolicy", spec.unhealthyPodEvictionPolicy, _POLICIES)


def _update(budget: policy.PodDisruptionBudget, old: policy.PodDisruptionBudget, errors: Errors) -> None:
    _create(budget, errors)


def _update_status(budget: policy.PodDisruptionBudget, old: policy.PodDisruptionBudget, errors: Errors) -> None:
    for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        nonnegative(errors, f"status.{field}", getattr(budget.status, field))


RULES = {policy.PodDisruptionBudget: Rules(create=_create, update=_update, subresources={"status": _update_status})}
