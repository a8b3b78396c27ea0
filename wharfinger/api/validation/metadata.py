"""What holds for the metadata of every kind: names, labels, annotations, owners, finalizers, and what never changes.

Kubernetes runs these rules once in general and once more per kind; causes that appear twice in its answers stem from
that, and are kept (:mod:`wharfinger.api.validation` puts the passes together).

Two things are not judged here because the server settles them before: the resourceVersion of an update (the store
fills it in or refuses) and managedFields (what a client sends is replaced).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import Message

from wharfinger.api.types import meta
from wharfinger.api.validation import names
from wharfinger.api.validation.errors import Errors

NameCheck = Callable[[str], names.Complaints]

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all keys and values together."""

STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
IMMUTABLE = "field is immutable"


def validate(
    metadata: meta.ObjectMeta, errors: Errors, *, namespaced: bool, name: NameCheck, path: str = "metadata"
) -> None:
    """Judge metadata as the general pass does; the object has its namespace and generated name by now."""
    prefix = metadata.generateName
    if prefix:
        complaints = names.generated(name, prefix)
        if complaints:
            errors.complaints(f"{path}.generateName", prefix, complaints)
    own = metadata.name
    if not own:
        errors.required(f"{path}.name", "name or generateName is required")
    else:
        complaints = name(own)
        if complaints:
            errors.complaints(f"{path}.name", own, complaints)
    namespace = metadata.namespace
    if not namespaced:
        if namespace:
            errors.forbidden(f"{path}.namespace", "not allowed on this type")
    elif not namespace:
        errors.required(f"{path}.namespace")
    else:
        complaints = names.dns1123_label(namespace)
        if complaints:
            errors.complaints(f"{path}.namespace", namespace, complaints)
    if metadata.generation < 0:
        errors.invalid(f"{path}.generation", metadata.generation, "must be greater than or equal to 0")
    _annexes(metadata, errors, path)
    validate_finalizers(metadata.finalizers, errors, f"{path}.finalizers")


def validate_kind(
    metadata: meta.ObjectMeta, errors: Errors, *, namespaced: bool, name: NameCheck, path: str = "metadata"
) -> None:
    """Judge metadata as the pass of a built-in kind does: like :func:`validate`, with stricter finalizers."""
    validate(metadata, errors, namespaced=namespaced, name=name, path=path)
    _kube_finalizers(metadata, errors, path)


def validate_update(metadata: meta.ObjectMeta, old: meta.ObjectMeta, errors: Errors, *, path: str = "metadata") -> None:
    """Judge changed metadata as the general pass does."""
    if old.HasField("deletionTimestamp"):
        known = set(old.finalizers)
        added = sorted(set(metadata.finalizers) - known)
        if added:
            errors.forbidden(
                f"{path}.finalizers", f"no new finalizers can be added if the object is being deleted, found {added}"
            )
    if metadata.generation < old.generation:
        errors.invalid(f"{path}.generation", metadata.generation, "must not be decremented")
    for field in ("name", "namespace", "uid"):
        immutable(errors, f"{path}.{field}", getattr(metadata, field), getattr(old, field))
    for field in ("creationTimestamp", "deletionTimestamp"):
        new_time, old_time = getattr(metadata, field), getattr(old, field)
        if new_time.seconds != old_time.seconds or metadata.HasField(field) != old.HasField(field):
            errors.invalid(f"{path}.{field}", new_time.seconds, IMMUTABLE)
    if metadata.HasField("deletionGracePeriodSeconds") != old.HasField("deletionGracePeriodSeconds") or (
        metadata.deletionGracePeriodSeconds != old.deletionGracePeriodSeconds
    ):
        errors.invalid(f"{path}.deletionGracePeriodSeconds", metadata.deletionGracePeriodSeconds, IMMUTABLE)
    _annexes(metadata, errors, path)


def validate_kind_update(
    metadata: meta.ObjectMeta, old: meta.ObjectMeta, errors: Errors, *, path: str = "metadata"
) -> None:
    """Judge changed metadata as the pass of a built-in kind does."""
    validate_update(metadata, old, errors, path=path)
    _kube_finalizers(metadata, errors, path)


def _annexes(metadata: meta.ObjectMeta, errors: Errors, path: str) -> None:
    labels = metadata.labels
    if labels:
        validate_labels(labels, errors, f"{path}.labels")
    annotations = metadata.annotations
    if annotations:
        validate_annotations(annotations, errors, f"{path}.annotations")
    owners = metadata.ownerReferences
    if owners:
        _validate_owners(owners, errors, f"{path}.ownerReferences")


def validate_labels(labels: Mapping[str, str], errors: Errors, path: str) -> None:
    """Judge labels, a node selector or the labels of a template."""
    for key, value in labels.items():
        complaints = names.qualified_name(key)
        if complaints:
            errors.complaints(path, key, complaints)
        complaints = names.label_value(value)
        if complaints:
            errors.complaints(path, value, complaints)


def validate_label_name(key: str, errors: Errors, path: str) -> None:
    """Judge the key of a label."""
    complaints = names.qualified_name(key)
    if complaints:
        errors.complaints(path, key, complaints)


def validate_annotations(annotations: Mapping[str, str], errors: Errors, path: str) -> None:
    """Judge annotations: their keys, and the size of all together."""
    total = 0
    for key, value in annotations.items():
        complaints = names.qualified_name(key.lower())
        if complaints:
            errors.complaints(path, key, complaints)
        total += len(key) + len(value)
    if total > ANNOTATIONS_LIMIT // 4:  # a character has at most four bytes
        total = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if total > ANNOTATIONS_LIMIT:
            errors.too_long(path, ANNOTATIONS_LIMIT)


def _validate_owners(owners: object, errors: Errors, path: str) -> None:
    controllers = []
    for owner in owners:  # type: ignore[attr-defined]
        parts = owner.apiVersion.split("/")
        group, version = ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
        broken = len(parts) > 2
        if broken or not version:
            errors.invalid(f"{path}.apiVersion", owner.apiVersion, "version must not be empty")
        if broken or not owner.kind:
            errors.invalid(f"{path}.kind", owner.kind, "must not be empty")
        if not owner.name:
            errors.invalid(f"{path}.name", owner.name, "must not be empty")
        if not owner.uid:
            errors.invalid(f"{path}.uid", owner.uid, "must not be empty")
        if not group and version == "v1" and owner.kind == "Event":
            errors.invalid(path, owner.name, "an Event is disallowed from being an owner")
        if owner.controller:
            controllers.append(f"{owner.kind}/{owner.name}")
    if len(controllers) > 1:
        errors.invalid(path, controllers, "only one reference can have controller set to true")


def validate_finalizers(finalizers: object, errors: Errors, path: str) -> None:
    """Judge finalizers as the general pass does."""
    found = list(finalizers)  # type: ignore[call-overload]
    if not found:
        return
    for finalizer in found:
        complaints = names.qualified_name(finalizer)
        if complaints:
            errors.complaints(path, finalizer, complaints)
    if "orphan" in found and "foregroundDeletion" in found:
        errors.invalid(path, found, "orphan and foregroundDeletion cannot both be set")


def validate_kube_finalizer(finalizer: str, errors: Errors, path: str) -> None:
    """Judge a finalizer without a domain: only three are known."""
    if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
        errors.invalid(path, finalizer, "must be a standard finalizer or have a domain (such as 'example.com/name')")


def _kube_finalizers(metadata: meta.ObjectMeta, errors: Errors, path: str) -> None:
    for index, finalizer in enumerate(metadata.finalizers):
        validate_kube_finalizer(finalizer, errors, f"{path}.finalizers[{index}]")


def immutable(errors: Errors, path: str, new: object, old: object) -> None:
    """Note that a field that never changes did."""
    if new != old:
        errors.invalid(path, None if isinstance(new, Message) else new, IMMUTABLE)


def validate_template(metadata: meta.ObjectMeta, errors: Errors, path: str) -> None:
    """Judge the metadata of a claim template, where only labels and annotations may be set."""
    validate_annotations(metadata.annotations, errors, f"{path}.annotations")
    validate_labels(metadata.labels, errors, f"{path}.labels")
    for field, value in metadata.ListFields():
        if field.name not in ("labels", "annotations") and (field.is_repeated or value or isinstance(value, Message)):
            if field.name == "creationTimestamp" and not value.ByteSize():
                continue
            errors.forbidden(f"{path}.{field.name}", "cannot be set")
