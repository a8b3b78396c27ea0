"""The scheduler against an API that has only what Kubernetes has: HTTPS, no gRPC endpoints in its kubeconfig."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.integration.scheduler.conftest import ELECTION, World
from tests.integration.scheduler.test_preemption import leaving, priority_class
from wharfinger.api.types import coordination, core
from wharfinger.devtools.cluster import APISERVER, Cluster

NAME = "second"
"""The pods that the foreign scheduler places; the cluster's own scheduler leaves them alone."""


class Foreign:
    """Starts schedulers that speak HTTP."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        document = yaml.safe_load(cluster.kubeconfig.read_text())
        for entry in document["clusters"]:
            del entry["cluster"]["extensions"]
        self._folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(document))
        self._stack = ExitStack()
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / f"log-{len(self.processes)}").open("wb"))
        process = subprocess.Popen(
            [
                sys.executable, "-m", "controlplane.scheduler.main", "--kubeconfig", str(self.kubeconfig),
                "--scheduler-name", NAME, "--secure-port", "0", "--grpc-port", "0", *ELECTION,
            ],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def leads(self, index: int) -> bool:
        """Whether the scheduler that was started as this one has come to lead."""
        return " leading " in (self._folder / f"log-{index}").read_text()

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("log-*")))

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=20)
        self._stack.close()


@pytest.fixture
def foreign(cluster: Cluster, tmp_path: Path) -> Iterator[Foreign]:
    made = Foreign(cluster, tmp_path)
    try:
        yield made
    finally:
        made.close()


def ours(pod: core.Pod) -> None:
    pod.spec.schedulerName = NAME


async def holder(world: World) -> str:
    leases = await world.client.resource(coordination.Lease).list(namespace="kube-system")
    return next((it.spec.holderIdentity for it in leases.items if it.metadata.name == "wharf-scheduler"), "")


async def test_it_binds_and_tells_and_survives_the_apiserver(world: World, foreign: Foreign) -> None:
    await world.node("f-1", cpu="2")
    foreign.start()
    await world.pod("fits", change=ours)
    await world.pod("large", cpu="64", change=ours)
    assert await world.bound("fits") == "f-1", foreign.logs()
    event = await world.event("fits", "Scheduled")
    assert event.source.component == NAME
    assert "Insufficient cpu" in await world.refused("large")
    await world.event("large", "FailedScheduling")
    world.cluster.stop(APISERVER)
    world.cluster.start(APISERVER)
    await world.pod("later", change=ours)
    assert await world.bound("later") == "f-1", foreign.logs()
    assert foreign.logs().count("bindings are not checked") == 1
    assert "watch stood still" not in foreign.logs()


async def test_one_of_two_leads_and_the_other_takes_over(world: World, foreign: Foreign) -> None:
    await world.node("f-2", cpu="2")

    async def leads(index: int) -> bool:
        return foreign.leads(index)

    first = foreign.start()
    await world.until(lambda: leads(0))
    foreign.start()
    await world.pod("one", change=ours)
    await world.bound("one")
    before = await holder(world)
    assert not foreign.leads(1)
    first.kill()
    first.wait()
    await world.pod("two", change=ours)
    assert await world.bound("two") == "f-2", foreign.logs()
    assert foreign.leads(1)
    assert await holder(world) not in ("", before)


async def test_it_makes_room(world: World, foreign: Foreign) -> None:
    await world.node("f-3", cpu="1")
    foreign.start()
    await world.pod("cheap", cpu="1", change=ours)
    await world.bound("cheap")
    await priority_class(world, "foreign-high", 1000, "PreemptLowerPriority")

    def change(pod: core.Pod) -> None:
        ours(pod)
        pod.spec.priorityClassName = "foreign-high"

    await world.pod("dear", cpu="1", change=change)
    await leaving(world, "cheap")

    async def nominated() -> str:
        return (await world.get("dear")).status.nominatedNodeName

    assert await world.until(nominated) == "f-3", foreign.logs()
    await world.pods.delete("cheap", namespace=world.namespace, grace_period_seconds=0)
    assert await world.bound("dear") == "f-3", foreign.logs()
