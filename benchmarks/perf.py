"""Runs the workloads of workloads.yaml: scheduler_perf's opcodes against real processes and a real etcd.

Each workload has a cluster of its own, with nodes that are objects without agents. What is measured is the time from
the first create (or, with a standing queue, from the first binding) to the last binding as a watch shows it, and the
CPU time that the scheduler used meanwhile: on a machine busy with other things only the latter can be compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from google.protobuf.message import Message

from benchmarks.world import APISERVER, ETCD, SCHEDULER, cpu_seconds, create_nodes, gather_limited, world
from wharfinger import daemon
from wharfinger.api import codec, errors, kinds
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.devtools.cluster import Cluster

Mode = Literal["standing", "created", "decide"]
MODES: tuple[Mode, ...] = ("standing", "created")
WORKLOADS = Path(__file__).parent / "workloads.yaml"
LIMIT_SECONDS = 240
"""For each wait: a workload that takes longer is given up."""
OUTSTANDING = 256
_INDEX = re.compile(r"\{index(?:%(\d+))?\}")


@dataclass(frozen=True)
class Workload:
    """One entry of the file."""

    name: str
    ops: list[dict[str, Any]]
    sizes: Mapping[int, Mapping[str, int]]
    """Number of nodes -> parameters."""
    modes: tuple[Mode, ...] = MODES
    fresh: bool = False
    """Whether each mode needs a cluster of its own: what is measured cannot be undone by deleting its pods."""
    growth: bool = False
    compare: Mapping[str, int] = field(default_factory=dict)
    """Parameters of a second run to compare with."""


@dataclass(frozen=True)
class Figures:
    """What one mode of a workload came to."""

    pods: int
    seconds: float
    cpu: Mapping[str, float]
    """Process -> seconds of CPU in that time; ``load`` is the benchmark itself."""
    placed: int = 0
    """How many of the pods got a node."""

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / max(self.seconds, 1e-9)

    @property
    def cpu_us(self) -> dict[str, float]:
        """Microseconds of CPU a pod, by process."""
        return {name: seconds / self.pods * 1e6 for name, seconds in self.cpu.items()}


def load(path: Path = WORKLOADS) -> tuple[dict[str, Workload], dict[str, Any]]:
    """Return workloads and object templates by name. Raises ValueError for a workload that is malformed."""
    document = yaml.safe_load(path.read_text())
    workloads = {}
    for entry in document["workloads"]:
        try:
            workload = Workload(**{**entry, "modes": tuple(entry.get("modes", MODES))})
        except TypeError as error:
            raise ValueError(f"{path.name}: workload {entry.get('name')!r}: {error}") from error
        workloads[workload.name] = workload
    return workloads, document["objects"]


def make(
    objects: Mapping[str, Any], template: str, count: int, *, namespace: str = "", number: int = 0
) -> Iterator[Message]:
    """Yield so many objects of a template, each with a name of its own; `number` tells the names of ops apart."""
    document = objects[template]
    kind = kinds.by_kind(document.get("apiVersion", "v1"), document.get("kind", "Pod"))
    if kind is None:
        raise ValueError(f"object {template!r} is of a kind that the schema does not know")
    text = json.dumps(document)
    differ = bool(_INDEX.search(text))
    base = None
    for index in range(count):
        if base is None or differ:
            filled = _INDEX.sub(lambda found: str(index % int(found[1] or count)), text) if differ else text  # noqa: B023
            base = codec.from_json(filled.encode(), kind.message).message
        made: Any = kind.message()
        made.CopyFrom(base)
        metadata = made.metadata
        if metadata.generateName:
            metadata.name, metadata.generateName = f"{metadata.generateName}{number}-{index}", ""
        if kind.namespaced:
            metadata.namespace = namespace or "default"
        yield made


async def run(
    workload: Workload, objects: Mapping[str, Any], nodes: int, *, modes: tuple[Mode, ...], **overrides: int
) -> dict[Mode, Figures]:
    """Run a workload at one of its sizes; returns the figures of each mode."""
    wanted: list[Mode] = [mode for mode in MODES[::-1] if mode in modes and mode in workload.modes]
    figures: dict[Mode, Figures] = {}
    for group in ([mode] for mode in wanted) if workload.fresh else [wanted]:
        async with world(start=[APISERVER, SCHEDULER]) as (cluster, client):
            parameters = {"nodes": nodes, **workload.sizes[nodes], **overrides}
            figures |= await _Run(cluster, client, objects, parameters, group).all(workload.ops)
    return figures


class _Tracker:
    """Follows all pods, and tells when all of some are bound or have been attempted."""

    def __init__(self, client: Client) -> None:
        self._pods = client.resource(core.Pod)
        self._unbound: set[str] = set()
        self._unattempted: set[str] = set()
        self._changed = asyncio.Event()
        self.first = self.last = 0.0
        """When the first and the last of the expected pods were seen bound."""
        self.on_first: Any = None

    def expect(self, keys: set[str]) -> None:
        self._unbound = set(keys)
        self.first = self.last = 0.0

    def expect_attempt(self, keys: set[str]) -> None:
        self._unattempted |= keys

    async def follow(self, version: str) -> None:
        while True:
            async for events in self._pods.watch(resource_version=version):
                now = time.perf_counter()
                for event in events:
                    version = event.resource_version
                    if event.type in ("ADDED", "MODIFIED"):
                        self._take(event.object, now)
                self._changed.set()

    def _take(self, pod: core.Pod, now: float) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if pod.spec.nodeName:
            if key in self._unbound:
                self._unbound.discard(key)
                if not self.first:
                    self.first = now
                    if self.on_first is not None:
                        self.on_first()
                self.last = now
        elif key in self._unattempted and any(entry.type == "PodScheduled" for entry in pod.status.conditions):
            self._unattempted.discard(key)

    async def bound(self) -> None:
        await self._until(self._unbound, "not bound")

    async def attempted(self) -> None:
        await self._until(self._unattempted, "not attempted")

    async def _until(self, left: set[str], what: str) -> None:
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                while left:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            some = ", ".join(sorted(left)[:3])
            raise TimeoutError(f"after {LIMIT_SECONDS} s {len(left)} pods are {what}: {some} …") from None


class _Run:
    """One workload in one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        objects: Mapping[str, Any],
        parameters: Mapping[str, int],
        modes: Sequence[Mode],
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._objects = objects
        self._parameters = parameters
        self._modes = modes
        self._tracker = _Tracker(client)
        self._figures: dict[Mode, Figures] = {}
        self._number = 0
        self._churns: list[asyncio.Task[None]] = []
        self._cpu_first: dict[str, float] = {}

    async def all(self, ops: list[dict[str, Any]]) -> dict[Mode, Figures]:
        version = (await self._client.resource(core.Pod).list(limit=1)).resource_version
        follower = daemon.spawn(self._tracker.follow(version), name="tracker")
        try:
            await self._make_account("default")
            for op in ops:
                arguments = {name: self._value(value) for name, value in op.items() if name != "opcode"}
                await getattr(self, "_op_" + op["opcode"])(**arguments)
        finally:
            for task in [follower, *self._churns]:
                task.cancel()
            await asyncio.gather(follower, *self._churns, return_exceptions=True)
        return self._figures

    def _value(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("$"):
            return self._parameters[value[1:]]
        return value

    def _make(self, template: str, count: int, namespace: str = "") -> Iterator[Message]:
        self._number += 1
        return make(self._objects, template, count, namespace=namespace, number=self._number)

    # -- opcodes

    async def _op_createNodes(self, *, count: int, template: str) -> None:  # noqa: N802
        await create_nodes(self._client, count, like=codec.from_json(self._objects[template], core.Node).message)

    async def _op_createNamespaces(self, *, prefix: str, count: int) -> None:  # noqa: N802
        namespaces = self._client.resource(core.Namespace)
        for index in range(count):
            namespace = core.Namespace()
            namespace.metadata.name = f"{prefix}-{index}"
            await namespaces.create(namespace)
            await self._make_account(namespace.metadata.name)

    async def _make_account(self, namespace: str) -> None:
        """Make the account that pods run as: its controller does not run here."""
        account = core.ServiceAccount()
        account.metadata.name, account.metadata.namespace = "default", namespace
        with contextlib.suppress(errors.AlreadyExistsError):
            await self._client.resource(core.ServiceAccount).create(account)

    async def _op_createAny(self, *, template: str, namespace: str = "") -> None:  # noqa: N802
        for made in self._make(template, 1, namespace):
            await self._client.resource(type(made)).create(made)

    async def _op_createPods(  # noqa: N802
        self,
        *,
        count: int,
        template: str,
        namespace: str = "",
        collectMetrics: bool = False,  # noqa: N803
        skipWaitToCompletion: bool = False,  # noqa: N803
    ) -> None:
        if not count:
            return
        if collectMetrics:
            for position, mode in enumerate(self._modes):
                pods = list(self._make(template, count, namespace))
                await self._measure(mode, pods)
                if position + 1 < len(self._modes):
                    await self._delete(pods)
            return
        pods = list(self._make(template, count, namespace))
        if skipWaitToCompletion:
            self._tracker.expect_attempt(_keys(pods))
            await self._create(pods)
        else:
            self._tracker.expect(_keys(pods))
            await self._create(pods)
            await self._tracker.bound()

    async def _op_barrier(self, *, stageRequirement: str) -> None:  # noqa: N803
        if stageRequirement != "Attempted":
            raise ValueError(f"barrier: stageRequirement {stageRequirement!r} is not known, only Attempted")
        await self._tracker.attempted()

    async def _op_churn(
        self, *, mode: str, number: int, intervalMilliseconds: int, templates: list[str]  # noqa: N803
    ) -> None:  # fmt: skip
        if mode != "recreate":
            raise ValueError(f"churn: mode {mode!r} is not known, only recreate")
        task = daemon.spawn(self._churn(number, intervalMilliseconds / 1000, templates), name="churn")
        self._churns.append(task)

    async def _churn(self, number: int, interval: float, templates: list[str]) -> None:
        """Create objects one by one, then delete them, and so on."""
        while True:
            for template in templates:
                made = list(self._make(template, number))
                resource = self._client.resource(type(made[0]))
                for obj in made:
                    await resource.create(obj)
                    await asyncio.sleep(interval)
                for obj in made:
                    metadata = obj.metadata  # type: ignore[attr-defined]
                    try:
                        await resource.delete(metadata.name, namespace=metadata.namespace, grace_period_seconds=0)
                    except errors.NotFoundError:
                        continue
                    await asyncio.sleep(interval)

    # -- measuring

    def _cpu(self) -> dict[str, float]:
        pids = {name: self._cluster.pid(name) for name in (SCHEDULER, APISERVER, ETCD)}
        return {name: cpu_seconds(pid) for name, pid in (pids | {"load": os.getpid()}).items() if pid is not None}

    def _note_first(self) -> None:
        self._cpu_first = self._cpu()

    async def _measure(self, mode: Mode, pods: list[Any]) -> None:
        tracker = self._tracker
        tracker.expect(_keys(pods))
        if mode == "standing":
            await asyncio.to_thread(self._cluster.stop, SCHEDULER)
            await self._create(pods)
            tracker.on_first = self._note_first
            await asyncio.to_thread(self._cluster.start, SCHEDULER)
            await tracker.bound()
            tracker.on_first = None
            started = tracker.first
        else:
            self._note_first()
            started = time.perf_counter()
            await self._create(pods)
            await tracker.bound()
        used = {name: seconds - self._cpu_first.get(name, 0.0) for name, seconds in self._cpu().items()}
        self._figures[mode] = Figures(len(pods), tracker.last - started, used, len(pods))

    async def _create(self, pods: list[Any]) -> None:
        async with self._client.writer() as writer:
            await gather_limited((writer.create(pod, brief=True) for pod in pods), OUTSTANDING)

    async def _delete(self, pods: list[Any]) -> None:
        async with self._client.writer() as writer:
            await gather_limited(
                (
                    writer.delete(
                        core.Pod,
                        pod.metadata.name,
                        namespace=pod.metadata.namespace,
                        grace_period_seconds=0,
                        brief=True,
                    )
                    for pod in pods
                ),
                OUTSTANDING,
            )


def _keys(pods: list[Any]) -> set[str]:
    return {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods}
