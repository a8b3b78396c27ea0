"""Runtime classes. Rules: "Runtime Class" in Kubernetes' documentation."""

from __future__ import annotations

from wharfinger.api.types import core, node
from wharfinger.api.validation import metadata, names, scheduling
from wharfinger.api.validation.common import required_name
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules
from wharfinger.api.validation.resources import validate_requirements


def _create(cls: node.RuntimeClass, errors: Errors) -> None:
    metadata.validate_kind(cls.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    required_name(errors, "handler", cls.handler, names.dns1123_label)
    if cls.HasField("overhead"):
        overhead = core.ResourceRequirements()
        for name, amount in cls.overhead.podFixed.items():
            overhead.limits[name].CopyFrom(amount)
        # What a sandbox costs is judged, and reported, like the limits of a container.
        validate_requirements(overhead, errors, "overhead")
    if cls.HasField("scheduling"):
        metadata.validate_labels(cls.scheduling.nodeSelector, errors, "scheduling.nodeSelector")
        seen: list[core.Toleration] = []
        for index, toleration in enumerate(cls.scheduling.tolerations):
            if toleration in seen:
                errors.duplicate(f"scheduling.tolerations[{index}]", toleration.key)
            seen.append(toleration)
        scheduling.validate_tolerations(cls.scheduling.tolerations, errors, "scheduling.tolerations")


def _update(cls: node.RuntimeClass, old: node.RuntimeClass, errors: Errors) -> None:
    metadata.validate_kind_update(cls.metadata, old.metadata, errors)
    metadata.immutable(errors, "handler", cls.handler, old.handler)


RULES = {node.RuntimeClass: Rules(create=_create, update=_update)}
