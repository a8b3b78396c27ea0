"""Pods and records for the agent's unit tests, and a table-top node: real workers over the in-memory runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from nodeagent.context import NodeContext
from nodeagent.hollow import HollowRuntime
from nodeagent.images import Images
from nodeagent.memory import PodMemory
from nodeagent.podspec import container_hash
from nodeagent.podstatus import NodeView
from nodeagent.runtime import (
    HASH_ANNOTATION,
    RESTART_COUNT_ANNOTATION,
    ContainerRecord,
    ContainerState,
    PodRecord,
    SandboxRecord,
)
from nodeagent.sandboxes import SandboxSettings
from wharfinger.api.types import core

NOW = 1_800_000_000.0


def make_pod(
    *names: str,
    init: tuple[str, ...] = (),
    sidecars: tuple[str, ...] = (),
    restart_policy: str = "Always",
    uid: str = "u1",
    name: str = "p",
) -> core.Pod:
    """A pod with these containers; sidecars come after ordinary init containers."""
    pod = core.Pod()
    pod.metadata.name, pod.metadata.namespace, pod.metadata.uid, pod.metadata.generation = name, "default", uid, 1
    pod.metadata.resourceVersion = "1"
    pod.spec.nodeName, pod.spec.restartPolicy = "n1", restart_policy
    pod.spec.terminationGracePeriodSeconds = 30
    for one in init:
        pod.spec.initContainers.add(name=one, image="x/y:1")
    for one in sidecars:
        pod.spec.initContainers.add(name=one, image="x/y:1", restartPolicy="Always")
    for one in names or ("c",):
        pod.spec.containers.add(name=one, image="x/y:1")
    pod.status.phase = "Pending"
    return pod


def sandbox(attempt: int = 0, *, ready: bool = True) -> SandboxRecord:
    return SandboxRecord(
        id=f"s{attempt}", pod_uid="u1", pod_name="p", pod_namespace="default", attempt=attempt, ready=ready,
        created_at=attempt, ips=("10.0.0.1",),
    )  # fmt: skip


def container(
    name: str,
    state: ContainerState = ContainerState.RUNNING,
    *,
    restarts: int = 0,
    exit_code: int = 0,
    finished: float = NOW,
    sandbox_id: str = "s0",
    image: str = "x/y:1",
) -> ContainerRecord:
    ended = state is ContainerState.EXITED
    return ContainerRecord(
        id=f"{name}{restarts}", sandbox_id=sandbox_id, pod_uid="u1", name=name, attempt=restarts, state=state,
        created_at=restarts, started_at=int((finished - 5) * 1e9), finished_at=int(finished * 1e9) if ended else 0,
        exit_code=exit_code, reason=("Completed" if exit_code == 0 else "Error") if ended else "", image=image,
        image_id="sha256:1",
        annotations={
            HASH_ANNOTATION: container_hash(core.Container(name=name, image=image)),
            RESTART_COUNT_ANNOTATION: str(restarts),
        },
    )  # fmt: skip


def record(*containers: ContainerRecord, sandboxes: tuple[SandboxRecord, ...] | None = None) -> PodRecord:
    """Newest first, as the runtime gives them."""
    return PodRecord("u1", "p", "default", (sandbox(),) if sandboxes is None else sandboxes, containers)


def memory(pod: core.Pod) -> PodMemory:
    return PodMemory(status=pod.status)


class Events:
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def event(self, obj: Message, type_: str, reason: str, message: str, *, field_path: str = "") -> None:
        self.said.append((type_, reason, field_path))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.said]


@dataclass
class Statuses:
    """Takes statuses as the API would."""

    written: list[core.PodStatus] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def observe(self, pod: core.Pod) -> None:
        pass

    def write(self, pod: core.Pod, status: core.PodStatus, *, finish: bool = False) -> None:
        if not self.written or self.written[-1] != status:
            copy = core.PodStatus()
            copy.CopyFrom(status)
            self.written.append(copy)
        if finish:
            self.finished.append(pod.metadata.uid)
        self.changed.set()

    def forget(self, uid: str) -> None:
        pass


class NoConfig:
    async def token(self, pod: core.Pod, audience: str, seconds: int) -> str:
        return "token"

    async def config_map(self, namespace: str, name: str) -> core.ConfigMap | None:
        return None

    async def secret(self, namespace: str, name: str) -> core.Secret | None:
        return None


@dataclass
class Table:
    """A node on a table: everything a worker needs, without files, network or API."""

    runtime: HollowRuntime
    context: NodeContext
    events: Events
    statuses: Statuses

    @classmethod
    def make(cls, **runtime: Any) -> Table:
        hollow = HollowRuntime(**runtime)
        hollow.record_calls = True
        events, statuses = Events(), Statuses()
        context = NodeContext(
            node_name="n1",
            runtime=hollow,
            images=Images(hollow),
            statuses=statuses,  # type: ignore[arg-type]
            events=events,
            sandboxes=SandboxSettings(pod_logs_dir=Path("/nonexistent"), cgroup_parent=""),
            root_dir=Path("/nonexistent"),
            view=NodeView(("192.0.2.1",), "hollow"),
            source=NoConfig(),
            memory_capacity=1 << 30,
            files=False,
        )
        return cls(hollow, context, events, statuses)

    async def until(self, what: Callable[[], bool], seconds: float = 5) -> None:
        """Wait for a condition that a status or event brings about."""
        async with asyncio.timeout(seconds):
            while not what():
                self.statuses.changed.clear()
                try:
                    async with asyncio.timeout(0.01):
                        await self.statuses.changed.wait()
                except TimeoutError:
                    continue

    @property
    def status(self) -> core.PodStatus:
        return self.statuses.written[-1]
