"""The volumes of a pod, what is projected into them, and where containers mount them.

Rules: "Volumes" and "Projected Volumes" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.api.types import core
from wharfinger.api.validation import environment, names, paths
from wharfinger.api.validation.claims import validate_claim_template
from wharfinger.api.validation.common import amount, label_selector, one_of, required_name
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.signers import validate_signer_name
from wharfinger.api.validation.storage_sources import SHARED, SourceRule, csi_driver_name, validate_one_source

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NO_VOLUMES: dict[str, core.VolumeSource] = {}


def validate_volumes(
    volumes: Iterable[core.Volume], errors: Errors, path: str, *, pod_name: str, is_pod: bool
) -> Mapping[str, core.VolumeSource]:
    """Judge volumes; return the right ones by name, for the mounts.

    `pod_name` is empty for a template; generic ephemeral volumes derive the names of their claims from it.
    """
    found = list(volumes)
    if not found:
        return _NO_VOLUMES
    created = {
        f"{pod_name}-{volume.name}" for volume in found if pod_name and volume.volumeSource.HasField("ephemeral")
    }
    good: dict[str, core.VolumeSource] = {}
    for index, volume in enumerate(found):
        at = f"{path}[{index}]"
        name = volume.name
        source = volume.volumeSource
        before = len(errors)
        _validate_source(source, name, errors, at, pod_name=pod_name, is_pod=is_pod)
        required_name(errors, f"{at}.name", name, names.dns1123_label)
        if name in good:
            errors.duplicate(f"{at}.name", name)
        if len(errors) == before:
            good[name] = source
        if created and source.HasField("persistentVolumeClaim") and source.persistentVolumeClaim.claimName in created:
            errors.invalid(
                f"{at}.persistentVolumeClaim.claimName",
                source.persistentVolumeClaim.claimName,
                "must not reference a claim that gets created for an ephemeral volume",
            )
    return good


def _validate_source(
    source: core.VolumeSource, name: str, errors: Errors, path: str, *, pod_name: str, is_pod: bool
) -> None:
    validate_one_source(source, _RULES, errors, path)
    if source.HasField("iscsi") and source.iscsi.HasField("initiatorName"):
        if len(f"{name}:{source.iscsi.targetPortal}") > 64:
            errors.invalid(f"{path}.name", name, "with the target portal it must be under 64 characters")
    elif source.HasField("ephemeral") and pod_name and name:
        for complaint in names.dns1123_subdomain(f"{pod_name}-{name}"):
            errors.invalid(f"{path}.name", name, f"the claim's name {pod_name}-{name!s} is wrong: {complaint}")
    elif source.HasField("image") and is_pod and not source.image.reference:
        errors.required(f"{path}.image.reference")


def _empty_dir(source: core.EmptyDirVolumeSource, errors: Errors, path: str) -> None:
    if source.HasField("sizeLimit") and amount(source.sizeLimit).nanos < 0:
        errors.forbidden(f"{path}.sizeLimit", "must be a valid resource quantity, not below zero")


def _git_repo(source: core.GitRepoVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.repository", source.repository)
    paths.descending(source.directory, errors, f"{path}.directory")


def _secret(source: core.SecretVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.secretName", source.secretName)
    _mode(source, errors, path)
    _items(source.items, errors, path)


def _config_map(source: core.ConfigMapVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.name", source.localObjectReference.name)
    _mode(source, errors, path)
    _items(source.items, errors, path)


def _mode(source: Any, errors: Errors, path: str, field: str = "defaultMode") -> None:
    if source.HasField(field):
        paths.file_mode(getattr(source, field), errors, f"{path}.{field}")


def _items(items: Iterable[core.KeyToPath], errors: Errors, path: str) -> None:
    for index, item in enumerate(items):
        _item(item, errors, f"{path}.items[{index}]")


def _item(item: core.KeyToPath, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.key", item.key)
    required_name(errors, f"{path}.path", item.path)
    paths.local(item.path, errors, f"{path}.path")
    _mode(item, errors, path, "mode")


def _cinder(source: core.CinderVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.volumeID", source.volumeID)
    if source.HasField("secretRef"):
        required_name(errors, f"{path}.secretRef.name", source.secretRef.name)


def _storage_os(source: core.StorageOSVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.volumeName", source.volumeName, names.dns1123_label)
    if source.volumeNamespace:
        errors.complaints(
            f"{path}.volumeNamespace", source.volumeNamespace, names.dns1123_label(source.volumeNamespace)
        )
    if source.HasField("secretRef"):
        required_name(errors, f"{path}.secretRef.name", source.secretRef.name)


def _claim(source: core.PersistentVolumeClaimVolumeSource, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.claimName", source.claimName)


def _csi(source: core.CSIVolumeSource, errors: Errors, path: str) -> None:
    csi_driver_name(source.driver, errors, f"{path}.driver")
    if source.HasField("nodePublishSecretRef"):
        name = source.nodePublishSecretRef.name
        if not name:
            errors.required(f"{path}.nodePublishSecretRef.name")
        else:
            errors.complaints(f"{path}.name", name, names.dns1123_subdomain(name))


def _ephemeral(source: core.EphemeralVolumeSource, errors: Errors, path: str) -> None:
    if not source.HasField("volumeClaimTemplate"):
        errors.required(f"{path}.volumeClaimTemplate")
    else:
        validate_claim_template(source.volumeClaimTemplate, errors, f"{path}.volumeClaimTemplate")


def _image(source: core.ImageVolumeSource, errors: Errors, path: str) -> None:
    one_of(errors, f"{path}.pullPolicy", source.pullPolicy, PULL_POLICIES, required=True)


def _downward_api(source: core.DownwardAPIVolumeSource, errors: Errors, path: str) -> None:
    _mode(source, errors, path)
    for item in source.items:
        _downward_file(item, errors, path)


def _downward_file(item: core.DownwardAPIVolumeFile, errors: Errors, path: str) -> None:
    required_name(errors, f"{path}.path", item.path)
    paths.local(item.path, errors, f"{path}.path")
    if item.HasField("fieldRef"):
        environment.validate_field(item.fieldRef, errors, f"{path}.fieldRef", fields=environment.VOLUME_FIELDS)
        if item.HasField("resourceFieldRef"):
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif item.HasField("resourceFieldRef"):
        environment.validate_resource_field(item.resourceFieldRef, errors, f"{path}.resourceFieldRef", volume=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    _mode(item, errors, path, "mode")


def _projected(source: core.ProjectedVolumeSource, errors: Errors, path: str) -> None:
    _mode(source, errors, path)
    taken: set[str] = set()

    def claim_path(file_path: str, who: str) -> None:
        if file_path in taken:
            errors.invalid(path, who, "conflicting duplicate paths")
        taken.add(file_path)

    for index, projection in enumerate(source.sources):
        at = f"{path}.sources[{index}]"
        count = 0
        for kind in ("secret", "configMap"):
            if projection.HasField(kind):
                count += 1
                part = getattr(projection, kind)
                name = part.localObjectReference.name
                required_name(errors, f"{at}.{kind}.name", name)
                for number, item in enumerate(part.items):
                    _item(item, errors, f"{at}.{kind}.items[{number}]")
                    if item.path:
                        claim_path(item.path, name)
        if projection.HasField("downwardAPI"):
            count += 1
            for file in projection.downwardAPI.items:
                _downward_file(file, errors, f"{at}.downwardAPI")
                if file.path:
                    claim_path(file.path, file.path)
        if projection.HasField("serviceAccountToken"):
            count += 1
            _token(projection.serviceAccountToken, errors, f"{at}.serviceAccountToken", path)
        if projection.HasField("clusterTrustBundle"):
            count += 1
            _trust_bundle(projection.clusterTrustBundle, errors, f"{at}.clusterTrustBundle")
            claim_path(projection.clusterTrustBundle.path, projection.clusterTrustBundle.path)
        if projection.HasField("podCertificate"):
            count += 1
            for file_path in _certificate(projection.podCertificate, errors, f"{at}.podCertificate"):
                claim_path(file_path, file_path)
        if count > 1:
            errors.forbidden(at, "may not specify more than 1 volume type per source")


def _token(token: core.ServiceAccountTokenProjection, errors: Errors, path: str, volume_path: str) -> None:
    if token.expirationSeconds < 600:
        errors.invalid(
            f"{path}.expirationSeconds", token.expirationSeconds, "may not specify a duration less than 10 minutes"
        )
    if token.expirationSeconds > 1 << 32:
        errors.invalid(
            f"{path}.expirationSeconds", token.expirationSeconds, "may not specify a duration larger than 2^32 seconds"
        )
    if not token.path:
        errors.required(f"{volume_path}.path")
    else:
        paths.local(token.path, errors, f"{volume_path}.path")


def _trust_bundle(bundle: core.ClusterTrustBundleProjection, errors: Errors, path: str) -> None:
    by_name, by_signer = bundle.HasField("name"), bundle.HasField("signerName")
    if by_name and by_signer:
        errors.invalid(path, bundle.name, "only one of name and signerName may be used")
    elif by_name:
        if not bundle.name:
            errors.required(f"{path}.name", "must be a valid object name")
        name = bundle.name.rpartition(":")[2]
        errors.complaints(f"{path}.name", bundle.name, names.dns1123_subdomain(name))
        if bundle.HasField("labelSelector"):
            errors.invalid(f"{path}.labelSelector", "", "must be unset if name is specified")
    elif by_signer:
        if not bundle.signerName:
            errors.required(f"{path}.signerName", "must be a valid signer name")
        validate_signer_name(bundle.signerName, errors, f"{path}.signerName")
        if bundle.HasField("labelSelector"):
            label_selector(bundle.labelSelector, errors, f"{path}.labelSelector")
    else:
        errors.required(path, "either name or signerName must be specified")
    required_name(errors, f"{path}.path", bundle.path)
    paths.local(bundle.path, errors, f"{path}.path")


_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")


def _certificate(projection: core.PodCertificateProjection, errors: Errors, path: str) -> list[str]:
    validate_signer_name(projection.signerName, errors, f"{path}.signerName")
    one_of(errors, f"{path}.keyType", projection.keyType, _KEY_TYPES)
    if projection.HasField("maxExpirationSeconds"):
        longest = 86400 if projection.signerName.startswith("kubernetes.io/") else 91 * 86400
        if not 3600 <= projection.maxExpirationSeconds <= longest:
            errors.invalid(
                f"{path}.maxExpirationSeconds",
                projection.maxExpirationSeconds,
                f"must be between 3600 and {longest} seconds",
            )
    fields = ("credentialBundlePath", "keyPath", "certificateChainPath")
    files = [(field, getattr(projection, field)) for field in fields if getattr(projection, field)]
    if not files:
        errors.required(path, "must specify at least one of credentialBundlePath, keyPath and certificateChainPath")
    for field, file_path in files:
        paths.local(file_path, errors, f"{path}.{field}")
    return [file_path for _, file_path in files]


_RULES: dict[str, SourceRule] = {
    "emptyDir": _empty_dir,
    "hostPath": SHARED["hostPath"],
    "gitRepo": _git_repo,
    "gcePersistentDisk": SHARED["gcePersistentDisk"],
    "awsElasticBlockStore": SHARED["awsElasticBlockStore"],
    "secret": _secret,
    "nfs": SHARED["nfs"],
    "iscsi": SHARED["iscsi"],
    "glusterfs": SHARED["glusterfs"],
    "flocker": SHARED["flocker"],
    "persistentVolumeClaim": _claim,
    "rbd": SHARED["rbd"],
    "cinder": _cinder,
    "cephfs": SHARED["cephfs"],
    "quobyte": SHARED["quobyte"],
    "downwardAPI": _downward_api,
    "fc": SHARED["fc"],
    "flexVolume": SHARED["flexVolume"],
    "configMap": _config_map,
    "azureFile": SHARED["azureFile"],
    "vsphereVolume": SHARED["vsphereVolume"],
    "photonPersistentDisk": SHARED["photonPersistentDisk"],
    "portworxVolume": SHARED["portworxVolume"],
    "azureDisk": SHARED["azureDisk"],
    "storageos": _storage_os,
    "projected": _projected,
    "scaleIO": SHARED["scaleIO"],
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
"""In the order in which Kubernetes looks: the first one present counts, others are too many."""
