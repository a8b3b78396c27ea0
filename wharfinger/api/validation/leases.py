"""Leases. Rules: the API reference of ``Lease``."""

from __future__ import annotations

from wharfinger.api.types import coordination
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules


def _validate_spec(spec: coordination.LeaseSpec, errors: Errors) -> None:
    if spec.HasField("leaseDurationSeconds") and spec.leaseDurationSeconds <= 0:
        errors.invalid("spec.leaseDurationSeconds", spec.leaseDurationSeconds, "must be greater than 0")
    if spec.HasField("leaseTransitions") and spec.leaseTransitions < 0:
        errors.invalid("spec.leaseTransitions", spec.leaseTransitions, "must be greater than or equal to 0")
    if spec.HasField("strategy"):
        if "/" in spec.strategy:
            errors.complaints("spec.strategy", spec.strategy, names.qualified_name(spec.strategy))
        else:
            one_of(errors, "spec.strategy", spec.strategy, ("OldestEmulationVersion",))
    if spec.preferredHolder and not spec.strategy:
        errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def _create(lease: coordination.Lease, errors: Errors) -> None:
    metadata.validate_kind(lease.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _validate_spec(lease.spec, errors)


def _update(lease: coordination.Lease, old: coordination.Lease, errors: Errors) -> None:
    metadata.validate_kind_update(lease.metadata, old.metadata, errors)
    _validate_spec(lease.spec, errors)


RULES = {coordination.Lease: Rules(create=_create, update=_update)}
