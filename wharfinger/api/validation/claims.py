"""Claims to persistent volumes, on their own and in templates.

Rules: "Persistent Volumes" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.api.types import core
from wharfinger.api.validation import metadata, names, resources
from wharfinger.api.validation.common import amount, basic_quantity, label_selector, one_of, positive_quantity
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_RESIZE_STATUSES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending", "NodeResizeInProgress",
    "NodeResizeInfeasible",
)  # fmt: skip


def validate_claim(claim: core.PersistentVolumeClaim, errors: Errors) -> None:
    """Judge a new claim."""
    metadata.validate_kind(claim.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    validate_claim_spec(claim.spec, errors, "spec")


def validate_claim_template(template: core.PersistentVolumeClaimTemplate, errors: Errors, path: str) -> None:
    """Judge the claim that a generic ephemeral volume makes."""
    metadata.validate_template(template.metadata, errors, f"{path}.metadata")
    validate_claim_spec(template.spec, errors, f"{path}.spec")


def validate_access_modes(modes: Iterable[str], errors: Errors, path: str) -> None:
    """Judge access modes: known ones, and ReadWriteOncePod alone."""
    found = list(modes)
    for mode in found:
        one_of(errors, path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in found and any(mode in ACCESS_MODES and mode != "ReadWriteOncePod" for mode in found):
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def validate_claim_spec(spec: core.PersistentVolumeClaimSpec, errors: Errors, path: str) -> None:
    """Judge what a claim asks for."""
    if not spec.accessModes:
        errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.HasField("selector"):
        label_selector(spec.selector, errors, f"{path}.selector")
    validate_access_modes(spec.accessModes, errors, f"{path}.accessModes")
    at = f"{path}.resources[storage]"
    requests = spec.resources.requests
    if "storage" not in requests:
        errors.required(at)
    else:
        positive_quantity(requests["storage"], errors, at)
    if spec.storageClassName:
        errors.complaints(
            f"{path}.storageClassName", spec.storageClassName, names.dns1123_subdomain(spec.storageClassName)
        )
    if spec.HasField("volumeMode"):
        one_of(errors, f"{path}.volumeMode", spec.volumeMode, VOLUME_MODES)
    _validate_sources(spec, errors, path)
    if spec.volumeAttributesClassName:
        name = spec.volumeAttributesClassName
        errors.complaints(f"{path}.volumeAttributesClassName", name, names.dns1123_subdomain(name))


def _validate_sources(spec: core.PersistentVolumeClaimSpec, errors: Errors, path: str) -> None:
    source = spec.dataSource if spec.HasField("dataSource") else None
    reference = spec.dataSourceRef if spec.HasField("dataSourceRef") else None
    if source is not None:
        _validate_source(source, errors, f"{path}.dataSource")
    if reference is None:
        return
    _validate_source(reference, errors, f"{path}.dataSourceRef")
    if reference.namespace:
        errors.complaints(
            f"{path}.dataSourceRef.namespace", reference.namespace, names.dns1123_label(reference.namespace)
        )
        if source is not None:
            errors.invalid(path, "dataSource", "may not be specified when dataSourceRef.namespace is specified")
    elif source is not None and (source.apiGroup, source.kind, source.name) != (
        reference.apiGroup,
        reference.kind,
        reference.name,
    ):
        errors.invalid(path, "dataSource", "must match dataSourceRef")


def _validate_source(
    source: core.TypedLocalObjectReference | core.TypedObjectReference, errors: Errors, path: str
) -> None:
    if not source.name:
        errors.required(f"{path}.name")
    if not source.kind:
        errors.required(f"{path}.kind")
    if not source.apiGroup:
        if source.kind != "PersistentVolumeClaim":
            errors.invalid(path, source.kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    else:
        errors.complaints(f"{path}.apiGroup", source.apiGroup, names.dns1123_subdomain(source.apiGroup))


def _update(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, errors: Errors) -> None:
    metadata.validate_kind_update(claim.metadata, old.metadata, errors)
    validate_claim(claim, errors)
    new_spec, old_spec = core.PersistentVolumeClaimSpec(), core.PersistentVolumeClaimSpec()
    new_spec.CopyFrom(claim.spec)
    old_spec.CopyFrom(old.spec)
    if not old_spec.volumeName:
        old_spec.volumeName = new_spec.volumeName
    _reconcile_class(claim, old, new_spec, errors)
    bound = claim.status.phase == "Bound"
    if bound and new_spec.resources.requests:
        _copy_storage(new_spec, old_spec)
    if bound and new_spec.HasField("volumeAttributesClassName"):
        _copy_attributes_class(new_spec, old_spec)
    if not semantic_equal(new_spec, old_spec):
        errors.forbidden(
            "spec",
            "is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )
    new_size = amount(claim.spec.resources.requests["storage"]) if "storage" in claim.spec.resources.requests else None
    old_size = amount(old.spec.resources.requests["storage"]) if "storage" in old.spec.resources.requests else None
    if new_size is not None and old_size is not None and new_size < old_size:
        held = amount(old.status.capacity["storage"]) if "storage" in old.status.capacity else None
        if held is None or new_size <= held:
            errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if claim.spec.volumeMode != old.spec.volumeMode:
        errors.invalid("volumeMode", claim.spec.volumeMode, metadata.IMMUTABLE)
    _validate_attributes_class(claim, old, errors)


def _copy_storage(new: core.PersistentVolumeClaimSpec, old: core.PersistentVolumeClaimSpec) -> None:
    if "storage" in old.resources.requests:
        new.resources.requests["storage"].CopyFrom(old.resources.requests["storage"])
    elif "storage" in new.resources.requests:
        del new.resources.requests["storage"]


def _copy_attributes_class(new: core.PersistentVolumeClaimSpec, old: core.PersistentVolumeClaimSpec) -> None:
    if old.HasField("volumeAttributesClassName"):
        new.volumeAttributesClassName = old.volumeAttributesClassName
    else:
        new.ClearField("volumeAttributesClassName")


def _reconcile_class(
    claim: core.PersistentVolumeClaim,
    old: core.PersistentVolumeClaim,
    new_spec: core.PersistentVolumeClaimSpec,
    errors: Errors,
) -> None:
    """Let the class be set once where there was none, and move from the old annotation to the field."""
    annotated = old.metadata.annotations.get(_CLASS_ANNOTATION)
    newly = claim.metadata.annotations.get(_CLASS_ANNOTATION)
    sets_class = claim.spec.HasField("storageClassName") and not old.spec.HasField("storageClassName")
    if annotated is not None and sets_class and claim.spec.storageClassName == annotated and newly in (None, annotated):
        new_spec.ClearField("storageClassName")
        return
    if (annotated or "") != (newly or ""):
        errors.invalid(f"metadata.annotations.{_CLASS_ANNOTATION}", newly, metadata.IMMUTABLE)
    if sets_class and annotated in (None, claim.spec.storageClassName):
        new_spec.ClearField("storageClassName")


def _validate_attributes_class(
    claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, errors: Errors
) -> None:
    if old.spec.HasField("volumeAttributesClassName"):
        if not claim.spec.HasField("volumeAttributesClassName"):
            errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")
        elif not claim.spec.volumeAttributesClassName and old.spec.volumeAttributesClassName:
            errors.forbidden(
                "spec.volumeAttributesClassName", "update from non-nil value to an empty string is forbidden"
            )


def _update_status(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, errors: Errors) -> None:
    metadata.validate_kind_update(claim.metadata, old.metadata, errors)
    if not claim.spec.accessModes:
        errors.required("Spec.accessModes")
    for name, held in claim.status.capacity.items():
        basic_quantity(held, errors, f"status.capacity[{name}]")
    for name, status in claim.status.allocatedResourceStatuses.items():
        _validate_resource_key(name, errors, "status.allocatedResourceStatus")
        one_of(errors, "status.allocatedResourceStatus", status, _RESIZE_STATUSES)
    for name, allocated in claim.status.allocatedResources.items():
        before = len(errors)
        _validate_resource_key(name, errors, "status.allocatedResources")
        if len(errors) == before:
            basic_quantity(allocated, errors, f"status.allocatedResources[{name}]")


def _validate_resource_key(name: str, errors: Errors, path: str) -> None:
    complaints = names.qualified_name(name)
    if complaints:
        errors.complaints(path, name, complaints)
    elif resources.is_native(name) and name != "storage":
        errors.not_supported(path, name, ("storage",))


RULES = {
    core.PersistentVolumeClaim: Rules(create=validate_claim, update=_update, subresources={"status": _update_status})
}
