"""Sources of volumes that pods and persistent volumes share, most of them of storage systems of their own.

Most rules only name the fields that must be there, so they are a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from wharfinger.api.types import core
from wharfinger.api.validation import names, paths
from wharfinger.api.validation.common import one_of, required_name
from wharfinger.api.validation.errors import Errors

SourceRule = Callable[[Any, Errors, str], None]

HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
ONE_TYPE = "may not specify more than 1 volume type"

_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)", re.ASCII)
_EUI = re.compile(r"eui.[A-Za-z0-9]{16}")
_NAA = re.compile(r"naa.[A-Za-z0-9]{32}")


def requires(*fields: str) -> SourceRule:
    """Return the rule that these fields may not be empty."""

    def judge(source: Any, errors: Errors, path: str) -> None:
        for field in fields:
            if not getattr(source, field):
                errors.required(f"{path}.{field}")

    return judge


def host_path(source: core.HostPathVolumeSource, errors: Errors, path: str) -> None:
    """Judge a folder or file of the node."""
    if not source.path:
        errors.required(f"{path}.path")
        return
    paths.no_backsteps(source.path, errors, f"{path}.path")
    if source.HasField("type"):
        one_of(errors, f"{path}.type", source.type, HOST_PATH_TYPES)


def nfs(source: core.NFSVolumeSource, errors: Errors, path: str) -> None:
    """Judge an export of an NFS server."""
    if not source.server:
        errors.required(f"{path}.server")
    if not source.path:
        errors.required(f"{path}.path")
    if not source.path.startswith("/"):
        errors.invalid(f"{path}.path", source.path, "must be an absolute path")


def disk(field: str) -> SourceRule:
    """Return the rule for a disk with partitions that `field` names."""

    def judge(source: Any, errors: Errors, path: str) -> None:
        if not getattr(source, field):
            errors.required(f"{path}.{field}")
        if not 0 <= source.partition <= 255:
            errors.invalid(f"{path}.partition", source.partition, "must be between 1 and 255, inclusive")

    return judge


def iscsi(source: core.ISCSIVolumeSource | core.ISCSIPersistentVolumeSource, errors: Errors, path: str) -> None:
    """Judge a LUN of an iSCSI target."""
    if not source.targetPortal:
        errors.required(f"{path}.targetPortal")
    if not source.iqn:
        errors.required(f"{path}.iqn")
    else:
        _initiator(source.iqn, errors, f"{path}.iqn")
    if not 0 <= source.lun <= 255:
        errors.invalid(f"{path}.lun", source.lun, "must be between 0 and 255, inclusive")
    if (source.chapAuthDiscovery or source.chapAuthSession) and not source.HasField("secretRef"):
        errors.required(f"{path}.secretRef")
    if isinstance(source, core.ISCSIPersistentVolumeSource) and source.HasField("secretRef"):
        required_name(errors, f"{path}.secretRef.name", source.secretRef.name)
    if source.HasField("initiatorName"):
        _initiator(source.initiatorName, errors, f"{path}.initiatorname")


def _initiator(name: str, errors: Errors, path: str) -> None:
    pattern = {"iqn": _IQN, "eui": _EUI, "naa": _NAA}.get(name[:3])
    if pattern is None:
        errors.invalid(path, name, "must start with iqn, eui or naa")
    elif not pattern.fullmatch(name):
        errors.invalid(path, name, f"must be a valid name of the form {name[:3]}")


def fibre_channel(source: core.FCVolumeSource, errors: Errors, path: str) -> None:
    """Judge a Fibre Channel disk."""
    if not source.targetWWNs and not source.wwids:
        errors.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if source.targetWWNs and source.wwids:
        errors.invalid(f"{path}.targetWWNs", list(source.targetWWNs), "may not be specified together with wwids")
    if source.targetWWNs:
        if not source.HasField("lun"):
            errors.required(f"{path}.lun", "lun is required if targetWWNs is specified")
        elif not 0 <= source.lun <= 255:
            errors.invalid(f"{path}.lun", source.lun, "must be between 0 and 255, inclusive")


def flocker(source: core.FlockerVolumeSource, errors: Errors, path: str) -> None:
    """Judge a Flocker data set."""
    if not source.datasetName and not source.datasetUUID:
        errors.required(path, "one of datasetName and datasetUUID is required")
    if source.datasetName and source.datasetUUID:
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in source.datasetName:
        errors.invalid(f"{path}.datasetName", source.datasetName, "must not contain '/'")


def quobyte(source: core.QuobyteVolumeSource, errors: Errors, path: str) -> None:
    """Judge a Quobyte volume."""
    pairs = "must be a host:port pair or multiple pairs separated by commas"
    if not source.registry:
        errors.required(f"{path}.registry", pairs)
    elif len(source.tenant) >= 65:
        errors.required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in source.registry.split(","):
            host, colon, _ = pair.rpartition(":")
            if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
                errors.invalid(f"{path}.registry", source.registry, pairs)
    required_name(errors, f"{path}.volume", source.volume)


def flex(source: core.FlexVolumeSource | core.FlexPersistentVolumeSource, errors: Errors, path: str) -> None:
    """Judge a volume of an exec driver."""
    required_name(errors, f"{path}.driver", source.driver)
    for option in source.options:
        domain = "." + option.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            errors.invalid(f"{path}.options[{option}]", option, "kubernetes.io and k8s.io namespaces are reserved")


def azure_disk(source: core.AzureDiskVolumeSource, errors: Errors, path: str) -> None:
    """Judge an Azure disk."""
    required_name(errors, f"{path}.diskName", source.diskName)
    required_name(errors, f"{path}.diskURI", source.diskURI)
    if source.HasField("cachingMode"):
        one_of(errors, f"{path}.cachingMode", source.cachingMode, ("None", "ReadOnly", "ReadWrite"))
    if source.HasField("kind"):
        one_of(errors, f"{path}.kind", source.kind, ("Dedicated", "Managed", "Shared"))
        prefix = "/subscriptions/" if source.kind == "Managed" else "https://"
        if not source.diskURI.startswith(prefix):
            errors.not_supported(f"{path}.diskURI", source.diskURI, (prefix + "...",))


def csi_driver_name(name: str, errors: Errors, path: str) -> None:
    """Judge the name of a CSI driver."""
    if not name:
        errors.required(path)
    if len(name) > 63:
        errors.too_long(path, 63)
    errors.complaints(path, name, names.dns1123_subdomain(name.lower()))


SHARED: dict[str, SourceRule] = {
    "hostPath": host_path,
    "gcePersistentDisk": disk("pdName"),
    "awsElasticBlockStore": disk("volumeID"),
    "nfs": nfs,
    "iscsi": iscsi,
    "glusterfs": requires("endpoints", "path"),
    "flocker": flocker,
    "rbd": requires("monitors", "image"),
    "cephfs": requires("monitors"),
    "quobyte": quobyte,
    "fc": fibre_channel,
    "flexVolume": flex,
    "azureFile": requires("secretName", "shareName"),
    "vsphereVolume": requires("volumePath"),
    "photonPersistentDisk": requires("pdID"),
    "portworxVolume": requires("volumeID"),
    "azureDisk": azure_disk,
    "scaleIO": requires("gateway", "system", "volumeName"),
}
"""Sources that pods and persistent volumes judge alike."""

CONTENT_PATHS = {"gcePersistentDisk": "persistentDisk"}
"""Where Kubernetes reports mistakes within a source, if not under its own name."""
FORBIDDEN_PATHS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Where Kubernetes reports a source that is one too many, if not under its own name."""


def validate_one_source(
    source: Any, rules: dict[str, SourceRule], errors: Errors, path: str, *, uncounted: frozenset[str] = frozenset()
) -> None:
    """Judge a union of sources: exactly one of `rules`, in their order, may be there.

    `uncounted` are sources that Kubernetes judges beside another one.
    """
    present = {field.name for field, _ in source.ListFields()}
    found = False
    for kind, rule in rules.items():
        if kind not in present:
            continue
        if found and kind not in uncounted:
            errors.forbidden(f"{path}.{FORBIDDEN_PATHS.get(kind, kind)}", ONE_TYPE)
            continue
        found = True
        rule(getattr(source, kind), errors, f"{path}.{CONTENT_PATHS.get(kind, kind)}")
    if not found:
        errors.required(path, "must specify a volume type")
