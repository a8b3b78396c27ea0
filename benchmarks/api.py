"""The apiserver: create, get, list, watch fan-out, delete, the write stream, heartbeats; beside raw etcd.

The load comes from this one process over TLS with a client certificate, and everything shares the machine's cores, so
the yardstick is what etcd does alone in the same run: single compare-and-swaps at the same concurrency, over the same
TLS. Requests are made ready before the clock starts; answers are taken as bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import time

from benchmarks.raw_etcd import raw_cas_rate, raw_range_seconds
from benchmarks.report import Report
from benchmarks.world import (
    APISERVER,
    NAMESPACE,
    cpu_seconds,
    create_pods,
    gather_limited,
    make_pod,
    measure_rate,
    world,
)
from wharfinger.api import kinds
from wharfinger.api.types import coordination, core
from wharfinger.client import Client
from wharfinger.client.options import delete_call, list_options
from wharfinger.client.requests import Requests, unknown
from wharfinger.devtools.cluster import Cluster
from wharfinger.proto.native import resources_v1_pb2 as native

CONCURRENCY = (1, 16, 64)
KUBERNETES_CREATES = 1361
"""Creates a second of the real kube-apiserver at 64 concurrent, the best seen (facts/peers.md, another day)."""
PODS = kinds.of(core.Pod)
REQUESTS = Requests(PODS)


async def measure(*, runs: int, quick: bool) -> Report:
    """Return the report."""
    report = Report("api")
    scale = 10 if quick else 1
    async with world(start=[APISERVER]) as (cluster, client):
        raw = await _raw(cluster, report, runs, scale)
        await _writes(client, report, runs, scale, raw)
    async with world(start=[APISERVER]) as (cluster, client):
        await _list(cluster, client, report, runs, 5000 // scale)
    async with world(start=[APISERVER]) as (cluster, client):
        await _fan_out(cluster, client, report, runs, 2000 // scale)
    async with world(start=[APISERVER]) as (cluster, client):
        await _heartbeats(cluster, client, report, 5000 // scale, seconds=20 // scale + 5)
    return report


async def _raw(cluster: Cluster, report: Report, runs: int, scale: int) -> dict[int, float]:
    rates = {}
    for concurrency in CONCURRENCY:
        results = [
            await raw_cas_rate(cluster.etcd_endpoint, concurrency, 2 / scale, tls=_tls(cluster)) for _ in range(runs)
        ]
        rates[concurrency] = report.add(f"raw etcd compare-and-swap, {concurrency} concurrent", results, "/s")
    return rates


def _tls(cluster: Cluster) -> tuple[bytes, bytes, bytes]:
    names = ("etcd-ca.crt", "etcd-client.crt", "etcd-client.key")
    ca, cert, key = (cluster.pki.joinpath(name).read_bytes() for name in names)
    return ca, cert, key


async def _writes(client: Client, report: Report, runs: int, scale: int, raw: dict[int, float]) -> None:
    names = itertools.count()
    channel = client.transport.endpoint().channel
    method = "/wharfinger.v1.Resources/"
    create, get, delete = (channel.unary_unary(method + name) for name in ("Create", "Get", "Delete"))
    best = 0.0
    for concurrency in CONCURRENCY:
        count = (800 if concurrency == 1 else 6000) // scale
        rates: dict[str, list[float]] = {"create": [], "get": [], "delete": []}
        for _ in range(runs):
            batch = [f"pod-{next(names)}" for _ in range(count)]
            bodies = [_create_request(make_pod(name)).SerializeToString() for name in batch]
            rates["create"].append(await measure_rate(create, bodies, concurrency))
            gets = [native.GetRequest(reference=_named(name)).SerializeToString() for name in batch]
            rates["get"].append(await measure_rate(get, gets, concurrency))
            gone = [_delete_request(name).SerializeToString() for name in batch]
            rates["delete"].append(await measure_rate(delete, gone, concurrency))
        for name, results in rates.items():
            last = name == "create" and concurrency == CONCURRENCY[-1]
            target = 2 * KUBERNETES_CREATES if last else None
            value = report.add(f"{name}, {concurrency} concurrent", results, "/s", at_least=target)
            if last:
                best = value
                ratios = [rate / raw[concurrency] for rate in results]
                report.add("create / raw compare-and-swap, 64 concurrent", ratios, "", at_least=0.35)
    results = []
    for _ in range(runs):
        count = 12000 // scale
        pods = [make_pod(f"pod-{next(names)}") for _ in range(count)]
        results.append(count / await create_pods(client, pods, outstanding=64))
    stream = report.add("create on the write stream, 64 outstanding", results, "/s")
    report.add("write stream / unary create", [stream / best], "", at_least=2.5)
    results = []
    for _ in range(runs):
        count = 12000 // scale
        pods = [make_pod(f"pod-{next(names)}") for _ in range(count)]
        results.append(count / await create_pods(client, pods, outstanding=512))
    report.add("create on the write stream, 512 outstanding", results, "/s")


def _named(name: str) -> native.Reference:
    return REQUESTS.reference(namespace=NAMESPACE, name=name)


def _create_request(pod: core.Pod) -> native.CreateRequest:
    return native.CreateRequest(reference=REQUESTS.of(pod), object=unknown(PODS, pod.SerializeToString()))


def _delete_request(name: str) -> native.DeleteRequest:
    return native.DeleteRequest(reference=_named(name), delete_options=delete_call({"grace_period_seconds": 0})[0])


async def _list(cluster: Cluster, client: Client, report: Report, runs: int, count: int) -> None:
    await create_pods(client, [make_pod(f"pod-{index}") for index in range(count)])
    listing = client.transport.endpoint().channel.unary_stream("/wharfinger.v1.Resources/List")
    request = native.ListRequest(
        reference=REQUESTS.reference(namespace=NAMESPACE), options=list_options()
    ).SerializeToString()
    seconds, raw, decoded = [], [], []
    for _ in range(max(runs, 5)):
        started = time.perf_counter()
        size = sum([len(chunk) async for chunk in listing(request)])
        seconds.append((time.perf_counter() - started) * 1000)
        assert size > count * 300, size
        raw.append(await raw_range_seconds(cluster.etcd_endpoint, "/registry/pods/", tls=_tls(cluster)) * 1000)
        started = time.perf_counter()
        assert len((await client.resource(core.Pod).list(namespace=NAMESPACE)).items) == count
        decoded.append((time.perf_counter() - started) * 1000)
    report.add(f"raw etcd range of {count} pods", raw, "ms")
    report.add(f"list {count} pods", seconds, "ms")
    report.add(f"list {count} pods, decoded by the client", decoded, "ms")
    ratios = [ours / theirs for ours, theirs in zip(seconds, raw, strict=True)]
    report.add("list / raw range", ratios, "", at_most=2.0)


async def _fan_out(cluster: Cluster, client: Client, report: Report, runs: int, count: int) -> None:
    pid = cluster.pid(APISERVER)
    assert pid is not None
    names = itertools.count()
    watch = client.transport.endpoint().channel.unary_stream(
        "/wharfinger.v1.Resources/Watch", response_deserializer=native.WatchBatch.FromString
    )
    for watchers in (0, 1, 10, 100):
        rates, cpu = [], []
        for _ in range(runs):
            version = (await client.resource(core.Pod).list(namespace=NAMESPACE, limit=1)).resource_version
            options = list_options(resource_version=version)
            options.watch = True
            request = native.WatchRequest(reference=REQUESTS.reference(namespace=NAMESPACE), options=options)
            total = count if watchers <= 10 else count // 4

            async def follow(request: bytes = request.SerializeToString(), total: int = total) -> None:
                seen, call = 0, watch(request)
                async for batch in call:
                    seen += sum(event.type == native.ADDED for event in batch.events)
                    if seen >= total:
                        call.cancel()
                        return

            tasks = [asyncio.create_task(follow()) for _ in range(watchers)]
            await asyncio.sleep(0.5)  # until all watches stand; not part of what is measured
            used, started = cpu_seconds(pid), time.perf_counter()
            await create_pods(client, [make_pod(f"pod-{next(names)}") for _ in range(total)], outstanding=64)
            await asyncio.gather(*tasks)
            rates.append(total / (time.perf_counter() - started))
            cpu.append((cpu_seconds(pid) - used) / total * 1e6)
        report.add(f"creates a second seen by all of {watchers} watchers", rates, "/s")
        report.add(f"apiserver CPU a create with {watchers} watchers", cpu, "µs")


async def _heartbeats(cluster: Cluster, client: Client, report: Report, count: int, *, seconds: int) -> None:
    """Renew `count` leases every ten seconds, each node on a stream of its own, as agents do."""
    pid = cluster.pid(APISERVER)
    assert pid is not None
    leases = []
    for index in range(count):
        lease = coordination.Lease()
        lease.metadata.name, lease.metadata.namespace = f"bench-{index}", "kube-node-lease"
        lease.spec.holderIdentity, lease.spec.leaseDurationSeconds = lease.metadata.name, 40
        leases.append(lease)
    writers = [client.writer() for _ in leases]

    async def create(index: int) -> None:
        made = await writers[index].create(leases[index], brief=True)
        leases[index].metadata.resourceVersion = made.metadata.resourceVersion

    await gather_limited((create(index) for index in range(count)), 200)
    loop = asyncio.get_running_loop()
    begin = loop.time() + 1.0

    async def beat(index: int) -> None:
        due = begin + 10.0 * index / count
        while due < begin + seconds:
            await asyncio.sleep(due - loop.time())
            lease = leases[index]
            lease.spec.renewTime.seconds = int(time.time())
            renewed = await writers[index].update(lease, brief=True, lazy=True)
            lease.metadata.resourceVersion = renewed.metadata.resourceVersion
            due += 10.0

    async def watch_cpu() -> float:
        await asyncio.sleep(begin + 1 - loop.time())
        used, started = cpu_seconds(pid), loop.time()
        await asyncio.sleep(begin + seconds - 1 - loop.time())
        return (cpu_seconds(pid) - used) / (loop.time() - started) * 100

    load = await asyncio.gather(watch_cpu(), *(beat(index) for index in range(count)))
    report.add(
        f"heartbeats of {count} nodes every 10 s, a stream each", [float(load[0] or 0)], "% of a core", at_most=15
    )
    await asyncio.gather(*(writer.close() for writer in writers))
