"""Many watches over HTTP while objects are written: is an event lost, does memory grow, does anybody hurt the others?

Most watches are idle: they follow namespaces in which nothing happens, half of them with bookmarks. Some follow the
objects that are written, each of which carries a number that grows by one with each write, so that a lost, repeated or
late event is noticed. One client opens a watch on the same objects and never reads. What the cache keeps of the past is
filled before the clock starts, so that its memory is not taken for growth.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from benchmarks.report import Report
from benchmarks.world import cpu_seconds, gather_limited, resident_mib
from wharfinger.api.types import core
from wharfinger.client import Client

BUSY, IDLE = "busy", "idle"
OBJECTS = 40
FOLLOWERS = 20
FILL = 12_000
"""Writes that fill what the cache keeps of the past (10,000 changes of a resource)."""
MERGE = {"Content-Type": "application/merge-patch+json"}
GROWTH = 16.0
"""MiB by which the apiserver may grow in the time: what allocators leave behind."""


@dataclass
class Follower:
    """What one watch has seen."""

    numbers: list[int] = field(default_factory=list)
    disorder: int = 0
    """Events that came after a later one."""
    revision: int = 0
    bookmarks: int = 0
    others: int = 0


@dataclass
class Load:
    """What came of it."""

    watches: int
    rate: float
    seconds: float
    written: int = 0
    lost: int = 0
    repeated: int = 0
    disorder: int = 0
    noise: int = 0
    """Events that idle watches got."""
    broken: int = 0
    """Watches that ended."""
    cut_after: float | None = None
    """Seconds until the client that never reads was cut off."""
    resident: list[float] = field(default_factory=list)
    """MiB of the apiserver, each second."""
    cpu: float = 0.0
    lags: list[float] = field(default_factory=list)
    """Seconds from a write to its event at a follower."""

    @property
    def growth(self) -> float:
        """MiB from the first to the last quarter of the time."""
        quarter = max(len(self.resident) // 4, 1)
        return statistics.median(self.resident[-quarter:]) - statistics.median(self.resident[:quarter])

    def add_to(self, report: Report) -> None:
        """Add the rows."""
        label = f"{self.watches} watches, {self.rate:g} writes/s, {self.seconds:g} s"
        report.add(f"{label}: writes", [self.written], "")
        report.add(
            f"{label}: events lost, repeated or out of order",
            [self.lost + self.repeated + self.disorder],
            "",
            at_most=0,
        )
        report.add(f"{label}: watches that broke or got events of others", [self.broken + self.noise], "", at_most=0)
        report.add(f"{label}: apiserver memory", [self.resident[-1]], "MiB")
        report.add(f"{label}: growth", [self.growth], "MiB", at_most=GROWTH)
        report.add(f"{label}: CPU", [self.cpu / self.seconds * 100], "% of a core")
        report.add(f"{label}: from a write to its event, median", [statistics.median(self.lags) * 1000], "ms")
        report.add(
            f"{label}: from a write to its event, 99 %", [statistics.quantiles(self.lags, n=100)[98] * 1000], "ms"
        )
        if self.cut_after is not None:
            report.add(f"{label}: until a client that never reads is cut off", [self.cut_after], "s")
        report.add(f"{label}: clients that never read and are kept", [float(self.cut_after is None)], "", at_most=0)


async def run(
    client: Client, http: aiohttp.ClientSession, *, watches: int, rate: float, seconds: float, pid: int | None,
    fill: int = FILL,
) -> Load:  # fmt: skip
    """Open the watches, write, count. The never-reading client is waited for after the time, if need be."""
    assert pid is not None
    load = Load(watches, rate, seconds)
    await _namespaces(client)
    numbers = itertools.count(1)
    sent: dict[int, float] = {}
    version = str(await _filled(client, http, load, fill))
    followers = [Follower() for _ in range(FOLLOWERS)]
    idle = [Follower() for _ in range(max(watches - FOLLOWERS, 0))]
    tasks = [
        asyncio.create_task(_follow(http, f"/api/v1/namespaces/{BUSY}/configmaps", version, one, load, sent, True))
        for one in followers
    ]
    opened: list[asyncio.Event] = []
    for index, one in enumerate(idle):
        event = asyncio.Event()
        opened.append(event)
        path = f"/api/v1/namespaces/{IDLE}-{index % 10}/configmaps"
        tasks.append(asyncio.create_task(_follow(http, path, version, one, load, sent, index % 2 == 0, event)))
    async with asyncio.timeout(120):
        await asyncio.gather(*(event.wait() for event in opened))
    deaf = asyncio.create_task(_never_read(http, version, load))
    watching = asyncio.create_task(_sample(pid, load))
    used, started = cpu_seconds(pid), time.perf_counter()
    due = started
    writes: set[asyncio.Task[None]] = set()
    while due < started + seconds:
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        number = next(numbers)
        task = asyncio.create_task(_write(http, number, sent))
        writes.add(task)
        task.add_done_callback(writes.discard)
        due += 1 / rate
    await asyncio.gather(*writes)
    load.cpu = cpu_seconds(pid) - used
    load.written = len(sent)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            while any(len(one.numbers) < load.written for one in followers):
                await asyncio.sleep(0.05)
    watching.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 30)):
            while load.cut_after is None:  # it may take more events until its buffers are full
                await _write(http, next(numbers), {}, size=50_000)
    load.broken = sum(task.done() for task in tasks)
    deaf.cancel()
    for task in tasks:
        task.cancel()
    await asyncio.gather(deaf, watching, *tasks, return_exceptions=True)
    _count(load, followers, idle)
    return load


def _count(load: Load, followers: list[Follower], idle: list[Follower]) -> None:
    wanted = set(range(1, load.written + 1))
    for one in followers:
        seen = [number for number in one.numbers if number in wanted]
        load.lost += len(wanted) - len(set(seen))
        load.repeated += len(seen) - len(set(seen))
        load.disorder += one.disorder
    load.noise = sum(one.others + len(one.numbers) for one in idle)


async def _namespaces(client: Client) -> None:
    for name in (BUSY, *(f"{IDLE}-{number}" for number in range(10))):
        namespace = core.Namespace()
        namespace.metadata.name = name
        await client.resource(core.Namespace).create(namespace)


async def _filled(client: Client, http: aiohttp.ClientSession, load: Load, count: int) -> int:
    """Fill the window while somebody watches, so that the bytes of its events are there, too."""
    version = (await client.resource(core.ConfigMap).list(namespace=BUSY)).resource_version
    one = Follower()
    path = f"/api/v1/namespaces/{BUSY}/configmaps"
    watching = asyncio.create_task(_follow(http, path, version, one, load, {}, bookmarks=True))
    reached = await _fill(client, count)
    async with asyncio.timeout(120):
        while one.revision < reached:
            await asyncio.sleep(0.05)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return reached


async def _fill(client: Client, count: int) -> int:
    """Create the objects and change them until the cache's window is full; return the version of the last change."""
    version = 0
    async with client.writer() as writer:

        async def one(index: int) -> None:
            nonlocal version
            made = core.ConfigMap()
            made.metadata.name, made.metadata.namespace = f"m-{index}", BUSY
            made.data["text"] = "x" * 800
            made.data["number"] = "0"
            kept = await writer.create(made)
            for turn in range(count // OBJECTS):
                kept.data["turn"] = str(turn)
                kept = await writer.update(kept)
            version = max(version, int(kept.metadata.resourceVersion))

        await gather_limited((one(index) for index in range(OBJECTS)), OBJECTS)
    return version


async def _write(http: aiohttp.ClientSession, number: int, sent: dict[int, float], size: int = 0) -> None:
    data = {"number": str(number), **({"large": "x" * size} if size else {})}
    patch = orjson.dumps({"data": data})
    path = f"/api/v1/namespaces/{BUSY}/configmaps/m-{number % OBJECTS}"
    sent[number] = time.perf_counter()
    async with http.patch(path, data=patch, headers=MERGE) as answer:
        await answer.read()
        if answer.status != 200:
            raise RuntimeError(f"a write failed: {answer.status}")


async def _follow(
    http: aiohttp.ClientSession, path: str, version: str, one: Follower, load: Load, sent: dict[int, float],
    bookmarks: bool, opened: asyncio.Event | None = None,
) -> None:  # fmt: skip
    query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": str(bookmarks).lower()}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
    async with http.get(path, params=query, timeout=timeout) as answer:
        if answer.status != 200:
            raise RuntimeError(f"a watch failed: {answer.status}")
        if opened is not None:
            opened.set()
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            now = time.perf_counter()
            for line in lines:
                _take(orjson.loads(line), one, load, sent, now)


def _take(event: Any, one: Follower, load: Load, sent: dict[int, float], now: float) -> None:
    if event["type"] == "BOOKMARK":
        one.bookmarks += 1
        return
    if event["type"] != "MODIFIED":
        one.others += 1
        return
    found = event["object"]
    number, revision = int(found["data"]["number"]), int(found["metadata"]["resourceVersion"])
    one.disorder += revision < one.revision
    one.revision = revision
    if not number:
        return
    one.numbers.append(number)
    if number in sent:
        load.lags.append(now - sent[number])


async def _never_read(http: aiohttp.ClientSession, version: str, load: Load) -> None:
    """Open a watch of the busy objects and leave it alone until the server ends the connection."""
    connector = http.connector
    assert isinstance(connector, aiohttp.TCPConnector)
    context: Any = connector._ssl
    url = http._base_url
    assert url is not None
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context, limit=1024)
    transport: Any = writer.transport
    writer.write(
        f"GET /api/v1/namespaces/{BUSY}/configmaps?watch=true&resourceVersion={version} HTTP/1.1\r\nHost: x\r\n"
        f"{_authorization(http)}\r\n".encode()
    )
    await writer.drain()
    await reader.readuntil(b"\r\n\r\n")
    transport.pause_reading()
    sock = transport.get_extra_info("socket")
    try:
        while True:
            await asyncio.sleep(0.2)
            if _peer_is_gone(sock):
                load.cut_after = time.perf_counter() - started
                return
    finally:
        transport.abort()


def _authorization(http: aiohttp.ClientSession) -> str:
    found = http.headers.get("Authorization")
    return f"Authorization: {found}\r\n" if found else ""


def _peer_is_gone(sock: Any) -> bool:
    """Whether the other side has reset or closed the connection, without reading: the state that Linux tells."""
    import socket

    established = 1
    return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != established)


async def _sample(pid: int, load: Load) -> None:
    while True:
        load.resident.append(resident_mib(pid))
        await asyncio.sleep(min(1.0, load.seconds / 10))
