"""Two schedulers that know nothing of each other's plans, on two apiservers: no node is ever overfilled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.integration.scheduler.conftest import ELECTION, World, dump, make_namespace
from tests.support.clusters import started
from wharfinger import pki
from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.cluster import CONTROLLER_MANAGER, SCHEDULER, Cluster, Settings

OTHER = "scheduler-other"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two apiservers; the usual scheduler talks to the first, another one to the second."""
    settings = Settings(nodes=0, apiservers=2, without=[CONTROLLER_MANAGER], flags={SCHEDULER: ELECTION})
    with started(settings) as made:
        ca, pair = pki.load_ca(made.pki, stem="ca"), pki.read_pair(made.pki, f"user-{SCHEDULER}")
        kubeconfig = made.directory / "other.kubeconfig"
        pki.write_kubeconfig(
            kubeconfig, server=f"https://127.0.0.1:{made.port('apiserver2-https')}", ca=ca.cert, cert=pair.cert,
            key=pair.key, grpc_endpoints=[f"127.0.0.1:{made.port('apiserver2-grpc')}"], user=SCHEDULER,
            cluster="wharfinger", context="wharfinger",
        )  # fmt: skip
        command = [made.command(SCHEDULER)[0], "--kubeconfig", str(kubeconfig), "--scheduler-name", "other"]
        command += ["--leader-elect=false", "--secure-port", "0", "--grpc-port", "0"]
        made.processes.start(OTHER, command)
        yield made


@pytest_asyncio.fixture
async def world(cluster: Cluster) -> AsyncIterator[World]:
    async with Client(ClientConfig.load(cluster.kubeconfig)) as client:
        await make_namespace(client, "race")
        yield World(cluster, client, "race")


async def test_two_schedulers_race_for_a_nearly_full_node(world: World) -> None:
    await world.node("nearly-full", cpu="10")

    def by_the_other(pod: core.Pod) -> None:
        pod.spec.schedulerName = "other"

    # Both must be at work before the race begins.
    await asyncio.gather(world.pod("first", cpu="1"), world.pod("second", cpu="1", change=by_the_other))
    assert await world.bound("first") == await world.bound("second") == "nearly-full", dump(world.cluster)
    await asyncio.gather(
        *(world.pod(f"a-{index}", cpu="1") for index in range(12)),
        *(world.pod(f"b-{index}", cpu="1", change=by_the_other) for index in range(12)),
    )

    async def placed() -> list[core.Pod]:
        return [pod for pod in (await world.pods.list(namespace="race")).items if pod.spec.nodeName]

    async def settled() -> bool:
        found = await placed()
        assert len(found) <= 10, "overfilled"
        return len(found) == 10

    await world.until(settled)
    for name in ("a-11", "b-11"):
        pod = await world.get(name)
        if not pod.spec.nodeName:
            assert "Insufficient cpu" in await world.refused(name)
    assert len(await placed()) == 10
