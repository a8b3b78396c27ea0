"""Storage: volumes, claims and classes, and the volumes of pods."""

from __future__ import annotations

from wharfinger.api.types import core, storage
from wharfinger.api.validation.warnings import texts

_SOURCES = {
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"
_MOUNT = "volume.beta.kubernetes.io/mount-options"
_STORAGE = ("storage",)


def _of_removed(source: core.VolumeSource | core.PersistentVolumeSource, path: str) -> list[str]:
    fields = source.DESCRIPTOR.fields_by_name
    return [f"{path}.{field}: {text}" for field, text in _SOURCES.items() if field in fields and source.HasField(field)]


def of_source(source: core.VolumeSource, path: str) -> list[str]:
    """Return what to say about where a pod's volume comes from."""
    found = _of_removed(source, path)
    if source.HasField("ephemeral"):
        found += of_claim_spec(source.ephemeral.volumeClaimTemplate.spec, f"{path}.ephemeral.volumeClaimTemplate.spec")
    return found


def of_volume(volume: core.PersistentVolume) -> list[str]:
    """Return what to say about a persistent volume."""
    spec = volume.spec
    found = []
    for key, field in ((_CLASS, "storageClassName"), (_MOUNT, "mountOptions")):
        if key in volume.metadata.annotations:
            found.append(f'metadata.annotations[{key}]: deprecated; use the "{field}" attribute instead')
    if spec.persistentVolumeReclaimPolicy == "Recycle":
        found.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        )
    found += texts.amounts(spec.capacity, "spec.capacity", _STORAGE)
    found += texts.node_terms(
        (f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate(spec.nodeAffinity.required.nodeSelectorTerms)
    )
    return found + _of_removed(spec.persistentVolumeSource, "spec")


def of_claim(claim: core.PersistentVolumeClaim) -> list[str]:
    """Return what to say about a claim."""
    found = []
    if _CLASS in claim.metadata.annotations:
        found.append(f'metadata.annotations[{_CLASS}]: deprecated since v1.8; use "storageClassName" instead')
    return found + of_claim_spec(claim.spec, "spec")


def of_claim_spec(spec: core.PersistentVolumeClaimSpec, path: str) -> list[str]:
    """Return what to say about the specification of a claim or of a template for claims."""
    resources = spec.resources
    return texts.amounts(resources.requests, f"{path}.resources.requests", _STORAGE) + texts.amounts(
        resources.limits, f"{path}.resources.limits", _STORAGE
    )


def of_storage_class(cls: storage.StorageClass) -> list[str]:
    """Return what to say about a class."""
    return [
        warning
        for index, term in enumerate(cls.allowedTopologies)
        for number, expression in enumerate(term.matchLabelExpressions)
        for warning in texts.node_label(
            expression.key, f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
        )
    ]
