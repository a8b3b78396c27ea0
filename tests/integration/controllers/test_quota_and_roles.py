"""What quotas use is counted and given back; roles that are sums follow their parts; both under the real roles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.integration.controllers.plane import Plane, until
from wharfinger.api import errors
from wharfinger.api.types import core, rbac
from wharfinger.client import Client


def _used(client: Client, namespace: str, **wanted: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        found = await client.resource(core.ResourceQuota).get("q", namespace=namespace)
        return {name: found.status.used[name].string for name in found.status.used} == wanted

    return check


async def test_a_quota_fills_and_frees(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client:
        namespace = core.Namespace()
        namespace.metadata.name = "bounded"
        await client.resource(core.Namespace).create(namespace)
        maps = client.resource(core.ConfigMap)
        quota = core.ResourceQuota()
        quota.metadata.name, quota.metadata.namespace = "q", "bounded"
        quota.spec.hard["count/configmaps"].string = "2"
        first = core.ConfigMap()
        first.metadata.name, first.metadata.namespace = "first", "bounded"
        await maps.create(first)
        await client.resource(core.ResourceQuota).create(quota)
        # The publisher of the cluster's authority is not there: only ours is counted.
        await until(_used(client, "bounded", **{"count/configmaps": "1"}), "what was there before is counted")
        first.metadata.name = "second"
        await maps.create(first)
        assert await _used(client, "bounded", **{"count/configmaps": "2"})()
        first.metadata.name = "third"
        try:
            await maps.create(first)
        except errors.ForbiddenError as error:
            refusal = str(error)
        else:
            refusal = ""
        assert "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2" in refusal
        await maps.delete("second", namespace="bounded")

        async def fits() -> bool:
            try:
                await maps.create(first)
            except errors.ForbiddenError:
                return False
            return True

        await until(fits, "what a deleted object used is free again")


async def test_admin_is_the_sum_of_its_parts(plane: Plane) -> None:
    plane.manager()
    async with plane.client() as client:
        roles = client.resource(rbac.ClusterRole)
        part = rbac.ClusterRole()
        part.metadata.name = "gadgets"
        part.metadata.labels["rbac.authorization.k8s.io/aggregate-to-view"] = "true"
        part.rules.add(verbs=["get"], apiGroups=["acme.io"], resources=["gadgets"])
        await roles.create(part)

        def has(name: str, *, gadgets: bool) -> Callable[[], Awaitable[bool]]:
            async def check() -> bool:
                role = await roles.get(name)
                kinds = {resource for rule in role.rules for resource in rule.resources}
                return "pods" in kinds and ("gadgets" in kinds) is gadgets

            return check

        # view is part of edit, and edit of admin: the sum of a sum.
        for name in ("view", "edit", "admin"):
            await until(has(name, gadgets=True), f"{name} has the part's rule")
        await roles.delete("gadgets")
        for name in ("view", "edit", "admin"):
            await until(has(name, gadgets=False), f"{name} has lost it again")
