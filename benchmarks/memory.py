"""Resident memory of each daemon: idle, and with many nodes and pods."""

from __future__ import annotations

import asyncio

import psutil

from benchmarks.report import Report
from benchmarks.world import (
    APISERVER,
    CONTROLLER_MANAGER,
    NAMESPACE,
    SCHEDULER,
    create_nodes,
    create_pods,
    make_pod,
    resident_mib,
    world,
)
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.devtools.cluster import Cluster

DAEMONS = (APISERVER, SCHEDULER, CONTROLLER_MANAGER)
KUBERNETES_MIB = 1125
"""The real three with 1,000 nodes and 5,000 pods (facts/peers.md)."""
SETTLE_SECONDS = 5


async def measure(*, runs: int, quick: bool) -> Report:
    """Return the report; one run each, since memory hardly varies."""
    report = Report("memory")
    scale = 10 if quick else 1
    async with world(start=DAEMONS, nodes=1) as (cluster, _):
        await asyncio.sleep(SETTLE_SECONDS)
        _add(cluster, report, "idle", limit=200)
        agent = cluster.pid("node-1")
        assert agent is not None
        report.add("node agent, idle", [resident_mib(agent)], "MiB", at_most=70)
    for nodes, pods, limit in ((1000, 5000, KUBERNETES_MIB / 3), (5000, 10_000, None)):
        flags = {CONTROLLER_MANAGER: ["--node-monitor-grace-period", "3600s"]}  # nobody renews these nodes' leases
        async with world(start=DAEMONS, flags=flags) as (cluster, client):
            await create_nodes(client, nodes // scale)
            await create_pods(client, [make_pod(f"pod-{index}") for index in range(pods // scale)])
            await _all_bound(client)
            await asyncio.sleep(SETTLE_SECONDS)
            _add(cluster, report, f"{nodes // scale} nodes, {pods // scale} pods", limit=limit)
    return report


async def _all_bound(client: Client) -> None:
    async with asyncio.timeout(300):
        while (
            await client.resource(core.Pod).list(namespace=NAMESPACE, field_selector="spec.nodeName=", limit=1)
        ).items:
            await asyncio.sleep(0.5)


def _add(cluster: Cluster, report: Report, label: str, *, limit: float | None) -> None:
    total = proportional = 0.0
    for name in DAEMONS:
        pid = cluster.pid(name)
        assert pid is not None, f"{name} does not run"
        total += report.add(f"{name}, {label}", [resident_mib(pid)], "MiB")
        proportional += psutil.Process(pid).memory_full_info().pss / (1 << 20)
    report.add(f"all three, {label}", [total], "MiB", at_most=limit)
    report.add(f"all three, {label}, shared pages counted once", [proportional], "MiB")
