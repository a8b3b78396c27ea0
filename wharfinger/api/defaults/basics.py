"""What the plain kinds of the core group mean where they are silent."""

from __future__ import annotations

from wharfinger.api.defaults.amounts import copy_missing, round_up
from wharfinger.api.defaults.pods import SHARED_SOURCES, apply_claim_spec
from wharfinger.api.types import core, gangs, scheduling, storage

NAME_LABEL = "kubernetes.io/metadata.name"


def apply_namespace(namespace: core.Namespace) -> None:
    """Fill in a namespace; one whose name is still to be generated gets its label afterwards."""
    name = namespace.metadata.name
    if name and namespace.metadata.labels.get(NAME_LABEL) != name:
        namespace.metadata.labels[NAME_LABEL] = name
    if not namespace.status.phase:
        namespace.status.phase = "Active"


def apply_node(node: core.Node) -> None:
    """Fill in a node."""
    status = node.status
    round_up(status.capacity)
    if status.capacity and not status.allocatable:
        copy_missing(status.allocatable, status.capacity)
    round_up(status.allocatable)
    spec = node.spec
    if spec.podCIDR:
        if not spec.podCIDRs or spec.podCIDRs[0] != spec.podCIDR:
            spec.podCIDRs[:] = [spec.podCIDR]
    elif spec.podCIDRs:
        spec.podCIDR = spec.podCIDRs[0]


def apply_secret(secret: core.Secret) -> None:
    """Fill in a secret; what was given as text becomes bytes."""
    if not secret.type:
        secret.type = "Opaque"
    for key, text in secret.stringData.items():
        secret.data[key] = text.encode()
    secret.ClearField("stringData")


def apply_volume(volume: core.PersistentVolume) -> None:
    """Fill in a persistent volume."""
    if not volume.status.phase:
        volume.status.phase = "Pending"
    spec = volume.spec
    if not spec.persistentVolumeReclaimPolicy:
        spec.persistentVolumeReclaimPolicy = "Retain"
    if not spec.HasField("volumeMode"):
        spec.volumeMode = "Filesystem"
    round_up(spec.capacity)
    for field, source in spec.persistentVolumeSource.ListFields():
        rule = SHARED_SOURCES.get(field.name)
        if rule is not None:
            rule(source)


def apply_claim(claim: core.PersistentVolumeClaim) -> None:
    """Fill in a claim."""
    if not claim.status.phase:
        claim.status.phase = "Pending"
    apply_claim_spec(claim.spec)
    round_up(claim.status.capacity)
    round_up(claim.status.allocatedResources)


def apply_limits(limits: core.LimitRange) -> None:
    """Fill in a limit range: what a container may have at most is what it gets, if nobody says otherwise."""
    for item in limits.spec.limits:
        if item.type == "Container":
            copy_missing(item.default, item.max)
            copy_missing(item.defaultRequest, item.default)
            copy_missing(item.defaultRequest, item.min)
        for amounts in (item.max, item.min, item.default, item.defaultRequest, item.maxLimitRequestRatio):
            round_up(amounts)


def apply_quota(quota: core.ResourceQuota) -> None:
    """Fill in a quota."""
    for amounts in (quota.spec.hard, quota.status.hard, quota.status.used):
        round_up(amounts)


def apply_priority(priority: scheduling.PriorityClass) -> None:
    """Fill in a priority class."""
    if not priority.HasField("preemptionPolicy"):
        priority.preemptionPolicy = "PreemptLowerPriority"


def apply_group(group: gangs.PodGroup) -> None:
    """Fill in a group of pods: one member is enough, room is kept for a minute."""
    if not group.spec.HasField("minMember"):
        group.spec.minMember = 1
    if not group.spec.HasField("scheduleTimeoutSeconds"):
        group.spec.scheduleTimeoutSeconds = 60


def apply_storage_class(cls: storage.StorageClass) -> None:
    """Fill in a storage class."""
    if not cls.HasField("reclaimPolicy"):
        cls.reclaimPolicy = "Delete"
    if not cls.HasField("volumeBindingMode"):
        cls.volumeBindingMode = "Immediate"


def apply_csi_driver(driver: storage.CSIDriver) -> None:
    """Fill in a CSI driver."""
    spec = driver.spec
    if not spec.HasField("attachRequired"):
        spec.attachRequired = True
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        if not spec.HasField(field):
            setattr(spec, field, False)
    if not spec.HasField("fsGroupPolicy"):
        spec.fsGroupPolicy = "ReadWriteOnceWithFSType"
    if not spec.volumeLifecycleModes:
        spec.volumeLifecycleModes.append("Persistent")
