"""Who is let in, and who may do what."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.apiserver.objects import config_map, lease, node, pod
from tests.support.apiserver import Apiserver
from wharfinger.api import errors
from wharfinger.api.types import coordination, core
from wharfinger.client import Client, ClientConfig


async def test_tokens_stand_for_users(server: Apiserver, namespace: str) -> None:
    async with server.token_client("admin-token") as admin:
        await admin.resource(core.ConfigMap).create(config_map("a", namespace))
    async with server.token_client("alice-token") as alice:
        with pytest.raises(errors.ForbiddenError, match='User "alice" cannot get resource "configmaps"'):
            await alice.resource(core.ConfigMap).get("a", namespace=namespace)
    async with server.token_client("wrong") as nobody:
        with pytest.raises(errors.UnauthorizedError):
            await nobody.resource(core.ConfigMap).get("a", namespace=namespace)


async def test_the_first_port_demands_a_certificate(server: Apiserver) -> None:
    ca = (server.folder / "ca.crt").read_bytes()
    async with Client(ClientConfig(endpoints=[server.endpoint], ca=ca, token="admin-token")) as client:
        with pytest.raises(errors.ServiceUnavailableError):
            await client.resource(core.Namespace).list()


async def test_strangers_may_do_nothing(server: Apiserver, namespace: str) -> None:
    async with server.client("alice", ["devs"]) as alice:
        maps = alice.resource(core.ConfigMap)
        for attempt in (
            maps.list(namespace=namespace),
            maps.create(config_map("a", namespace)),
            maps.delete("a", namespace=namespace),
            alice.bind(namespace, "web", node="n1"),
        ):
            with pytest.raises(errors.ForbiddenError):
                await attempt


async def test_the_scheduler_binds_and_does_not_create(server: Apiserver, client: Client, namespace: str) -> None:
    await client.resource(core.Pod).create(pod("web", namespace))
    async with server.client("system:kube-scheduler", []) as scheduler:
        await scheduler.bind(namespace, "web", node="n1")
        await scheduler.resource(core.Pod).patch(
            "web", patch={"status": {"nominatedNodeName": "n2"}}, namespace=namespace, subresource="status"
        )
        for attempt in (
            scheduler.resource(core.Pod).create(pod("other", namespace)),
            scheduler.resource(core.Secret).list(),
            scheduler.resource(core.Node).delete("n1"),
        ):
            with pytest.raises(errors.ForbiddenError):
                await attempt


async def test_an_agent_touches_only_its_own(server: Apiserver, client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    mine = await pods.create(pod("mine", namespace, node="its-own"))
    theirs = await pods.create(pod("theirs", namespace, node="other"))
    secret = core.Secret()
    secret.metadata.name, secret.metadata.namespace = "password", namespace
    await client.resource(core.Secret).create(secret)
    async with server.client("system:node:its-own", ["system:nodes"]) as agent:
        await agent.resource(core.Node).create(node("its-own"))
        await agent.resource(coordination.Lease).create(lease("its-own", "kube-node-lease", "its-own"))
        mine.status.phase = "Running"
        await agent.resource(core.Pod).update_status(mine)
        assert len((await agent.resource(core.Pod).list(field_selector="spec.nodeName=its-own")).items) == 1
        theirs.status.phase = "Running"
        mine.metadata.resourceVersion = ""
        for attempt in (
            agent.resource(core.Node).create(node("other")),
            agent.resource(core.Node).get("other"),
            agent.resource(core.Pod).list(),
            agent.resource(core.Pod).list(field_selector="spec.nodeName=other"),
            agent.resource(core.Pod).update_status(theirs),
            agent.resource(core.Pod).update(mine),
            agent.resource(core.Pod).delete("theirs", namespace=namespace),
            agent.resource(core.Pod).create(pod("new", namespace)),
            agent.resource(coordination.Lease).create(lease("other", "kube-node-lease", "other")),
            agent.resource(coordination.Lease).create(lease("leader", "kube-system", "its-own")),
            agent.resource(core.Secret).get("password", namespace=namespace),
            agent.resource(core.Namespace).delete(namespace),
        ):
            with pytest.raises(errors.ForbiddenError):
                await attempt
        uses = pod("uses", namespace, node="its-own")
        uses.spec.volumes.add(name="v").volumeSource.secret.secretName = "password"
        await pods.create(uses)
        async with asyncio.timeout(10):
            while True:
                try:
                    await agent.resource(core.Secret).get("password", namespace=namespace)
                except errors.ForbiddenError:
                    await asyncio.sleep(0.02)
                    continue
                break
        await agent.resource(core.Pod).delete("mine", namespace=namespace, grace_period_seconds=0)
