"""What is reachable from a node: the pods on it, and what those pods name.

Read from the watch cache when asked. What a pod names is remembered by the pod's revision, so a question about a full
node decodes nothing twice.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.apiserver.store import Cache, Entry
    from wharfinger.api.types import core

_PODS = "/registry/pods/"
_CLAIMS = "/registry/persistentvolumeclaims/"
_VOLUMES = "/registry/persistentvolumes/"
_ATTACHMENTS = "/registry/volumeattachments/"
_SLICES = "/registry/resourceslices/"
_REMEMBERED = 50_000
MIRROR = "kubernetes.io/config.mirror"

References = frozenset[tuple[str, str]]
"""Pairs of resource and name, all in the pod's namespace."""


class NodeGraph(Protocol):
    """What the Node authoriser asks."""

    def pod_node(self, namespace: str, name: str) -> str | None:
        """Return the pod's node (empty: none yet), or None when there is no such pod."""
        ...

    def reaches(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a pod on the node needs an object: secrets, configmaps, persistentvolumes, serviceaccounts, …."""
        ...


class CachedGraph(NodeGraph):
    """Asks the watch cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: OrderedDict[str, tuple[int, References]] = OrderedDict()

    def pod_node(self, namespace: str, name: str) -> str | None:
        """Return the pod's node, or None when the cache knows no such pod."""
        entry = self._cache.get(f"{_PODS}{namespace}/{name}")
        return None if entry is None else str(entry.decoded.spec.nodeName)

    def reaches(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a pod on the node needs an object."""
        if resource == "volumeattachments":
            return self._is_on(f"{_ATTACHMENTS}{name}", node)
        if resource == "resourceslices":
            return self._is_on(f"{_SLICES}{name}", node)
        if resource == "persistentvolumes":
            return any(volume == name for volume in self._volumes(node))
        wanted = (resource, name)
        for entry in self._pods(node):
            if entry.namespace == namespace and wanted in self._references(entry):
                return True
        if resource == "secrets":
            return any((namespace, name) in self._volume_secrets(volume) for volume in self._volumes(node))
        return False

    def _is_on(self, key: str, node: str) -> bool:
        entry = self._cache.get(key)
        return entry is not None and entry.decoded.spec.nodeName == node

    def _pods(self, node: str) -> list[Entry]:
        return self._cache.list(_PODS, index=("spec.nodeName", node)).entries

    def _volumes(self, node: str) -> Iterator[str]:
        """Return the persistent volumes that claims of the node's pods are bound to."""
        for entry in self._pods(node):
            for resource, name in self._references(entry):
                if resource == "persistentvolumeclaims":
                    claim = self._cache.get(f"{_CLAIMS}{entry.namespace}/{name}")
                    if claim is not None and claim.decoded.spec.volumeName:
                        yield claim.decoded.spec.volumeName

    def _volume_secrets(self, volume: str) -> set[tuple[str, str]]:
        entry = self._cache.get(f"{_VOLUMES}{volume}")
        if entry is None:
            return set()
        csi = entry.decoded.spec.persistentVolumeSource.csi
        named = (csi.nodePublishSecretRef, csi.nodeStageSecretRef, csi.nodeExpandSecretRef)
        return {(item.namespace, item.name) for item in named if item.name}

    def _references(self, entry: Entry) -> References:
        known = self._known.get(entry.key)
        if known is not None and known[0] == entry.mod_revision:
            return known[1]
        found = references(entry.decoded)
        self._known[entry.key] = (entry.mod_revision, found)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found


def references(pod: core.Pod) -> References:
    """Return what a pod names. A mirror pod gives its node nothing: the node itself has written it."""
    if MIRROR in pod.metadata.annotations:
        return frozenset()
    spec = pod.spec
    found: set[tuple[str, str]] = {("serviceaccounts", spec.serviceAccountName)}
    found.update(("secrets", entry.name) for entry in spec.imagePullSecrets)
    for volume in spec.volumes:
        found.update(_of_volume(pod, volume))
    for container in (*spec.initContainers, *spec.containers):
        found.update(_of_environment(container))
    for ephemeral in spec.ephemeralContainers:
        found.update(_of_environment(ephemeral.ephemeralContainerCommon))
    found.update(("resourceclaims", claim.resourceClaimName) for claim in spec.resourceClaims)
    found.update(("resourceclaims", claim.resourceClaimName) for claim in pod.status.resourceClaimStatuses)
    return frozenset(pair for pair in found if pair[1])


def _of_volume(pod: core.Pod, volume: core.Volume) -> Iterator[tuple[str, str]]:
    source = volume.volumeSource
    yield "secrets", source.secret.secretName
    yield "configmaps", source.configMap.localObjectReference.name
    for part in source.projected.sources:
        yield "secrets", part.secret.localObjectReference.name
        yield "configmaps", part.configMap.localObjectReference.name
    yield "persistentvolumeclaims", source.persistentVolumeClaim.claimName
    if source.HasField("ephemeral"):
        yield "persistentvolumeclaims", f"{pod.metadata.name}-{volume.name}"
    yield "secrets", source.csi.nodePublishSecretRef.name
    yield "secrets", source.flexVolume.secretRef.name
    yield "secrets", source.cephfs.secretRef.name
    yield "secrets", source.rbd.secretRef.name
    yield "secrets", source.iscsi.secretRef.name
    yield "secrets", source.azureFile.secretName
    yield "secrets", source.scaleIO.secretRef.name
    yield "secrets", source.storageos.secretRef.name


def _of_environment(container: core.Container | core.EphemeralContainerCommon) -> Iterator[tuple[str, str]]:
    for env in container.env:
        yield "secrets", env.valueFrom.secretKeyRef.localObjectReference.name
        yield "configmaps", env.valueFrom.configMapKeyRef.localObjectReference.name
    for entry in container.envFrom:
        yield "secrets", entry.secretRef.localObjectReference.name
        yield "configmaps", entry.configMapRef.localObjectReference.name
