"""Nodes. Rules: the API reference of ``Node``."""

from __future__ import annotations

from wharfinger.api.types import core
from wharfinger.api.validation import metadata, names, scheduling
from wharfinger.api.validation.common import is_cidr, is_dual_stack
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules
from wharfinger.api.validation.resources import ResourceList, validate_quantity

_CIDR_CHANGED = 'node updates may not change podCIDR except from "" to valid'


def _create(node: core.Node, errors: Errors) -> None:
    metadata.validate_kind(node.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    if node.spec.taints:
        # "metadata" is where the reference reports it.
        scheduling.validate_taints(node.spec.taints, errors, "metadata.taints")
    _validate_resources(node, errors)
    ranges = list(node.spec.podCIDRs) or ([node.spec.podCIDR] if node.spec.podCIDR else [])
    for index, cidr in enumerate(ranges):
        is_cidr(errors, f"spec.podCIDRs[{index}]", cidr)
    if len(ranges) > 1:
        if len(ranges) > 2 or not is_dual_stack(ranges):
            errors.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")
        for index, cidr in enumerate(ranges):
            if cidr in ranges[:index]:
                errors.duplicate(f"spec.podCIDRs[{index}]", cidr)


def _validate_resources(node: core.Node, errors: Errors) -> None:
    lists: tuple[tuple[str, ResourceList], ...] = (
        ("capacity", node.status.capacity),
        ("allocatable", node.status.allocatable),
    )
    for field, amounts in lists:
        for name, amount in amounts.items():
            validate_quantity(name, amount, errors, f"status.{field}.{name}")


def _update(node: core.Node, old: core.Node, errors: Errors) -> None:
    metadata.validate_kind_update(node.metadata, old.metadata, errors)
    _validate_resources(node, errors)
    seen = set()
    for index, address in enumerate(node.status.addresses):
        key = (address.type, address.address)
        if key in seen:
            errors.duplicate(f"status.addresses[{index}]", f"{address.type}={address.address}")
        seen.add(key)
    spec, was = node.spec, old.spec
    ranges = list(spec.podCIDRs) or ([spec.podCIDR] if spec.podCIDR else [])
    before = list(was.podCIDRs) or ([was.podCIDR] if was.podCIDR else [])
    if before and len(before) != len(ranges):
        errors.forbidden("spec.podCIDRs", _CIDR_CHANGED)
    elif before:
        for now, then in zip(ranges, before, strict=True):
            if now != then:
                errors.forbidden("spec.podCIDRs", _CIDR_CHANGED)
    if was.providerID and spec.providerID != was.providerID:
        errors.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    if spec.taints:
        scheduling.validate_taints(spec.taints, errors, "metadata.taints")
    if spec.externalID != was.externalID:
        errors.forbidden("spec.externalID", "may not be updated")


RULES = {core.Node: Rules(create=_create, update=_update, subresources={"status": _update})}
