"""One node's agent: its parts put together, in the order in which they come up.

Register the node, beat, take the pods over, report. Whatever is away (API, runtime) is waited for; nothing here ends
the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeagent.configsource import ApiConfigSource
from nodeagent.context import NodeContext, Recorder
from nodeagent.fencing import Fence, Fencer, Renewals
from nodeagent.heartbeat import Heartbeats
from nodeagent.images import Images
from nodeagent.machine import Machine
from nodeagent.node import NodeSettings, allocatable, capacity
from nodeagent.podfeed import PodFeed
from nodeagent.podmanager import PodManager
from nodeagent.podstatus import NodeView
from nodeagent.registrar import Registrar
from nodeagent.runtime import Runtime
from nodeagent.sandboxes import SandboxSettings
from nodeagent.statuswriter import StatusWriter
from nodeagent.usage import UsageMeter
from wharfinger.client import Client
from wharfinger.client.verbs import Writer
from wharfinger.daemon import spawn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all agents of a process share."""

    client: Client
    writer: Writer
    statuses: StatusWriter
    events: Recorder
    heartbeats: Heartbeats
    feed: PodFeed
    source: ApiConfigSource
    renewals: Renewals | None = None
    """None: hollow nodes, which fence nothing."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What makes one agent."""

    node: NodeSettings
    sandboxes: SandboxSettings
    root_dir: Path
    services: Mapping[str, str]
    pod_pids_limit: int = 0
    allowed_sysctls: Sequence[str] = ()
    hollow: bool = False
    relist_seconds: float = 5.0
    look_seconds: float = 10.0
    full_seconds: float = 300.0
    quiet_seconds: float = 10.0
    """A silence of the heartbeat that is nothing to look into."""
    monitor_grace_period: float = 0.0
    """After which the control plane calls a silent node unreachable; 0: nothing is fenced."""


class NodeAgent:
    """See the module."""

    def __init__(self, shared: Shared, settings: AgentSettings, runtime: Runtime, machine: Machine) -> None:
        self._shared = shared
        self._settings = settings
        self.runtime = runtime
        node = settings.node
        self.registrar = Registrar(
            shared.client,
            shared.writer,
            runtime,
            settings=node,
            machine=machine,
            events=shared.events,
            root_dir=settings.root_dir,
            look_seconds=settings.look_seconds,
            full_seconds=settings.full_seconds,
            hollow=settings.hollow,
            registered=lambda node: shared.heartbeats.owned_by(node.metadata.name, node.metadata.uid),
        )
        self.context = NodeContext(
            node_name=node.name,
            runtime=runtime,
            images=Images(runtime),
            statuses=shared.statuses,
            events=shared.events,
            sandboxes=settings.sandboxes,
            root_dir=settings.root_dir,
            view=NodeView(tuple(node.addresses), "hollow" if settings.hollow else "containerd"),
            source=shared.source,
            memory_capacity=capacity(node, machine)["memory"].value(),
            allocatable=allocatable(node, machine),
            services=settings.services,
            pod_pids_limit=settings.pod_pids_limit,
            allowed_sysctls=settings.allowed_sysctls,
            files=not settings.hollow,
        )
        self.pods = PodManager(
            self.context,
            lambda: self.registrar.node,
            fresh_node=self.registrar.fresh,
            relist_seconds=settings.relist_seconds,
            runtime_changed=self.registrar.look,
        )
        self._fencer: Fencer | None = None
        if shared.renewals is not None and settings.monitor_grace_period:
            self._fencer = self._make_fencer(shared.renewals)
        self.usage = UsageMeter(runtime)
        """Empty for ever on a hollow node, which uses nothing of its own."""
        self._background: list[asyncio.Task[None]] = []

    def _make_fencer(self, renewals: Renewals) -> Fencer:
        fence = Fence(self._settings.monitor_grace_period, lambda: renewals.silence)
        self.context.fenced = fence.holds
        events = self._shared.events
        return Fencer(
            fence,
            self.runtime,
            self.pods,
            fresh_node=self.registrar.fresh,
            pods_idle=lambda: self._shared.feed.informer.idle_seconds,
            quiet_seconds=self._settings.quiet_seconds,
            released=lambda pod: events.event(
                pod, "Warning", "Fenced", "The node was cut off, and the pod not left running: it may not run twice"
            ),
        )

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses that the node reports."""
        return self._settings.node.addresses

    @property
    def name(self) -> str:
        """The node's name."""
        return self._settings.node.name

    async def start(self) -> None:
        """Bring the node up; returns when its pods are taken over. Waits for API and runtime as long as it takes."""
        shared = self._shared
        if self._fencer is not None:  # first: it must do its work without an API, too
            self._background.append(spawn(self._fencer.run(), name=f"fence {self.name}"))
        await self.registrar.register()
        shared.heartbeats.add(self.name, self.registrar.node.metadata.uid)
        self._background.append(spawn(self.registrar.run(), name=f"node status {self.name}"))
        if not self._settings.hollow:
            self._background.append(spawn(self.usage.run(), name=f"usage of {self.name}"))
        await shared.feed.informer.wait_synced()
        shared.feed.attach(self.name, self.pods)
        await self.pods.start(lambda: shared.feed.pods_of(self.name))

    async def close(self) -> None:
        """Let go of everything; pods go on running."""
        self._shared.feed.detach(self.name)
        self._shared.heartbeats.remove(self.name)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.pods.close()
        await self.runtime.close()
