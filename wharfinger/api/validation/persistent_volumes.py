"""Persistent volumes and the kinds of the storage group.

Rules: "Persistent Volumes", "Storage Classes", and the API references of the storage group.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.api.types import core, storage
from wharfinger.api.validation import metadata, names, paths
from wharfinger.api.validation.claims import VOLUME_MODES, validate_access_modes
from wharfinger.api.validation.common import (
    basic_quantity,
    label_selector,
    nonnegative,
    one_of,
    positive_quantity,
    required_name,
)
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.metadata import validate_label_name
from wharfinger.api.validation.registry import Rules, only_metadata
from wharfinger.api.validation.scheduling import validate_node_selector
from wharfinger.api.validation.storage_sources import (
    SHARED,
    SourceRule,
    csi_driver_name,
    requires,
    validate_one_source,
)

RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024
_BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


# --- persistent volumes -----------------------------------------------------------------------------------------------


def _create_volume(volume: core.PersistentVolume, errors: Errors) -> None:
    metadata.validate_kind(volume.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    spec = volume.spec
    if not spec.accessModes:
        errors.required("spec.accessModes")
    validate_access_modes(spec.accessModes, errors, "spec.accessModes")
    if not spec.capacity:
        errors.required("spec.capacity")
    if list(spec.capacity) != ["storage"]:
        errors.not_supported("spec.capacity", sorted(spec.capacity), ("storage",))
    for name, held in spec.capacity.items():
        basic_quantity(held, errors, f"spec.capacity[{name}]")
        positive_quantity(held, errors, f"spec.capacity[{name}]")
    policy = spec.persistentVolumeReclaimPolicy
    if policy:
        one_of(errors, "spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)
    if spec.HasField("nodeAffinity"):
        if spec.nodeAffinity.HasField("required"):
            validate_node_selector(spec.nodeAffinity.required, errors, "spec.nodeAffinity.required")
        else:
            errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    _validate_source(volume, errors)
    host = spec.persistentVolumeSource
    if policy == "Recycle" and host.HasField("hostPath") and posixpath.normpath(host.hostPath.path) == "/":
        errors.forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    if spec.storageClassName:
        errors.complaints(
            "spec.storageClassName", spec.storageClassName, names.dns1123_subdomain(spec.storageClassName)
        )
    if spec.HasField("volumeMode"):
        one_of(errors, "spec.volumeMode", spec.volumeMode, VOLUME_MODES)
    if spec.HasField("volumeAttributesClassName"):
        name = spec.volumeAttributesClassName
        required_name(errors, "spec.volumeAttributesClassName", name, names.dns1123_subdomain)
        if not spec.persistentVolumeSource.HasField("csi"):
            errors.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _validate_source(volume: core.PersistentVolume, errors: Errors) -> None:
    source = volume.spec.persistentVolumeSource
    validate_one_source(source, _SOURCES, errors, "spec", uncounted=frozenset({"flexVolume"}))
    if source.HasField("local") and source.local.path and not volume.spec.HasField("nodeAffinity"):
        errors.required("spec.nodeAffinity", "Local volume requires node affinity")
    named = source.HasField("iscsi") and source.iscsi.HasField("initiatorName")
    if named and len(f"{volume.metadata.name}:{source.iscsi.targetPortal}") > 64:
        errors.invalid(
            "spec.iscsi.targetportal", source.iscsi.targetPortal, "with the name it must be under 64 characters"
        )


def _glusterfs(source: core.GlusterfsPersistentVolumeSource, errors: Errors, path: str) -> None:
    requires("endpoints", "path")(source, errors, path)
    if source.HasField("endpointsNamespace"):
        errors.complaints(
            f"{path}.endpointsNamespace", source.endpointsNamespace, names.dns1123_label(source.endpointsNamespace)
        )


def _cinder(source: core.CinderPersistentVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.volumeID", source.volumeID)
    if source.HasField("secretRef"):
        required_name(errors, f"{path}.secretRef.name", source.secretRef.name)
        required_name(errors, f"{path}.secretRef.namespace", source.secretRef.namespace)


def _azure_file(source: core.AzureFilePersistentVolumeSource, errors: Errors, path: str) -> None:
    requires("secretName", "shareName")(source, errors, path)
    if source.HasField("secretNamespace"):
        required_name(errors, f"{path}.secretNamespace", source.secretNamespace)


def _local(source: core.LocalVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.path", source.path)
    paths.no_backsteps(source.path, errors, f"{path}.path")


def _storage_os(source: core.StorageOSPersistentVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.volumeName", source.volumeName, names.dns1123_label)
    if source.volumeNamespace:
        errors.complaints(
            f"{path}.volumeNamespace", source.volumeNamespace, names.dns1123_label(source.volumeNamespace)
        )
    if source.HasField("secretRef"):
        required_name(errors, f"{path}.secretRef.name", source.secretRef.name)
        required_name(errors, f"{path}.secretRef.namespace", source.secretRef.namespace)


def _csi(source: core.CSIPersistentVolumeSource, errors: Errors, path: str) -> None:
    csi_driver_name(source.driver, errors, f"{path}.driver")
    required_name(errors, f"{path}.volumeHandle", source.volumeHandle)
    for field in (
        "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
    ):  # fmt: skip
        if source.HasField(field):
            secret = getattr(source, field)
            required_name(errors, f"{path}.{field}.name", secret.name, names.dns1123_subdomain)
            required_name(errors, f"{path}.{field}.namespace", secret.namespace, names.dns1123_label)


_SOURCES: dict[str, SourceRule] = {
    "hostPath": SHARED["hostPath"],
    "gcePersistentDisk": SHARED["gcePersistentDisk"],
    "awsElasticBlockStore": SHARED["awsElasticBlockStore"],
    "glusterfs": _glusterfs,
    "flocker": SHARED["flocker"],
    "nfs": SHARED["nfs"],
    "rbd": SHARED["rbd"],
    "quobyte": SHARED["quobyte"],
    "cephfs": SHARED["cephfs"],
    "iscsi": SHARED["iscsi"],
    "cinder": _cinder,
    "fc": SHARED["fc"],
    "flexVolume": SHARED["flexVolume"],
    "azureFile": _azure_file,
    "vsphereVolume": SHARED["vsphereVolume"],
    "photonPersistentDisk": SHARED["photonPersistentDisk"],
    "portworxVolume": SHARED["portworxVolume"],
    "azureDisk": SHARED["azureDisk"],
    "scaleIO": SHARED["scaleIO"],
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}


def _update_volume(volume: core.PersistentVolume, old: core.PersistentVolume, errors: Errors) -> None:
    _create_volume(volume, errors)
    source = core.PersistentVolumeSource()
    source.CopyFrom(volume.spec.persistentVolumeSource)
    before = old.spec.persistentVolumeSource
    if before.HasField("csi") and not before.csi.HasField("controllerExpandSecretRef") and source.HasField("csi"):
        source.csi.ClearField("controllerExpandSecretRef")
    if not semantic_equal(source, before):
        errors.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if volume.spec.volumeMode != old.spec.volumeMode:
        errors.invalid("volumeMode", volume.spec.volumeMode, metadata.IMMUTABLE)
    if old.spec.HasField("nodeAffinity") and not _same_nodes(volume.spec.nodeAffinity, old.spec.nodeAffinity):
        errors.invalid("nodeAffinity", "changed", f"{metadata.IMMUTABLE}, except for updating from beta label to GA")
    if old.spec.HasField("volumeAttributesClassName") and not volume.spec.HasField("volumeAttributesClassName"):
        errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _same_nodes(new: core.VolumeNodeAffinity, old: core.VolumeNodeAffinity) -> bool:
    renamed = core.VolumeNodeAffinity()
    renamed.CopyFrom(old)
    for term, wish in zip(renamed.required.nodeSelectorTerms, new.required.nodeSelectorTerms, strict=False):
        for expression, other in zip(term.matchExpressions, wish.matchExpressions, strict=False):
            if _BETA_LABELS.get(expression.key) == other.key:
                expression.key = other.key
    return semantic_equal(new, renamed)


def _update_volume_status(volume: core.PersistentVolume, old: core.PersistentVolume, errors: Errors) -> None:
    metadata.validate_kind_update(volume.metadata, old.metadata, errors)


# --- storage classes --------------------------------------------------------------------------------------------------


def _create_class(cls: storage.StorageClass, errors: Errors) -> None:
    metadata.validate_kind(cls.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    if not cls.provisioner:
        errors.required("provisioner")
    else:
        errors.complaints("provisioner", cls.provisioner, names.qualified_name(cls.provisioner.lower()))
    validate_parameters(cls.parameters, errors, "parameters")
    if cls.reclaimPolicy:
        one_of(errors, "reclaimPolicy", cls.reclaimPolicy, ("Delete", "Retain"))
    one_of(errors, "volumeBindingMode", cls.volumeBindingMode, ("Immediate", "WaitForFirstConsumer"), required=True)
    _validate_topologies(cls.allowedTopologies, errors, "allowedTopologies")


def validate_parameters(parameters: Mapping[str, str], errors: Errors, path: str) -> None:
    """Judge the parameters of a provisioner or driver."""
    if len(parameters) > _MAX_PARAMETERS:
        errors.too_long(path, _MAX_PARAMETERS)
        return
    total = 0
    for key, value in parameters.items():
        if not key:
            errors.invalid(path, key, "a key must not be empty")
        total += len(key.encode()) + len(value.encode())
    if total > _MAX_PARAMETER_BYTES:
        errors.too_long(path, _MAX_PARAMETER_BYTES)


def _validate_topologies(terms: Sequence[core.TopologySelectorTerm], errors: Errors, path: str) -> None:
    seen: list[dict[str, frozenset[str]]] = []
    for index, term in enumerate(terms):
        expressions: dict[str, frozenset[str]] = {}
        for number, requirement in enumerate(term.matchLabelExpressions):
            at = f"{path}[{index}].matchLabelExpressions[{number}]"
            if not requirement.values:
                errors.required(f"{at}.values")
            for position, value in enumerate(requirement.values):
                if value in requirement.values[:position]:
                    errors.duplicate(f"{at}.values[{position}]", value)
            validate_label_name(requirement.key, errors, f"{at}.key")
            if requirement.key in expressions:
                errors.duplicate(f"{at}.key", requirement.key)
            expressions[requirement.key] = frozenset(requirement.values)
        if expressions in seen:
            errors.duplicate(f"{path}[{index}].matchLabelExpressions", sorted(expressions))
        seen.append(expressions)


def _update_class(cls: storage.StorageClass, old: storage.StorageClass, errors: Errors) -> None:
    metadata.validate_kind_update(cls.metadata, old.metadata, errors)
    if dict(cls.parameters) != dict(old.parameters):
        errors.forbidden("parameters", "updates to parameters are forbidden")
    if cls.provisioner != old.provisioner:
        errors.forbidden("provisioner", "updates to provisioner are forbidden")
    if cls.reclaimPolicy != old.reclaimPolicy:
        errors.forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden")
    metadata.immutable(errors, "volumeBindingMode", cls.volumeBindingMode, old.volumeBindingMode)


# --- the rest of the storage group ------------------------------------------------------------------------------------


def _create_attributes(cls: storage.VolumeAttributesClass, errors: Errors) -> None:
    metadata.validate_kind(cls.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    if not cls.driverName:
        errors.required("driverName")
    else:
        errors.complaints("driverName", cls.driverName, names.qualified_name(cls.driverName.lower()))
    if not cls.parameters:
        errors.required("parameters", "must contain at least one key/value pair")
    validate_parameters(cls.parameters, errors, "parameters")


def _update_attributes(cls: storage.VolumeAttributesClass, old: storage.VolumeAttributesClass, errors: Errors) -> None:
    metadata.validate_kind_update(cls.metadata, old.metadata, errors)
    if cls.driverName != old.driverName:
        errors.forbidden("driverName", "updates to driverName are forbidden")
    if dict(cls.parameters) != dict(old.parameters):
        errors.forbidden("parameters", "updates to parameters are forbidden")


def _create_driver(driver: storage.CSIDriver, errors: Errors) -> None:
    metadata.validate(driver.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    csi_driver_name(driver.metadata.name, errors, "name")
    spec = driver.spec
    for field in ("attachRequired", "podInfoOnMount", "storageCapacity", "seLinuxMount"):
        if not spec.HasField(field):
            errors.required(f"spec.{field}")
    if spec.HasField("fsGroupPolicy"):
        one_of(
            errors, "spec.fsGroupPolicy", spec.fsGroupPolicy, ("File", "None", "ReadWriteOnceWithFSType"),
            required=True,
        )  # fmt: skip
    seen: set[str] = set()
    for index, token in enumerate(spec.tokenRequests):
        path = f"spec.tokenRequests[{index}]"
        if token.audience in seen:
            errors.duplicate(f"{path}.audience", token.audience)
        seen.add(token.audience)
        if token.HasField("expirationSeconds") and not 600 <= token.expirationSeconds <= 1 << 32:
            errors.invalid(f"{path}.expirationSeconds", token.expirationSeconds, "must be between 600 and 2^32 seconds")
    for mode in spec.volumeLifecycleModes:
        one_of(errors, "spec.volumeLifecycleModes", mode, ("Ephemeral", "Persistent"))


def _update_driver(driver: storage.CSIDriver, old: storage.CSIDriver, errors: Errors) -> None:
    metadata.validate_kind_update(driver.metadata, old.metadata, errors)
    if driver.spec.attachRequired != old.spec.attachRequired:
        errors.invalid("spec.attachedRequired", driver.spec.attachRequired, metadata.IMMUTABLE)
    if list(driver.spec.volumeLifecycleModes) != list(old.spec.volumeLifecycleModes):
        errors.invalid("spec.volumeLifecycleModes", list(driver.spec.volumeLifecycleModes), metadata.IMMUTABLE)


def _create_node(node: storage.CSINode, errors: Errors) -> None:
    metadata.validate_kind(node.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    seen: set[str] = set()
    for index, driver in enumerate(node.spec.drivers):
        path = f"spec.drivers[{index}]"
        csi_driver_name(driver.name, errors, f"{path}.name")
        if not driver.nodeID:
            errors.required(f"{path}.nodeID", driver.nodeID)
        elif len(driver.nodeID) > 256:
            errors.invalid(f"{path}.nodeID", driver.nodeID, "must be 256 characters or less")
        if driver.HasField("allocatable") and driver.allocatable.HasField("count"):
            nonnegative(errors, f"{path}.allocatable.count", driver.allocatable.count)
        keys: set[str] = set()
        for key in driver.topologyKeys:
            if not key:
                errors.required(f"{path}.topologyKeys")
            if key in keys:
                errors.duplicate(f"{path}.topologyKeys", key)
            keys.add(key)
            errors.complaints(f"{path}.topologyKeys", key, names.qualified_name(key))
        if driver.name in seen:
            errors.duplicate(f"{path}.name", driver.name)
        seen.add(driver.name)


def _update_node(node: storage.CSINode, old: storage.CSINode, errors: Errors) -> None:
    _create_node(node, errors)


def _create_attachment(attachment: storage.VolumeAttachment, errors: Errors) -> None:
    metadata.validate(attachment.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    spec = attachment.spec
    if not spec.attacher:
        errors.required("spec.attacher")
    else:
        errors.complaints("spec.attacher", spec.attacher, names.qualified_name(spec.attacher.lower()))
    source = spec.source
    by_name, inline = source.HasField("persistentVolumeName"), source.HasField("inlineVolumeSpec")
    if by_name and inline:
        errors.forbidden("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif not by_name and not inline:
        errors.required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif by_name:
        required_name(errors, "spec.source.persistentVolumeName", source.persistentVolumeName)
        if source.persistentVolumeName:
            errors.complaints(
                "spec.source.persistentVolumeName",
                source.persistentVolumeName,
                names.dns1123_subdomain(source.persistentVolumeName),
            )
    errors.complaints("spec.nodeName", spec.nodeName, names.dns1123_subdomain(spec.nodeName))


def _update_attachment(attachment: storage.VolumeAttachment, old: storage.VolumeAttachment, errors: Errors) -> None:
    _create_attachment(attachment, errors)
    if not semantic_equal(attachment.spec, old.spec):
        errors.invalid("spec", "changed", metadata.IMMUTABLE)


def _create_capacity(capacity: storage.CSIStorageCapacity, errors: Errors) -> None:
    metadata.validate_kind(capacity.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    errors.complaints("storageClassName", capacity.storageClassName, names.dns1123_subdomain(capacity.storageClassName))
    if capacity.HasField("nodeTopology"):
        label_selector(capacity.nodeTopology, errors, "nodeTopology")
    for field in ("capacity", "maximumVolumeSize"):
        if capacity.HasField(field):
            basic_quantity(getattr(capacity, field), errors, field)


def _update_capacity(capacity: storage.CSIStorageCapacity, old: storage.CSIStorageCapacity, errors: Errors) -> None:
    _create_capacity(capacity, errors)
    if capacity.HasField("nodeTopology") != old.HasField("nodeTopology") or not semantic_equal(
        capacity.nodeTopology, old.nodeTopology
    ):
        errors.invalid("nodeTopology", "changed", metadata.IMMUTABLE)
    metadata.immutable(errors, "storageClassName", capacity.storageClassName, old.storageClassName)


RULES: dict[Any, Rules] = {
    core.PersistentVolume: Rules(
        create=_create_volume, update=_update_volume, subresources={"status": _update_volume_status}
    ),
    storage.StorageClass: Rules(create=_create_class, update=_update_class),
    storage.VolumeAttributesClass: Rules(create=_create_attributes, update=_update_attributes),
    storage.CSIDriver: Rules(create=_create_driver, update=_update_driver),
    storage.CSINode: Rules(create=_create_node, update=_update_node),
    storage.CSIStorageCapacity: Rules(create=_create_capacity, update=_update_capacity),
    storage.VolumeAttachment: Rules(
        create=_create_attachment,
        update=_update_attachment,
        subresources=only_metadata(namespaced=False).subresources,
    ),
}
