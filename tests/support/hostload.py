"""Clients of a cluster of test hosts: writers and watchers that go on while its hosts fail, and what they were told.

Runs as a process of its own, since the hosts are reachable from the controller's network namespace only:

    python -m tests.support.hostload KUBECONFIG NAMESPACE

It prints ``ready`` once every writer was acknowledged, works until its input ends, then waits until the cluster
answers everybody, compares, and prints one line of JSON: see :class:`Report`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.support.history import Counters, Deletions, PodHistory
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.hosts import Bed

WRITERS = 3


@dataclass
class Report:
    """What came of it; everything in `troubles` is a broken promise."""

    writes: int = 0
    unknown: int = 0
    """Writes whose answer was lost; the writer read back and went on."""
    longest_gap: float = 0.0
    """Seconds that one writer was without an acknowledged write, at most."""
    reads: int = 0
    secrets: int = 0
    """Reads of the Secret that went well, of all apiservers together."""
    troubles: list[str] = field(default_factory=list)


class Reader:
    """Reads one ConfigMap again and again; what it sees must never go back in time."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._maps = client.resource(core.ConfigMap)
        self._namespace = namespace
        self._name = name
        self.reads = 0
        self.troubles: list[str] = []

    async def run(self) -> None:
        """Read until cancelled."""
        last = (0, 0)
        while True:
            with contextlib.suppress(errors.StatusError):
                found = await self._maps.get(self._name, namespace=self._namespace)
                now = (int(found.metadata.resourceVersion), int(found.data["n"]))
                if now < last:
                    self.troubles.append(f"a read of {self._name} went back from {last} to {now}")
                last = max(last, now)
                self.reads += 1
            await asyncio.sleep(0.02)


class Secrets:
    """Writes a Secret again and again, and reads it through each apiserver: none may fail to decrypt it."""

    def __init__(self, config: ClientConfig, namespace: str) -> None:
        self._config = config
        self._namespace = namespace
        self._name = "load"
        self.reads = 0
        self.troubles: list[str] = []

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write())
            for endpoint in self._config.endpoints:
                group.create_task(self._read(endpoint))

    async def _write(self) -> None:
        async with Client(self._config) as client:
            secrets = client.resource(core.Secret)
            while True:
                with self._told("a write"):
                    try:
                        found = await secrets.get(self._name, namespace=self._namespace)
                        found.data["n"] = str(int(found.data["n"]) + 1).encode()
                        await secrets.update(found)
                    except errors.NotFoundError:
                        fresh = core.Secret()
                        fresh.metadata.name, fresh.metadata.namespace = self._name, self._namespace
                        fresh.data["n"] = b"0"
                        await secrets.create(fresh)
                await asyncio.sleep(0.25)

    async def _read(self, endpoint: str) -> None:
        async with Client(replace(self._config, endpoints=[endpoint])) as client:
            secrets = client.resource(core.Secret)
            while True:
                with self._told(f"a read from {endpoint}"):
                    await secrets.get(self._name, namespace=self._namespace)
                    await secrets.list(namespace=self._namespace)
                    self.reads += 1
                await asyncio.sleep(0.25)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except errors.StatusError as error:
            # Servers that are away, and a Secret that is not there yet, are others' tests.
            if "transform" in str(error):
                self.troubles.append(f"{what}: {error}")


class Load:
    """All clients together."""

    def __init__(self, config: ClientConfig, namespace: str) -> None:
        self._config = config
        self._namespace = namespace
        self.report = Report()

    async def run(self, since: str) -> None:
        """Work until the input ends."""
        names = [f"load-{index}" for index in range(WRITERS)]
        async with Client(self._config) as client, Client(self._config) as other:
            counters = Counters(client, self._namespace, names)
            deletions = Deletions(client, self._namespace)
            reader = Reader(other, self._namespace, names[0])
            secrets = Secrets(self._config, self._namespace)
            watcher = PodHistory(self._config, self._namespace, "watcher")
            tasks = [asyncio.create_task(counters.count(name)) for name in names]
            tasks += [asyncio.create_task(work) for work in (deletions.run(), reader.run(), secrets.run())]
            tasks.append(asyncio.create_task(watcher.follow(since)))
            tasks.append(asyncio.create_task(self._watch_gaps(counters)))
            await self._acknowledged(counters, names)
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.read)
            with contextlib.suppress(TimeoutError):
                await self._acknowledged(counters, names)
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self.report.troubles.append(f"a client broke: {outcome!r}")
            self.report.troubles += reader.troubles + secrets.troubles + watcher.troubles
            self.report.troubles += await counters.lost()
            self.report.troubles += [f"{name} was deleted and is back" for name in sorted(await deletions.back())]
            self.report.writes = sum(counters.acknowledged.values())
            self.report.unknown = counters.unknown
            self.report.reads = reader.reads
            self.report.secrets = secrets.reads

    async def _acknowledged(self, counters: Counters, names: list[str]) -> None:
        """Wait until every writer has an answer to a write that began after now."""
        before = dict(counters.acknowledged)
        async with asyncio.timeout(60):
            while any(counters.acknowledged.get(name, 0) <= before.get(name, 0) + 1 for name in names):
                await asyncio.sleep(0.05)

    async def _watch_gaps(self, counters: Counters) -> None:
        seen: dict[str, tuple[int, float]] = {}
        while True:
            now = time.monotonic()
            for name, value in counters.acknowledged.items():
                last, when = seen.get(name, (value, now))
                self.report.longest_gap = max(self.report.longest_gap, now - when)
                if value != last or name not in seen:
                    seen[name] = (value, now)
            await asyncio.sleep(0.02)


class HostLoad:
    """The process, from the side of a test."""

    def __init__(self, bed: Bed, kubeconfig: Path, *, namespace: str = "default") -> None:
        command = [sys.executable, "-m", "tests.support.hostload", str(kubeconfig), namespace]
        self._process = subprocess.Popen(
            bed.on_controller(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).resolve().parents[2],
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line == "ready", f"the load did not start: {line}"

    def end(self) -> Report:
        """Let the clients finish; return what they saw."""
        out, _ = self._process.communicate("")
        assert self._process.returncode == 0, f"the load failed: {out}"
        return Report(**json.loads(out))

    def kill(self) -> None:
        """End it without asking, when the test has failed anyway."""
        self._process.kill()
        self._process.wait()


async def _main(kubeconfig: str, namespace: str) -> None:
    config = ClientConfig.load(kubeconfig)
    async with Client(config) as client:
        since = (await client.resource(core.Pod).list(namespace=namespace)).resource_version
    load = Load(config, namespace)
    await load.run(since)
    print(json.dumps(asdict(load.report)), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
