"""A Deployment from its first revision to its second and back, with pods that become ready."""

from __future__ import annotations

from tests.integration.controllers.plane import FakeNodes, Plane, deployment, until
from wharfinger.api.types import apps, core


async def test_roll_out_back_and_away(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client, FakeNodes(client, "d1", "d2"):
        deployments, sets, pods = (client.resource(kind) for kind in (apps.Deployment, apps.ReplicaSet, core.Pod))
        await deployments.create(deployment(replicas=4))

        async def complete(image: str) -> bool:
            now = await deployments.get("web", namespace="default")
            reasons = {item.type: item.reason for item in now.status.conditions}
            running = [
                pod.spec.containers[0].image
                for pod in (await pods.list(namespace="default", label_selector="app=web")).items
                if not pod.metadata.HasField("deletionTimestamp")
            ]
            return (
                running == [f"registry.example/{image}"] * 4
                and now.status.availableReplicas == now.status.updatedReplicas == 4
                and now.status.observedGeneration == now.metadata.generation
                and reasons["Progressing"] == "NewReplicaSetAvailable"
            )

        await until(lambda: complete("v1"), "the first revision is complete")
        for image in ("v2", "v1"):
            patch = {
                "spec": {"template": {"spec": {"containers": [{"name": "c", "image": f"registry.example/{image}"}]}}}
            }
            await deployments.patch("web", patch=patch, patch_type="strategic", namespace="default")
            await until(lambda image=image: complete(image), f"{image} is complete")  # type: ignore[misc]
        listed = (await sets.list(namespace="default", label_selector="app=web")).items
        revisions = {
            item.metadata.annotations["deployment.kubernetes.io/revision"]: item.spec.replicas for item in listed
        }
        assert revisions == {"2": 0, "3": 4}
        await deployments.delete("web", namespace="default", propagation_policy="Background")

        async def gone() -> bool:
            left = [
                *(await sets.list(namespace="default", label_selector="app=web")).items,
                *(await pods.list(namespace="default", label_selector="app=web")).items,
            ]
            return not left

        await until(gone, "ReplicaSets and pods go with it")
