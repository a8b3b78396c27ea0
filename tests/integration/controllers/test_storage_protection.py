"""Claims and volumes in use outlive their deletion, and not a moment longer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.integration.controllers.plane import Plane, until
from wharfinger.api import errors
from wharfinger.api.types import core


def _gone(resource: Any, name: str, **where: str) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        try:
            await resource.get(name, **where)
        except errors.NotFoundError:
            return True
        return False

    return gone


async def test_a_claim_stays_until_its_pod_is_gone(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client:
        claims, pods = client.resource(core.PersistentVolumeClaim), client.resource(core.Pod)
        volumes = client.resource(core.PersistentVolume)
        for name in ("used", "unused"):
            claim = core.PersistentVolumeClaim()
            claim.metadata.name, claim.metadata.namespace = name, "default"
            claim.spec.accessModes.append("ReadWriteOnce")
            claim.spec.resources.requests["storage"].string = "1Gi"
            made = await claims.create(claim)
            assert list(made.metadata.finalizers) == ["kubernetes.io/pvc-protection"]
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace = "user", "default"
        pod.spec.terminationGracePeriodSeconds = 0
        pod.spec.containers.add(name="c", image="registry.example/c:1")
        volume = pod.spec.volumes.add(name="data")
        volume.volumeSource.persistentVolumeClaim.claimName = "used"
        await until(lambda: _created(pods, pod), "the account is there and with it the pod")
        for name in ("used", "unused"):
            await claims.delete(name, namespace="default")
        await until(_gone(claims, "unused", namespace="default"), "nobody holds the unused claim")
        assert (await claims.get("used", namespace="default")).metadata.HasField("deletionTimestamp")
        await pods.delete("user", namespace="default", grace_period_seconds=0)
        await until(_gone(claims, "used", namespace="default"), "nobody holds the claim any more")

        disk = core.PersistentVolume()
        disk.metadata.name = "disk"
        disk.spec.accessModes.append("ReadWriteOnce")
        disk.spec.capacity["storage"].string = "1Gi"
        disk.spec.persistentVolumeSource.hostPath.path = "/data"
        await volumes.create(disk)
        await volumes.delete("disk")
        await until(_gone(volumes, "disk"), "an unbound volume goes")


async def _created(pods: Any, pod: core.Pod) -> bool:
    try:
        await pods.create(pod)
    except errors.AlreadyExistsError:
        return True
    except errors.ForbiddenError:
        return False
    return True
