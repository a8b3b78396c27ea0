"""A cluster for a benchmark, and the objects that fill it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.cluster import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Cluster, Settings, own_network

NAMESPACE = "default"
IMAGE = "wharf.local/busybox:1"
__all__ = ["APISERVER", "CONTROLLER_MANAGER", "ETCD", "NAMESPACE", "SCHEDULER", "make_node", "make_pod", "world"]


@contextlib.asynccontextmanager
async def world(
    *,
    start: Sequence[str] = (APISERVER,),
    flags: dict[str, list[str]] | None = None,
    nodes: int = 0,
) -> AsyncIterator[tuple[Cluster, Client]]:
    """Start etcd and the named daemons on free ports below a temporary folder; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="wharf-bench-"))
    prefix, subnet = own_network()
    everything = (APISERVER, SCHEDULER, CONTROLLER_MANAGER)
    settings = Settings(
        nodes=nodes, flags=flags or {}, prefix=prefix, subnet=subnet, without=[n for n in everything if n not in start]
    )
    cluster = Cluster(folder, settings, progress=lambda text: None)
    try:
        await asyncio.to_thread(cluster.up)
        async with Client(ClientConfig.load(cluster.kubeconfig)) as client:
            if CONTROLLER_MANAGER not in start:  # it would have made the account that pods need
                account = core.ServiceAccount()
                account.metadata.name, account.metadata.namespace = "default", NAMESPACE
                await client.resource(core.ServiceAccount).create(account)
            yield cluster, client
    finally:
        await asyncio.to_thread(cluster.down, purge=True)
        shutil.rmtree(folder, ignore_errors=True)


def make_pod(name: str, *, cpu: str = "100m", memory: str = "64Mi", labels: dict[str, str] | None = None) -> core.Pod:
    """Return a small pod as a person would write it."""
    pod = core.Pod()
    pod.metadata.name, pod.metadata.namespace = name, NAMESPACE
    for key, value in (labels or {"app": "web"}).items():
        pod.metadata.labels[key] = value
    container = pod.spec.containers.add(name="main", image=IMAGE)
    container.command.extend(["sleep", "3600"])
    container.resources.requests["cpu"].string = cpu
    container.resources.requests["memory"].string = memory
    return pod


def make_node(index: int, *, cpu: str = "32", memory: str = "256Gi", pods: str = "110") -> core.Node:
    """Return a Ready node without an agent."""
    node = core.Node()
    node.metadata.name = f"bench-{index}"
    node.metadata.labels["kubernetes.io/hostname"] = node.metadata.name
    node.metadata.labels["topology.kubernetes.io/zone"] = f"zone-{index % 3}"
    for resource, amount in (("cpu", cpu), ("memory", memory), ("pods", pods), ("ephemeral-storage", "100Gi")):
        node.status.capacity[resource].string = amount
        node.status.allocatable[resource].string = amount
    node.status.conditions.add(type="Ready", status="True", reason="KubeletReady")
    return node


def node_like(index: int, like: core.Node | None) -> core.Node:
    """Return a node with labels and allocatable of another."""
    node = make_node(index)
    if like is not None:
        node.metadata.labels.update(like.metadata.labels)
        for amounts in (node.status.capacity, node.status.allocatable):
            for resource, amount in like.status.allocatable.items():
                amounts[resource].string = amount.string
    return node


async def create_nodes(client: Client, count: int, *, like: core.Node | None = None) -> None:
    """Create Ready nodes, with labels and allocatable of `like` if given; admission's taint is taken off."""
    async with client.writer() as writer:

        async def one(index: int) -> None:
            node = await writer.create(node_like(index, like))
            if node.spec.taints:
                await writer.patch(core.Node, node.metadata.name, patch={"spec": {"taints": None}}, brief=True)
            if not node.status.capacity:
                node.status.CopyFrom(node_like(index, like).status)
                node.metadata.resourceVersion = ""
                await writer.update(node, subresource="status", brief=True)

        await gather_limited((one(index) for index in range(count)), 256)


async def create_pods(client: Client, pods: Iterable[core.Pod], *, outstanding: int = 256) -> float:
    """Create pods through one write stream; return the seconds it took."""
    started = time.perf_counter()
    async with client.writer() as writer:
        await gather_limited((writer.create(pod, brief=True) for pod in pods), outstanding)
    return time.perf_counter() - started


async def gather_limited(work: Iterable[Any], limit: int) -> None:
    """Run coroutines, at most `limit` at a time, each worker taking the next when it is done."""
    iterator = iter(work)

    async def worker() -> None:
        for coroutine in iterator:
            await coroutine

    await asyncio.gather(*(worker() for _ in range(limit)))


async def measure_rate(call: Callable[[bytes], Any], requests: Sequence[bytes], concurrency: int) -> float:
    """Make a call with each of the requests at a concurrency; return calls a second."""
    started = time.perf_counter()
    await gather_limited((call(request) for request in requests), concurrency)
    return len(requests) / (time.perf_counter() - started)


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    return psutil.Process(pid).memory_info().rss / (1 << 20)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
