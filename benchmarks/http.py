"""The HTTP front beside the gRPC one, in the same run: create, get, and lists of many pods in every form.

One client process over TLS with a client certificate, answers taken as bytes. Lists are asked for without compression
(what a client on the same machine should do) and once with gzip (what kubectl asks for). The first list in a form pays
for making every object's bytes, which are kept with the cached object; it is shown apart. ``watch`` is the load of
:mod:`benchmarks.watchload`.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks import watchload
from benchmarks.api import REQUESTS
from benchmarks.report import Report
from benchmarks.world import APISERVER, NAMESPACE, create_pods, make_pod, measure_rate, world
from wharfinger.api import codec
from wharfinger.client import Client, ClientConfig
from wharfinger.client.options import list_options
from wharfinger.client.requests import unknown
from wharfinger.devtools.cluster import Cluster
from wharfinger.proto.native import resources_v1_pb2 as native

CONCURRENCY = (1, 64)
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
TIMES_GRPC = 4.0
"""At most this much longer than over gRPC may a list as JSON take."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


async def measure(*, runs: int, quick: bool) -> Report:
    """Return the report."""
    report = Report("http")
    scale = 10 if quick else 1
    async with world(start=[APISERVER]) as (cluster, client), session(cluster) as http:
        await _writes(client, http, report, runs, scale)
    async with world(start=[APISERVER]) as (cluster, client), session(cluster) as http:
        await _lists(client, http, report, runs, 5000 // scale)
    # So that the minute is enough to see a client cut off that never reads.
    flags = {APISERVER: ["--request-timeout", "10"]}
    async with world(start=[APISERVER], flags=flags) as (cluster, client), session(cluster) as http:
        load = await watchload.run(
            client, http, watches=1000 // scale, rate=200, seconds=60 / scale, pid=cluster.pid(APISERVER)
        )
        load.add_to(report)
    return report


@asynccontextmanager
async def session(cluster: Cluster) -> AsyncIterator[aiohttp.ClientSession]:
    """Open an HTTP session of the administrator, with any number of connections."""
    context = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
    context.load_cert_chain(cluster.pki / "user-admin.crt", cluster.pki / "user-admin.key")
    base = ClientConfig.load(cluster.kubeconfig).server
    async with aiohttp.ClientSession(
        base, connector=aiohttp.TCPConnector(ssl=context, limit=0), skip_auto_headers=["Accept", "Accept-Encoding"]
    ) as made:
        yield made


async def _ask(http: aiohttp.ClientSession, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    async with http.request(method, path, data=body or None, headers=headers, auto_decompress=False) as answer:
        data = await answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data


async def _writes(client: Client, http: aiohttp.ClientSession, report: Report, runs: int, scale: int) -> None:
    names = itertools.count()
    channel = client.transport.endpoint().channel
    create, get = (channel.unary_unary(f"/wharfinger.v1.Resources/{name}") for name in ("Create", "Get"))
    kind = {"Content-Type": JSON, "Accept": JSON}

    for concurrency in CONCURRENCY:
        count = (600 if concurrency == 1 else 4000) // scale
        rates: dict[str, list[float]] = {name: [] for name in ("create", "get", "grpc create", "grpc get")}
        for _ in range(runs):
            batch = [make_pod(f"pod-{next(names)}") for _ in range(count)]
            bodies = [codec.to_json_bytes(pod) for pod in batch]
            rates["create"].append(
                await measure_rate(lambda body: _ask(http, "POST", PODS, body, **kind), bodies, concurrency)
            )
            paths = [f"{PODS}/{pod.metadata.name}".encode() for pod in batch]
            rates["get"].append(
                await measure_rate(lambda path: _ask(http, "GET", path.decode(), Accept=JSON), paths, concurrency)
            )
            batch = [make_pod(f"pod-{next(names)}") for _ in range(count)]
            messages = [
                native.CreateRequest(
                    reference=REQUESTS.of(pod), object=unknown(REQUESTS.kind, pod.SerializeToString())
                ).SerializeToString()
                for pod in batch
            ]
            rates["grpc create"].append(await measure_rate(create, messages, concurrency))
            gets = [
                native.GetRequest(
                    reference=REQUESTS.reference(namespace=NAMESPACE, name=pod.metadata.name)
                ).SerializeToString()
                for pod in batch
            ]
            rates["grpc get"].append(await measure_rate(get, gets, concurrency))
        for name, results in rates.items():
            report.add(f"{name}, {concurrency} concurrent", results, "/s")


async def _lists(client: Client, http: aiohttp.ClientSession, report: Report, runs: int, count: int) -> None:
    await create_pods(client, [make_pod(f"pod-{index}") for index in range(count)])
    listing = client.transport.endpoint().channel.unary_stream("/wharfinger.v1.Resources/List")
    request = native.ListRequest(
        reference=REQUESTS.reference(namespace=NAMESPACE), options=list_options()
    ).SerializeToString()

    async def grpc_list() -> int:
        return sum([len(chunk) async for chunk in listing(request)])

    async def http_list(accept: str, encoding: str = "identity") -> int:
        return len(await _ask(http, "GET", PODS, Accept=accept, **{"Accept-Encoding": encoding}))

    forms: dict[str, Any] = {
        "gRPC": grpc_list,
        "HTTP, JSON": lambda: http_list(JSON),
        "HTTP, JSON, gzip": lambda: http_list(JSON, "gzip"),
        "HTTP, Table": lambda: http_list(TABLE),
        "HTTP, protobuf": lambda: http_list(PROTOBUF),
    }
    seconds: dict[str, list[float]] = {}
    for name, call in forms.items():
        started = time.perf_counter()
        size = await call()
        report.add(f"first list of {count} pods: {name}", [(time.perf_counter() - started) * 1000], "ms")
        report.add(f"size of the list: {name}", [size / (1 << 20)], "MiB")
    for _ in range(max(runs, 5)):
        for name, call in forms.items():
            started = time.perf_counter()
            await call()
            seconds.setdefault(name, []).append((time.perf_counter() - started) * 1000)
            await asyncio.sleep(0.1)  # so that one form's garbage is not another's time
    for name, results in seconds.items():
        report.add(f"list of {count} pods: {name}", results, "ms")
    for name, limit in (("HTTP, JSON", TIMES_GRPC), ("HTTP, Table", None), ("HTTP, protobuf", None)):
        ratios = [ours / theirs for ours, theirs in zip(seconds[name], seconds["gRPC"], strict=True)]
        report.add(f"{name} / gRPC", ratios, "", at_most=limit)
