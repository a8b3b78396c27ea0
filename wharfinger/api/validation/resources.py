"""Names and amounts of resources: what containers, pods, nodes and quotas may count.

Answers are cached by name and notation: a cluster repeats few of them endlessly.

Rules: "Resource management for Pods and Containers" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from wharfinger.api import quantity
from wharfinger.api.types import core
from wharfinger.api.types import quantity as quantity_messages
from wharfinger.api.validation import names
from wharfinger.api.validation.errors import Errors

ResourceList = Mapping[str, quantity_messages.Quantity]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OBJECT_COUNTS = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_QUOTA = frozenset({
    *_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE),
    "requests.storage", *_OBJECT_COUNTS,
})  # fmt: skip
_STANDARD = _QUOTA | {"storage"}
_CONTAINER = frozenset(_COMPUTE)
HUGE_PAGES = "hugepages-"
POD_LEVEL = ("cpu", "memory")
"""What can be set for a pod as a whole, besides huge pages."""


def is_huge_page(name: str) -> bool:
    """Whether a resource is a size of huge pages."""
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Whether a resource is one of Kubernetes' own, not a device plugin's."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is a device plugin's: ``example.com/gpu``."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified_name("requests." + name)


def is_overcommit_allowed(name: str) -> bool:
    """Whether limits may exceed requests."""
    return is_native(name) and not is_huge_page(name)


def is_quota_resource(name: str) -> bool:
    """Whether a name without a domain is one that quotas count."""
    return name in _QUOTA or name.startswith((HUGE_PAGES, "requests." + HUGE_PAGES))


@lru_cache(maxsize=8192)
def resource_name(name: str) -> names.Complaints:
    """Judge the name of a resource."""
    complaints = names.qualified_name(name)
    if not complaints and "/" not in name and name not in _STANDARD and not is_huge_page(name):
        return ("must be a standard resource type or fully qualified",)
    return complaints


@lru_cache(maxsize=8192)
def container_resource_name(name: str) -> names.Complaints:
    """Judge the name of a resource that a container asks for."""
    complaints = resource_name(name)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            return (*complaints, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        return (*complaints, "must follow the naming of extended resources (such as 'example.com/gpu')")
    return complaints


@lru_cache(maxsize=8192)
def quota_resource_name(name: str) -> names.Complaints:
    """Judge the name of something that a quota counts."""
    complaints = resource_name(name)
    if "/" not in name and not is_quota_resource(name):
        return (*complaints, "must be a standard resource for quota")
    return complaints


@lru_cache(maxsize=16384)
def quantity_value(name: str, text: str) -> names.Complaints:
    """Judge an amount: not negative, and whole for what is counted in pieces."""
    amount = quantity.parse(text or "0")
    complaints: names.Complaints = ()
    if amount.nanos < 0:
        complaints = ("must be greater than or equal to 0",)
    if (name in _OBJECT_COUNTS or is_extended(name)) and amount.milli_value() % 1000:
        complaints = (*complaints, "must be an integer")
    return complaints


def validate_quantity(name: str, amount: quantity_messages.Quantity, errors: Errors, path: str) -> None:
    """Judge one amount of a resource."""
    complaints = quantity_value(name, amount.string)
    if complaints:
        errors.complaints(path, amount.string, complaints)


@lru_cache(maxsize=4096)
def _huge_page_complaint(name: str, text: str) -> names.Complaints:
    try:
        size = quantity.parse(name[len(HUGE_PAGES) :])
    except ValueError:
        return (f"must be a multiple of a page size, and {name!r} names none",)
    if size.nanos <= 0 or size.milli_value() % 1000 or quantity.parse(text or "0").value() % size.value():
        return (f"must be a positive integer multiple of {name}",)
    return ()


NameRule = Callable[[str], names.Complaints]


def pod_resource_name(name: str, errors: Errors, path: str) -> None:
    """Judge the name of a resource set for the pod as a whole."""
    complaints = resource_name(name)
    if complaints:
        errors.complaints(path, name, complaints)
    elif name not in POD_LEVEL and not is_huge_page(name):
        errors.not_supported(path, name, POD_LEVEL)


def _container_name(name: str, errors: Errors, path: str) -> None:
    complaints = container_resource_name(name)
    if complaints:
        errors.complaints(path, name, complaints)


def validate_requirements(
    requirements: core.ResourceRequirements,
    errors: Errors,
    path: str,
    *,
    claims: Collection[str] = (),
    pod_level: bool = False,
) -> None:
    """Judge requests and limits of a container, or of a pod as a whole; `claims` are the pod's resource claims."""
    judge_name = pod_resource_name if pod_level else _container_name
    limits = requirements.limits
    requests = requirements.requests
    if limits or requests:
        compute = huge = False
        for name, amount in limits.items():
            _validate_entry(name, amount, errors, f"{path}.limits[{name}]", judge_name)
            huge = huge or is_huge_page(name)
            compute = compute or name in POD_LEVEL
        for name, amount in requests.items():
            at = f"{path}.requests[{name}]"
            _validate_entry(name, amount, errors, at, judge_name, huge_page=False)
            if name in limits:
                _compare(name, amount.string, limits[name].string, errors, f"{path}.requests")
            elif not is_overcommit_allowed(name):
                errors.required(f"{path}.limits", "limit must be set for resources that cannot be overcommitted")
            if is_huge_page(name):
                huge = True
                errors.complaints(at, amount.string, _huge_page_complaint(name, amount.string))
            compute = compute or name in POD_LEVEL
        if huge and not compute:
            errors.forbidden(path, "huge pages require cpu or memory")
    if requirements.claims:
        _validate_claim_names(requirements, errors, f"{path}.claims", claims)


def _validate_entry(
    name: str,
    amount: quantity_messages.Quantity,
    errors: Errors,
    path: str,
    judge_name: Callable[[str, Errors, str], None],
    *,
    huge_page: bool = True,
) -> None:
    judge_name(name, errors, path)
    complaints = quantity_value(name, amount.string)
    if complaints:
        errors.complaints(path, amount.string, complaints)
    if huge_page and is_huge_page(name):
        errors.complaints(path, amount.string, _huge_page_complaint(name, amount.string))


def _compare(name: str, request: str, limit: str, errors: Errors, path: str) -> None:
    if request == limit:
        return
    asked, allowed = quantity.parse(request or "0"), quantity.parse(limit or "0")
    if asked != allowed and not is_overcommit_allowed(name):
        errors.invalid(path, request, f"must be equal to {name} limit of {limit}")
    elif asked > allowed:
        errors.invalid(path, request, f"must be less than or equal to {name} limit of {limit}")


def _validate_claim_names(
    requirements: core.ResourceRequirements, errors: Errors, path: str, claims: Collection[str]
) -> None:
    seen: set[str] = set()
    requested: dict[str, int] = {}
    """By claim: how many of its requests were named before."""
    for index, claim in enumerate(requirements.claims):
        at = f"{path}[{index}]"
        name = claim.name
        if not name:
            errors.required(at)
            continue
        if name in seen:
            errors.duplicate(at, name)
        else:
            key = name
            if claim.request:
                errors.complaints(f"{at}.request", claim.request, names.dns1123_label(claim.request))
                key = f"{name}/{claim.request}"
            if key in seen:
                errors.duplicate(at, key)
            elif claim.request:
                requested[name] = requested.get(name, 0) + 1
            else:
                for _ in range(requested.get(name, 0)):
                    errors.duplicate(at, name)
            seen.add(key)
        if name not in claims:
            errors.not_found(at, name)


def validate_list(amounts: ResourceList, errors: Errors, path: str, judge_name: NameRule | None = None) -> None:
    """Judge a map of amounts; entries stand at ``path[name]``."""
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        if judge_name is not None:
            errors.complaints(at, name, judge_name(name))
        validate_quantity(name, amount, errors, at)
