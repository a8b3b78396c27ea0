"""Namespaces. Rules: the API reference of ``Namespace``."""

from __future__ import annotations

from wharfinger.api.types import core
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules, status_metadata


def _create(namespace: core.Namespace, errors: Errors) -> None:
    metadata.validate_kind(namespace.metadata, errors, namespaced=False, name=names.dns1123_label)
    for finalizer in namespace.spec.finalizers:
        _validate_finalizer(finalizer, errors, "spec.finalizers")


def _validate_finalizer(finalizer: str, errors: Errors, path: str) -> None:
    errors.complaints(path, finalizer, names.qualified_name(finalizer))
    metadata.validate_kube_finalizer(finalizer, errors, path)


def _update_status(namespace: core.Namespace, old: core.Namespace, errors: Errors) -> None:
    metadata.validate_kind_update(namespace.metadata, old.metadata, errors)
    phase = namespace.status.phase
    if not namespace.metadata.HasField("deletionTimestamp"):
        if phase != "Active":
            errors.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
    elif phase != "Terminating":
        errors.invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")


def _update_finalize(namespace: core.Namespace, old: core.Namespace, errors: Errors) -> None:
    metadata.validate_kind_update(namespace.metadata, old.metadata, errors)
    for index, finalizer in enumerate(namespace.spec.finalizers):
        _validate_finalizer(finalizer, errors, f"spec.finalizers[{index}]")


RULES = {
    core.Namespace: Rules(
        create=_create,
        update=status_metadata,
        subresources={"status": _update_status, "finalize": _update_finalize},
    )
}
