"""The scheduler with many nodes: a standing queue, and from the first create to the last bound pod.

Nodes are objects without agents. All processes share the machine's cores. The real control plane's figure on this kind
of machine is of another day (facts/peers.md): the raw compare-and-swap rate of this run stands beside.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.raw_etcd import raw_cas_rate
from benchmarks.report import Report
from benchmarks.world import APISERVER, NAMESPACE, SCHEDULER, create_nodes, create_pods, make_pod, world
from wharfinger.api.types import core
from wharfinger.client import Client

KUBERNETES = 280
"""Pods a second: scheduler_perf's SchedulingBasic with 5,000 nodes and 10,000 pods."""
NODES = (500, 1000, 5000)
KINDS = (1, 50)


async def measure(*, runs: int, quick: bool) -> Report:
    """Return the report."""
    report = Report("sched")
    pods = 1000 if quick else 10_000
    standing: dict[tuple[int, int], float] = {}
    async with world(start=[APISERVER]) as (cluster, _):
        tls = tuple(
            cluster.pki.joinpath(name).read_bytes() for name in ("etcd-ca.crt", "etcd-client.crt", "etcd-client.key")
        )
        raw = [await raw_cas_rate(cluster.etcd_endpoint, 64, 2, tls=tls) for _ in range(runs)]  # type: ignore[arg-type]
    report.add("raw etcd compare-and-swap, 64 concurrent", raw, "/s")
    for nodes in NODES:
        for kinds in KINDS:
            largest = nodes == NODES[-1]
            queue = [await _standing(nodes, pods, kinds) for _ in range(runs)]
            aim = 10 * KUBERNETES if largest else None
            standing[nodes, kinds] = report.add(
                f"standing queue: {nodes} nodes, {pods} pods of {kinds} kinds", queue, "pods/s", at_least=aim
            )
            both = [await _end_to_end(nodes, pods, kinds) for _ in range(runs)]
            aim = 5 * KUBERNETES if largest else None
            report.add(f"end to end: {nodes} nodes, {pods} pods of {kinds} kinds", both, "pods/s", at_least=aim)
    for kinds in KINDS:
        ratio = standing[NODES[-1], kinds] / standing[NODES[0], kinds]
        report.add(f"{NODES[-1]} nodes / {NODES[0]} nodes, {kinds} kinds", [ratio], "", at_least=0.5)
    return report


def _pods(count: int, kinds: int) -> list[core.Pod]:
    return [
        make_pod(f"pod-{index}", cpu=f"{100 + index % kinds}m", labels={"app": f"kind-{index % kinds}"})
        for index in range(count)
    ]


class BoundWatch:
    """Counts pods that get a node, with the time of the first and the last."""

    def __init__(self, client: Client, count: int) -> None:
        self._client = client
        self._count = count
        self._bound: set[str] = set()
        self.first = self.last = 0.0

    async def run(self, version: str) -> None:
        """Return when all are bound."""
        stream = self._client.resource(core.Pod).watch(namespace=NAMESPACE, resource_version=version)
        async for events in stream:
            for event in events:
                if event.type != "BOOKMARK" and event.object.spec.nodeName:
                    self._bound.add(event.object.metadata.name)
            now = time.perf_counter()
            self.first = self.first or (now if self._bound else 0.0)
            if len(self._bound) >= self._count:
                self.last = now
                return


async def _standing(nodes: int, pods: int, kinds: int) -> float:
    async with world(start=[APISERVER]) as (cluster, client):
        await create_nodes(client, nodes)
        await create_pods(client, _pods(pods, kinds))
        version = (await client.resource(core.Pod).list(namespace=NAMESPACE, limit=1)).resource_version
        watch = BoundWatch(client, pods)
        task = asyncio.create_task(watch.run(version))
        cluster.settings.without.remove(SCHEDULER)
        await asyncio.to_thread(cluster.start, SCHEDULER)
        async with asyncio.timeout(300):
            await task
        return pods / max(watch.last - watch.first, 1e-9)


async def _end_to_end(nodes: int, pods: int, kinds: int) -> float:
    async with world(start=[APISERVER, SCHEDULER]) as (_, client):
        await create_nodes(client, nodes)
        version = (await client.resource(core.Pod).list(namespace=NAMESPACE, limit=1)).resource_version
        watch = BoundWatch(client, pods)
        task = asyncio.create_task(watch.run(version))
        started = time.perf_counter()
        await create_pods(client, _pods(pods, kinds))
        async with asyncio.timeout(300):
            await task
        return pods / (watch.last - started)
