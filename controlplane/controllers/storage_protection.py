"""Lets claims and volumes go that were deleted and that nobody uses any more.

Admission puts a finalizer on each (``StorageObjectInUseProtection``). It is taken off a claim when no pod that still
lives names it, and off a volume when it is not bound. Whether a pod names a claim is asked of the server at that moment
and not of a cache: a claim that goes too early is lost.
"""

from __future__ import annotations

from typing import Any

from controlplane.controllers.context import Context, work
from controlplane.controllers.objects import deleting
from wharfinger.api import errors
from wharfinger.api.pods import is_terminal
from wharfinger.api.types import core

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
WORKERS = 2


class StorageProtectionController:
    """See the module."""

    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, context: Context) -> None:
        self._claims = context.informers.of(core.PersistentVolumeClaim)
        self._volumes = context.informers.of(core.PersistentVolume)
        self._pods = context.informers.of(core.Pod)
        self._client = context.client
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch and sync."""
        for informer in (self._claims, self._volumes):
            informer.add_handler(on_add=self._look, on_update=lambda _, item: self._look(item))
        self._pods.add_handler(
            on_update=lambda _, pod: self._pod_ended(pod) if is_terminal(pod) else None, on_delete=self._pod_ended
        )
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _look(self, obj: Any) -> None:
        if deleting(obj):
            self._queue.add((obj.metadata.namespace, obj.metadata.name))

    def _pod_ended(self, pod: core.Pod) -> None:
        for claim in self._claims.items():
            if claim.metadata.namespace == pod.metadata.namespace:
                self._look(claim)

    async def _sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        obj: Any
        if namespace:
            obj, finalizer = self._claims.get(f"{namespace}/{name}"), CLAIM_FINALIZER
        else:
            obj, finalizer = self._volumes.get(name), VOLUME_FINALIZER
        if obj is None or not deleting(obj) or finalizer not in obj.metadata.finalizers:
            return
        if await self._claim_used(namespace, name) if namespace else obj.status.phase == "Bound":
            return
        freed = type(obj)()
        freed.CopyFrom(obj)
        freed.metadata.finalizers.remove(finalizer)
        try:
            await self._client.resource(type(obj)).update(freed)
        except errors.NotFoundError:
            return

    async def _claim_used(self, namespace: str, name: str) -> bool:
        pods = await self._client.resource(core.Pod).list(namespace=namespace)
        return any(
            volume.volumeSource.persistentVolumeClaim.claimName == name or _ephemeral(pod, volume) == name
            for pod in pods.items
            if not is_terminal(pod)
            for volume in pod.spec.volumes
        )


def _ephemeral(pod: core.Pod, volume: core.Volume) -> str:
    """Return the name of the claim that an ephemeral volume has; empty for other volumes."""
    return f"{pod.metadata.name}-{volume.name}" if volume.volumeSource.HasField("ephemeral") else ""
