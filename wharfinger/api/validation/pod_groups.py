"""Groups of pods that are placed together: a kind of our own, see docs/scheduling.md."""

from __future__ import annotations

from wharfinger.api.types import gangs
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import nonnegative, one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

LARGEST = 5000
"""Members that may have to run at the same time: they are decided in one go."""
LONGEST_SECONDS = 86_400
PHASES = ("Pending", "Scheduling", "Scheduled")


def _create(group: gangs.PodGroup, errors: Errors) -> None:
    metadata.validate_kind(group.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    spec = group.spec
    if not 1 <= spec.minMember <= LARGEST:
        errors.invalid("spec.minMember", spec.minMember, f"must be between 1 and {LARGEST}, inclusive")
    if not 1 <= spec.scheduleTimeoutSeconds <= LONGEST_SECONDS:
        errors.invalid(
            "spec.scheduleTimeoutSeconds",
            spec.scheduleTimeoutSeconds,
            f"must be between 1 and {LONGEST_SECONDS}, inclusive",
        )


def _update(group: gangs.PodGroup, old: gangs.PodGroup, errors: Errors) -> None:
    metadata.validate_kind_update(group.metadata, old.metadata, errors)
    _create(group, errors)


def _update_status(group: gangs.PodGroup, old: gangs.PodGroup, errors: Errors) -> None:
    metadata.validate_kind_update(group.metadata, old.metadata, errors)
    status = group.status
    for field in ("members", "scheduled", "succeeded"):
        nonnegative(errors, f"status.{field}", getattr(status, field))
    if status.phase:
        one_of(errors, "status.phase", status.phase, PHASES)


RULES = {gangs.PodGroup: Rules(create=_create, update=_update, subresources={"status": _update_status})}
