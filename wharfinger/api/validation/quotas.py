"""Quotas and limit ranges. Rules: "Resource Quotas" and "Limit Ranges" in Kubernetes' documentation."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.api import quantity
from wharfinger.api.types import core
from wharfinger.api.validation import metadata, names, resources
from wharfinger.api.validation.common import amount
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_COMPUTE = frozenset({"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_SCOPES: dict[str, frozenset[str]] = {
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "NotBestEffort": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""What a quota may count within a scope."""
_ONLY_EXISTS = frozenset({"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"})
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_BAD_SCOPE = "must be one of " + ", ".join(_SCOPES)


def _create_quota(quota: core.ResourceQuota, errors: Errors) -> None:
    metadata.validate_kind(quota.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _quota_spec(quota.spec, errors)
    _quota_status(quota.status, errors)


def _quota_status(status: core.ResourceQuotaStatus, errors: Errors) -> None:
    resources.validate_list(status.hard, errors, "status.hard", resources.quota_resource_name)
    resources.validate_list(status.used, errors, "status.used", resources.quota_resource_name)


def _quota_spec(spec: core.ResourceQuotaSpec, errors: Errors) -> None:
    resources.validate_list(spec.hard, errors, "spec.hard", resources.quota_resource_name)
    counted = sorted(name for name in spec.hard if resources.is_quota_resource(name))
    scopes = list(spec.scopes)
    for scope in scopes:
        if scope not in _SCOPES:
            errors.invalid("spec.scopes", scopes, _BAD_SCOPE)
        _fits(scope, counted, errors, "spec.scopes")
    _opposites(scopes, errors, "spec.scopes")
    if spec.HasField("scopeSelector"):
        _scope_selector(spec.scopeSelector, counted, errors, "spec.scopeSelector.matchExpressions")


def _fits(scope: str, counted: list[str], errors: Errors, path: str) -> None:
    allowed = _SCOPES.get(scope)
    for name in counted:
        if allowed is not None and name not in allowed:
            errors.invalid(path, scope, f"{name} cannot be counted within this scope")


def _opposites(scopes: list[str], errors: Errors, path: str) -> None:
    for one, other in _OPPOSITES:
        if one in scopes and other in scopes:
            errors.invalid(path, scopes, "conflicting scopes")


def _scope_selector(selector: core.ScopeSelector, counted: list[str], errors: Errors, path: str) -> None:
    for requirement in selector.matchExpressions:
        scope, operator = requirement.scopeName, requirement.operator
        if scope not in _SCOPES:
            errors.invalid(f"{path}.scopeName", scope, _BAD_SCOPE)
        _fits(scope, counted, errors, path)
        if scope in _ONLY_EXISTS and operator != "Exists":
            errors.invalid(f"{path}.operator", operator, f"must be 'Exists' for the scope {scope}")
        if operator in ("In", "NotIn"):
            if not requirement.values:
                errors.required(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if requirement.values:
                errors.invalid(
                    f"{path}.values", list(requirement.values), "must be empty when `operator` is (Does)NotExist"
                )
        else:
            errors.invalid(f"{path}.operator", operator, "must be In, NotIn, Exists or DoesNotExist")
    _opposites([requirement.scopeName for requirement in selector.matchExpressions], errors, path)


def _update_quota(quota: core.ResourceQuota, old: core.ResourceQuota, errors: Errors) -> None:
    metadata.validate_kind_update(quota.metadata, old.metadata, errors)
    _quota_spec(quota.spec, errors)
    if set(quota.spec.scopes) != set(old.spec.scopes):
        errors.invalid("spec.scopes", list(quota.spec.scopes), metadata.IMMUTABLE)


def _update_quota_status(quota: core.ResourceQuota, old: core.ResourceQuota, errors: Errors) -> None:
    metadata.validate_kind_update(quota.metadata, old.metadata, errors)
    _quota_status(quota.status, errors)


_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


def _create_range(limits: core.LimitRange, errors: Errors) -> None:
    metadata.validate_kind(limits.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    seen: set[str] = set()
    for index, item in enumerate(limits.spec.limits):
        path = f"spec.limits[{index}]"
        complaints = names.qualified_name(item.type)
        if complaints:
            errors.complaints(f"{path}.type", item.type, complaints)
        elif "/" not in item.type and item.type not in _TYPES:
            errors.invalid(f"{path}.type", item.type, "must be a standard limit type or fully qualified")
        if item.type in seen:
            errors.duplicate(f"{path}.type", item.type)
        seen.add(item.type)
        _limits(item, errors, path)


def _limits(item: core.LimitRangeItem, errors: Errors, path: str) -> None:
    of_pod = item.type == "Pod"
    judge: Callable[[str], names.Complaints] = (
        resources.container_resource_name if item.type in ("Pod", "Container") else resources.resource_name
    )
    fields: dict[str, resources.ResourceList] = {
        "max": item.max,
        "min": item.min,
        "default": item.default,
        "defaultRequest": item.defaultRequest,
    }
    for field in ("max", "min"):
        _names(fields[field], judge, errors, f"{path}.{field}")
    for field in ("default", "defaultRequest"):
        if of_pod:
            if fields[field]:
                errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            fields[field] = {}
        else:
            _names(fields[field], judge, errors, f"{path}.{field}")
    if item.type == "PersistentVolumeClaim" and "storage" not in item.min and "storage" not in item.max:
        errors.required(f"{path}.limits", "either minimum or maximum storage value is required")
    _names(item.maxLimitRequestRatio, judge, errors, f"{path}.maxLimitRequestRatio")
    everything = {name for amounts in (*fields.values(), item.maxLimitRequestRatio) for name in amounts}
    for name in sorted(everything):
        values = {field: amount(amounts[name]) for field, amounts in fields.items() if name in amounts}
        ratio = amount(item.maxLimitRequestRatio[name]) if name in item.maxLimitRequestRatio else None
        _order(name, values, ratio, errors, path)


def _names(
    amounts: resources.ResourceList, judge: Callable[[str], names.Complaints], errors: Errors, path: str
) -> None:
    for name in amounts:
        errors.complaints(f"{path}[{name}]", name, judge(name))


_ORDER = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""Which amount may not exceed which, and where a mistake is reported."""


def _order(
    name: str, values: dict[str, quantity.Quantity], ratio: quantity.Quantity | None, errors: Errors, path: str
) -> None:
    for lower, upper, field in _ORDER:
        if lower in values and upper in values and values[lower] > values[upper]:
            errors.invalid(
                f"{path}.{field}[{name}]",
                str(values[field]),
                f"{lower} value {values[lower]} is greater than {upper} value {values[upper]}",
            )
    if ratio is not None:
        at = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio < quantity.Quantity.of(1):
            errors.invalid(at, str(ratio), "must be at least 1")
        least, most = values.get("min"), values.get("max")
        # nanos * nanos, so that nothing is rounded: ratio > max / min
        if least is not None and most is not None and ratio.nanos * least.nanos > most.nanos * quantity.NANO:
            errors.invalid(at, str(ratio), f"is greater than max/min of {most}/{least}")
    default, request = values.get("default"), values.get("defaultRequest")
    rigid = not resources.is_overcommit_allowed(name)
    if rigid and default is not None and request is not None and default != request:
        errors.invalid(f"{path}.defaultRequest[{name}]", str(request), f"must equal the default value {default}")


def _update_range(limits: core.LimitRange, old: core.LimitRange, errors: Errors) -> None:
    # The reference judges a replacement like a new object.
    _create_range(limits, errors)


RULES = {
    core.ResourceQuota: Rules(
        create=_create_quota, update=_update_quota, subresources={"status": _update_quota_status}
    ),
    core.LimitRange: Rules(create=_create_range, update=_update_range),
}
