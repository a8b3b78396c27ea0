"""The end of a namespace against a real apiserver."""

from __future__ import annotations

from typing import Any

from tests.integration.controllers.plane import Plane, configmap, replicaset, until
from tests.support.definitions import definition
from wharfinger.api import errors
from wharfinger.api.types import apiextensions, apps, core
from wharfinger.client.discovered import custom_kinds


async def test_a_namespace_is_emptied_and_says_what_holds_it(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client:
        spaces, maps = client.resource(core.Namespace), client.resource(core.ConfigMap)
        space = core.Namespace()
        space.metadata.name = "dying"
        await spaces.create(space)
        held = configmap("held", namespace="dying")
        held.metadata.finalizers.append("example.com/hold")
        await maps.create(held)
        await maps.create(configmap("free", namespace="dying"))
        await client.resource(apps.ReplicaSet).create(replicaset(namespace="dying"))
        pods = client.resource(core.Pod)

        async def three() -> bool:
            return len((await pods.list(namespace="dying")).items) == 3

        await until(three, "the ReplicaSet has its pods")
        await spaces.delete("dying")

        async def told() -> bool:
            now = await spaces.get("dying")
            assert now.status.phase == "Terminating"
            messages = {item.type: item.message for item in now.status.conditions if item.status == "True"}
            return (
                messages.keys() == {"NamespaceContentRemaining", "NamespaceFinalizersRemaining"}
                and "configmaps. has 1 resource instances (held)" in messages["NamespaceContentRemaining"]
                and "example.com/hold in 1 resource instances" in messages["NamespaceFinalizersRemaining"]
            )

        await until(told, "the conditions name what is left")
        assert not (await pods.list(namespace="dying")).items
        await maps.patch("held", patch={"metadata": {"finalizers": None}}, namespace="dying")

        async def gone() -> bool:
            try:
                await spaces.get("dying")
            except errors.NotFoundError:
                return True
            return False

        await until(gone, "the namespace goes")


async def test_custom_objects_go_with_their_namespace(plane: Plane) -> None:
    if not any(item.name.startswith("manager") and item.alive for item in plane._processes):
        plane.manager()
    async with plane.client() as client:
        spaces = client.resource(core.Namespace)
        await spaces.create(core.Namespace(metadata={"name": "customs"}))  # type: ignore[arg-type]
        await client.resource(apiextensions.CustomResourceDefinition).create(definition("ns.example.com"))
        kind = next(kind for kind in custom_kinds(await client.discover()) if kind.group == "ns.example.com")
        objects = client.resource(kind.message)
        lamp: Any = kind.message()
        lamp.metadata.name, lamp.metadata.namespace = "a", "customs"
        await objects.create(lamp)
        await spaces.delete("customs")

        async def gone() -> bool:
            try:
                await spaces.get("customs")
            except errors.NotFoundError:
                return True
            return False

        await until(gone, "the namespace is let go")
        assert (await objects.list()).items == []
