"""What goes wrong: apiservers and schedulers die, stand still, and come back."""

from __future__ import annotations

import asyncio
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.scheduler.conftest import World
from wharfinger.api import errors
from wharfinger.api.types import coordination
from wharfinger.devtools.cluster import SCHEDULER

SECOND = "scheduler2"


@contextmanager
def second_scheduler(world: World) -> Iterator[None]:
    """Run another scheduler beside the first."""
    cluster = world.cluster
    command = cluster.command(SCHEDULER)
    for flag in ("--secure-port", "--grpc-port"):
        command[command.index(flag) + 1] = "0"
    cluster.processes.start(SECOND, command)
    try:
        yield
    finally:
        cluster.processes.kill(SECOND)
        cluster.processes.forget(SECOND)


async def holder(world: World) -> str:
    lease = await world.client.resource(coordination.Lease).get("kube-scheduler", namespace="kube-system")
    return str(lease.spec.holderIdentity)


async def test_an_apiserver_that_dies_and_comes_back(world: World) -> None:
    await world.node("a-1")
    before = world.cluster.pid(SCHEDULER)
    await asyncio.to_thread(world.cluster.kill, "apiserver")
    await asyncio.to_thread(world.cluster.start, "apiserver")

    async def created() -> bool:
        try:
            await world.pod("web")
        except errors.AlreadyExistsError:
            return True
        except errors.ServiceUnavailableError:
            return False
        return True

    await world.until(created)
    assert await world.bound("web") == "a-1"
    assert world.cluster.pid(SCHEDULER) == before, "it waits, it does not exit"


async def test_a_dead_leader_is_replaced(world: World) -> None:
    await world.node("d-1")
    with second_scheduler(world):
        before = await holder(world)
        await world.pod("one")
        await world.bound("one")
        await asyncio.to_thread(world.cluster.kill, SCHEDULER)
        await world.pod("two")
        assert await world.bound("two") == "d-1"
        assert await holder(world) != before
    await asyncio.to_thread(world.cluster.start, SCHEDULER)
    await world.pod("three")
    assert await world.bound("three") == "d-1"


async def test_a_leader_that_stood_still_binds_nothing_after_it_wakes_up(world: World) -> None:
    await world.node("s-1", cpu="1")
    processes = world.cluster.processes
    before = await holder(world)
    with second_scheduler(world):
        processes.signal(SCHEDULER, signal.SIGSTOP)
        try:

            async def taken_over() -> bool:
                return (await holder(world)) not in ("", before)

            await world.until(taken_over)
            await world.pod("only", cpu="1")
            await world.bound("only")
        finally:
            processes.signal(SCHEDULER, signal.SIGCONT)
        # Both see these; what the old leader might still decide is refused by the fence.
        await asyncio.gather(*(world.pod(f"p{index}", cpu="1") for index in range(5)))
        for index in range(5):
            assert "Insufficient cpu" in await world.refused(f"p{index}")
        found = (await world.pods.list(namespace=world.namespace)).items
        assert [pod.metadata.name for pod in found if pod.spec.nodeName] == ["only"]


async def test_metrics_and_health(world: World) -> None:
    await world.pod("waits", cpu="64")
    await world.refused("waits")
    context = ssl.create_default_context(cafile=str(world.cluster.pki / "ca.crt"))
    context.load_cert_chain(world.cluster.pki / "user-admin.crt", world.cluster.pki / "user-admin.key")

    def read(path: str) -> str:
        url = f"https://127.0.0.1:{world.cluster.port('scheduler-health')}{path}"
        with urllib.request.urlopen(url, context=context, timeout=5) as answer:
            return str(answer.read().decode())

    async def counted() -> bool:
        text = await asyncio.to_thread(read, "/metrics")
        return 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text and (
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}' in text
        )

    await world.until(counted)
    assert "[+]informers ok" in await asyncio.to_thread(read, "/readyz?verbose")
