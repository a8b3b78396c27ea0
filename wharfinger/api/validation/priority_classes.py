"""Priority classes. Rules: "Pod Priority and Preemption" in Kubernetes' documentation."""

from __future__ import annotations

from wharfinger.api.types import scheduling
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.pod_spec import PREEMPTION_POLICIES
from wharfinger.api.validation.registry import Rules

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""The system's own classes and their values."""


def _create(priority: scheduling.PriorityClass, errors: Errors) -> None:
    metadata.validate_kind(priority.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    name = priority.metadata.name
    if name.startswith(SYSTEM_PREFIX):
        if SYSTEM.get(name) != priority.value or priority.globalDefault:
            errors.forbidden("metadata.name", "names that start with system- are reserved for the system's classes")
    elif priority.value > HIGHEST_USER_PRIORITY:
        errors.forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    if priority.HasField("preemptionPolicy"):
        one_of(errors, "preemptionPolicy", priority.preemptionPolicy, PREEMPTION_POLICIES, required=True)


def _update(priority: scheduling.PriorityClass, old: scheduling.PriorityClass, errors: Errors) -> None:
    metadata.validate_kind_update(priority.metadata, old.metadata, errors)
    if priority.value != old.value:
        errors.forbidden("value", "may not be changed in an update")
    if priority.preemptionPolicy != old.preemptionPolicy:
        errors.invalid("preemptionPolicy", priority.preemptionPolicy, metadata.IMMUTABLE)


RULES = {scheduling.PriorityClass: Rules(create=_create, update=_update)}
