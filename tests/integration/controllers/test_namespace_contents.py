"""What every namespace gets: its default account and the authority's certificate."""

from __future__ import annotations

from tests.integration.controllers.plane import Plane, until
from wharfinger.api import errors
from wharfinger.api.types import core


async def test_account_and_authority_are_there_and_come_back(plane: Plane) -> None:
    bundle = (plane.folder / "ca.crt").read_text()
    manager = plane.manager("--root-ca-file", str(plane.folder / "ca.crt"))
    async with plane.client() as client:
        accounts, maps = client.resource(core.ServiceAccount), client.resource(core.ConfigMap)
        space = core.Namespace()
        space.metadata.name = "furnished"
        await client.resource(core.Namespace).create(space)

        async def furnished() -> bool:
            await accounts.get("default", namespace="furnished")
            published = await maps.get("kube-root-ca.crt", namespace="furnished")
            return (
                dict(published.data) == {"ca.crt": bundle}
                and "kubernetes.io/description" in published.metadata.annotations
            )

        await until(furnished, "both are there")
        await accounts.delete("default", namespace="furnished")
        await maps.patch("kube-root-ca.crt", patch={"data": {"ca.crt": "mine", "x": "y"}}, namespace="furnished")
        await until(furnished, "both are as they were")
        await maps.delete("kube-root-ca.crt", namespace="furnished")
        await until(furnished, "it is there again")
        await client.resource(core.Namespace).delete("furnished")

        async def gone() -> bool:
            try:
                await client.resource(core.Namespace).get("furnished")
            except errors.NotFoundError:
                return True
            return False

        await until(gone, "they do not hold the namespace up")
    assert not manager.said("Traceback")
