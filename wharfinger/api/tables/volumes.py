"""Volumes, claims and storage classes."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import core, storage

_MODES = {
    "ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP",
}  # fmt: skip


def access_modes(modes: Iterable[str]) -> str:
    """Return access modes by their initials, in Kubernetes' order."""
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _mode(value: str) -> str:
    return value or text.UNSET


def _claim_row(obj: core.PersistentVolumeClaim, now: float) -> list[Cell]:
    bound = bool(obj.spec.volumeName)
    capacity = obj.status.capacity["storage"].string if bound and "storage" in obj.status.capacity else ""
    deleted = obj.metadata.HasField("deletionTimestamp")
    return [
        obj.metadata.name,
        "Terminating" if deleted else obj.status.phase,
        obj.spec.volumeName,
        capacity,
        access_modes(obj.status.accessModes) if bound else "",
        obj.spec.storageClassName or obj.metadata.annotations.get("volume.beta.kubernetes.io/storage-class", ""),
        obj.spec.volumeAttributesClassName or text.UNSET,
        text.age(obj, now),
        _mode(obj.spec.volumeMode),
    ]


def _volume_row(obj: core.PersistentVolume, now: float) -> list[Cell]:
    spec = obj.spec
    claim = f"{spec.claimRef.namespace}/{spec.claimRef.name}" if spec.HasField("claimRef") else ""
    return [
        obj.metadata.name,
        spec.capacity["storage"].string if "storage" in spec.capacity else "",
        access_modes(spec.accessModes),
        spec.persistentVolumeReclaimPolicy,
        "Terminating" if obj.metadata.HasField("deletionTimestamp") else obj.status.phase,
        claim,
        spec.storageClassName,
        spec.volumeAttributesClassName or text.UNSET,
        obj.status.reason,
        text.age(obj, now),
        _mode(spec.volumeMode),
    ]


_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _class_row(obj: storage.StorageClass, now: float) -> list[Cell]:
    default = any(obj.metadata.annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return [
        f"{obj.metadata.name} (default)" if default else obj.metadata.name,
        obj.provisioner,
        obj.reclaimPolicy or "Delete",
        obj.volumeBindingMode or "Immediate",
        obj.allowVolumeExpansion,
        text.age(obj, now),
    ]


CLAIMS = Table(
    (
        NAME,
        Column("Status", description="Whether a volume is bound to it."),
        Column("Volume", description="The volume bound to it."),
        Column("Capacity", description="The volume's size."),
        Column("Access Modes", description="How the volume may be mounted."),
        Column("StorageClass", description="Which kind of storage is wanted."),
        Column("VolumeAttributesClass", description="Which attributes are wanted."),
        AGE,
        Column("VolumeMode", priority=1, description="Filesystem or Block."),
    ),
    _claim_row,
)
VOLUMES = Table(
    (
        NAME,
        Column("Capacity", description="Its size."),
        Column("Access Modes", description="How it may be mounted."),
        Column("Reclaim Policy", description="What becomes of it afterwards."),
        Column("Status", description="Whether it is bound."),
        Column("Claim", description="What it is bound to."),
        Column("StorageClass", description="Which kind of storage it is."),
        Column("VolumeAttributesClass", description="Which attributes it has."),
        Column("Reason", description="Why it is in its state."),
        AGE,
        Column("VolumeMode", priority=1, description="Filesystem or Block."),
    ),
    _volume_row,
)
CLASSES = Table(
    (
        NAME,
        Column("Provisioner", description="Who makes the volumes."),
        Column("ReclaimPolicy", description="What becomes of them afterwards."),
        Column("VolumeBindingMode", description="When they are made."),
        Column("AllowVolumeExpansion", description="Whether they can grow."),
        AGE,
    ),
    _class_row,
)
