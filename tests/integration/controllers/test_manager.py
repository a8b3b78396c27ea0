"""Two managers, one leader; what a leader that slept may still do: nothing."""

from __future__ import annotations

import asyncio

from tests.integration.controllers.plane import Plane, replicaset, until
from wharfinger.api.types import apps, coordination, core

QUICK = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")


async def test_a_leader_that_slept_is_fenced_off_and_steps_down(plane: Plane) -> None:
    old = plane.manager(*QUICK, name="old")

    async def leads() -> bool:
        return old.said("controllers run")

    await until(leads, "the first leads")
    new = plane.manager(*QUICK, name="new")
    async with plane.client() as client:
        leases, pods = client.resource(coordination.Lease), client.resource(core.Pod)
        before = (await leases.get("kube-controller-manager", namespace="kube-system")).spec.holderIdentity
        old.pause()
        # The old leader's socket gets this while it sleeps; when it wakes it will want to make three pods, too.
        await client.resource(apps.ReplicaSet).create(replicaset("fenced"))

        async def three() -> bool:
            return len((await pods.list(namespace="default", label_selector="app=fenced")).items) == 3

        await until(three, "the new leader makes three pods")
        holder = (await leases.get("kube-controller-manager", namespace="kube-system")).spec.holderIdentity
        assert holder != before
        old.resume()

        async def stepped_down() -> bool:
            return old.said("no longer leading")

        await until(stepped_down, "the old leader steps down")
        assert old.alive
        made = 'replicaset_controller_pods_total{action="create"}'
        assert (old.metric(made), new.metric(made)) == (0.0, 3.0)
        assert await three()
        new.kill()

        async def again() -> bool:
            return old.log.read_text().count("controllers run") == 2

        await until(again, "the old one leads again, in the same process")
        await client.resource(apps.ReplicaSet).delete("fenced", namespace="default")

        async def none() -> bool:
            return not (await pods.list(namespace="default", label_selector="app=fenced")).items

        await until(none, "and works")


async def test_it_waits_for_an_apiserver_that_is_away(plane: Plane) -> None:
    manager = plane.manager()
    assert plane.apiserver is not None

    async def answers() -> bool:
        return await asyncio.to_thread(lambda: manager.get("/healthz") == "ok")

    plane.apiserver.kill()
    await asyncio.sleep(1)
    plane.start_apiserver()
    async with plane.client() as client:
        await client.resource(apps.ReplicaSet).create(replicaset("away", replicas=1))
        pods = client.resource(core.Pod)

        async def one() -> bool:
            return len((await pods.list(namespace="default", label_selector="app=away")).items) == 1

        await until(one, "the pod is made", seconds=40)
    assert manager.alive


async def test_idle_memory(plane: Plane) -> None:
    manager = plane.manager("--leader-elect=false")

    async def runs() -> bool:
        return manager.said("owner graph is complete")

    await until(runs, "all controllers run")
    assert manager.resident_bytes() < 75 << 20
