"""What all pods of a node share."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from google.protobuf.message import Message

from nodeagent.env import ConfigSource
from nodeagent.images import Images
from nodeagent.podstatus import NodeView
from nodeagent.runtime import Runtime
from nodeagent.sandboxes import SandboxSettings
from nodeagent.statuswriter import StatusWriter
from wharfinger.api.quantity import Quantity
from wharfinger.api.types import core

STARTS_PER_CPU = 4


class Recorder(Protocol):
    """Records events; never blocks, never fails."""

    def event(self, obj: Message, type_: str, reason: str, message: str, *, field_path: str = "") -> None:
        """Record that something happened to an object."""


@dataclass(slots=True)
class NodeContext:
    """See the module. One per agent; workers only read it."""

    node_name: str
    runtime: Runtime
    images: Images
    statuses: StatusWriter
    events: Recorder
    sandboxes: SandboxSettings
    root_dir: Path
    view: NodeView
    source: ConfigSource
    memory_capacity: int
    """Bytes."""
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    """Variables that every container gets."""
    allowed_sysctls: Sequence[str] = ()
    """Beyond the safe ones."""
    pod_pids_limit: int = 0
    """Processes and threads that a pod may have; 0: no limit of its own."""
    files: bool = True
    """Whether pods have files on the node (not with the in-memory runtime)."""
    fenced: Callable[[core.Pod], bool] = lambda pod: False
    """Whether nothing of a pod may be started now, because it may run elsewhere."""
    clock: Callable[[], float] = time.time
    starts: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTS_PER_CPU * (os.cpu_count() or 1)))
    """How many sandboxes and containers are being started at a time.

    Starting costs CPU: a hundred at once are no sooner up than a few after another, the first come late, and whatever
    dies meanwhile (containerd, the agent) takes all that are under way with it.
    """
