"""From bind to Running on a real node, beside the bare CRI calls for the same pod: one at a time, and 50 at once."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time

import grpc
import grpc.aio

from benchmarks.report import Report
from benchmarks.world import APISERVER, IMAGE, NAMESPACE, make_pod, world
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.devtools.containerd import NodeRuntime
from wharfinger.proto.cri import runtime_v1_pb2 as cri
from wharfinger.proto.cri import runtime_v1_pb2_grpc as cri_grpc

NODE = "node-1"
AT_ONCE = 50
SINGLY = 10


async def measure(*, runs: int, quick: bool) -> Report:
    """Return the report."""
    report = Report("pod")
    names = itertools.count()
    at_once = 10 if quick else AT_ONCE
    async with world(start=[APISERVER], nodes=1) as (cluster, client):
        runtime = cluster.runtime(NODE)
        bare_one, ours_one, bare_many, ours_many = [], [], [], []
        await _ours(client, [f"warm-{next(names)}"])
        await _bare(runtime, [f"warm-{next(names)}"])
        for _ in range(runs):
            # Alternately, so that a slow moment of the machine meets both.
            pairs = [
                (await _bare(runtime, [f"p{next(names)}"]), await _ours(client, [f"p{next(names)}"]))
                for _ in range(SINGLY)
            ]
            bare_one.append(statistics.median(bare for bare, _ in pairs) * 1000)
            ours_one.append(statistics.median(ours for _, ours in pairs) * 1000)
            bare_many.append(await _bare(runtime, [f"p{next(names)}" for _ in range(at_once)]))
            ours_many.append(await _ours(client, [f"p{next(names)}" for _ in range(at_once)]))
    report.add("bare CRI calls, one pod", bare_one, "ms")
    report.add("bind to Running, one pod", ours_one, "ms")
    ratios = [ours / bare for ours, bare in zip(ours_one, bare_one, strict=True)]
    report.add("ours / bare, one pod", ratios, "", at_most=1.3)
    report.add(f"bare CRI calls, {at_once} pods at once", bare_many, "s")
    report.add(f"bind to Running, {at_once} pods at once", ours_many, "s")
    ratios = [ours / bare for ours, bare in zip(ours_many, bare_many, strict=True)]
    report.add(f"ours / bare, {at_once} pods at once", ratios, "", at_most=1.3)
    return report


async def _ours(client: Client, names: list[str]) -> float:
    """Create pods without a node, bind them all, and return the seconds until the last is Running."""
    pods = client.resource(core.Pod)
    for name in names:
        pod = make_pod(name, cpu="1m", memory="4Mi")
        pod.spec.terminationGracePeriodSeconds = 0
        await pods.create(pod)
    version = (await pods.list(namespace=NAMESPACE, limit=1)).resource_version
    running: set[str] = set()

    async def follow() -> None:
        async for events in pods.watch(namespace=NAMESPACE, resource_version=version):
            running.update(e.object.metadata.name for e in events if e.object.status.phase == "Running")
            if running >= set(names):
                return

    watching = asyncio.create_task(follow())
    await asyncio.sleep(0.2)  # until the watch stands
    started = time.perf_counter()
    await asyncio.gather(*(client.bind(NAMESPACE, name, node=NODE) for name in names))
    async with asyncio.timeout(120):
        await watching
    seconds = time.perf_counter() - started
    for name in names:
        await pods.delete(name, namespace=NAMESPACE, grace_period_seconds=0)
    async with asyncio.timeout(120):
        while (await pods.list(namespace=NAMESPACE)).items:
            await asyncio.sleep(0.1)
    return seconds


async def _bare(runtime: NodeRuntime, names: list[str]) -> float:
    """Do by hand what the agent must ask of containerd; return the seconds."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{runtime.socket}", options=options) as channel:
        stub = cri_grpc.RuntimeServiceStub(channel)  # type: ignore[no-untyped-call]
        sandboxes: list[str] = []

        async def one(name: str) -> None:
            logs = str(runtime.path / "bare-logs" / name)
            config = cri.PodSandboxConfig(
                metadata=cri.PodSandboxMetadata(name=name, namespace="bare", uid=name),
                hostname=name,
                log_directory=logs,
            )
            config.linux.cgroup_parent = f"{runtime.cgroup_parent}/bare-{name}"
            sandbox = (await stub.RunPodSandbox(cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
            sandboxes.append(sandbox)
            container = cri.ContainerConfig(
                metadata=cri.ContainerMetadata(name="main"),
                image=cri.ImageSpec(image=IMAGE),
                command=["sleep", "3600"],
                log_path="main/0.log",
            )
            container.linux.resources.cpu_shares = 2
            made = await stub.CreateContainer(
                cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
            )
            await stub.StartContainer(cri.StartContainerRequest(container_id=made.container_id))

        started = time.perf_counter()
        await asyncio.gather(*(one(name) for name in names))
        seconds = time.perf_counter() - started
        for sandbox in sandboxes:
            await stub.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
            await stub.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
        return seconds
