"""Registers the node and keeps its status: looked at every ten seconds, written on a change and every five minutes.

The first write comes with the runtime's first answer; when containerd goes away, or comes back, the write follows
within seconds. A node that exists already keeps what others wrote to it (cordons, taints, labels); only the agent's
own labels and status are brought up to date.

What the API has is read again at every look, because others write the status too: a node that was silent for long is
marked Unknown, and must say that it is back. Hollow nodes look once a minute, for thousands of them share an apiserver.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent.context import Recorder
from nodeagent.machine import Machine, Usage, read_usage
from nodeagent.node import NodeSettings, differs, fill_status, new_node, own_labels
from nodeagent.runtime import ImageRecord, Runtime, RuntimeFailure, RuntimeStatus, RuntimeVersion
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.client.verbs import Writer

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
FULL_SECONDS = 300.0
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_EVENTS = {
    ("Ready", "True"): ("Normal", "NodeReady"),
    ("Ready", "False"): ("Normal", "NodeNotReady"),
    ("MemoryPressure", "True"): ("Normal", "NodeHasInsufficientMemory"),
    ("MemoryPressure", "False"): ("Normal", "NodeHasSufficientMemory"),
    ("DiskPressure", "True"): ("Normal", "NodeHasDiskPressure"),
    ("DiskPressure", "False"): ("Normal", "NodeHasNoDiskPressure"),
    ("PIDPressure", "True"): ("Normal", "NodeHasInsufficientPID"),
    ("PIDPressure", "False"): ("Normal", "NodeHasSufficientPID"),
}


class Registrar:
    """See the module."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        runtime: Runtime,
        *,
        settings: NodeSettings,
        machine: Machine,
        events: Recorder,
        root_dir: Path,
        look_seconds: float = LOOK_SECONDS,
        full_seconds: float = FULL_SECONDS,
        clock: Callable[[], float] = time.time,
        hollow: bool = False,
        registered: Callable[[core.Node], None] = lambda node: None,
    ) -> None:
        """`registered` is told of the Node whenever it has been made or found."""
        self._nodes = client.resource(core.Node)
        self._writer = writer
        self._runtime = runtime
        self._settings = settings
        self._machine = machine
        self._events = events
        self._root_dir = root_dir
        self._look_seconds = look_seconds
        self._full_seconds = full_seconds
        self._clock = clock
        self._hollow = hollow
        self._tell = registered
        self._version = RuntimeVersion("containerd", "unknown")
        self._images: Sequence[ImageRecord] = ()
        self._written_at = 0.0
        """Monotonic seconds of the last write; 0: none yet."""
        self._looked_at = time.monotonic()
        self._look = asyncio.Event()
        self.node = new_node(settings, machine)
        """As the API has it, or will have it."""
        self._refresh_status(self.node, RuntimeStatus(False, False, "Starting", "not asked yet"), None)

    async def register(self) -> None:
        """Make the node be there, however long the API is away."""
        failures = 0
        while True:
            try:
                self.node = await self._registered()
                self._events.event(self.node, "Normal", "Starting", "Starting the node agent")
                return
            except errors.StatusError as error:
                level = logging.WARNING if failures == 0 else logging.DEBUG
                log.log(level, "node not registered yet", extra={"node": self._settings.name, "error": str(error)})
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1

    async def _registered(self) -> core.Node:
        wanted = new_node(self._settings, self._machine)
        runtime = await self._ask()
        self._refresh_status(wanted, runtime, await self._usage())
        try:
            created = await self._writer.create(wanted)
            log.info("node registered", extra={"node": created.metadata.name})
        except errors.AlreadyExistsError:
            created = await self._nodes.get(self._settings.name)
            changed = False
            for name, value in own_labels(self._settings, self._machine).items():
                if created.metadata.labels.get(name) != value:
                    created.metadata.labels[name] = value
                    changed = True
            if changed:
                created = await self._writer.update(created)
            log.info("node is known already", extra={"node": created.metadata.name})
        self._tell(created)
        return created

    def look(self) -> None:
        """Look now: something about the runtime has changed."""
        self._look.set()

    async def run(self) -> None:
        """Report until cancelled."""
        failures = 0
        while True:
            try:
                await self._report()
                failures = 0
                delay = self._look_seconds
            except errors.StatusError as error:
                level = logging.WARNING if failures == 0 else logging.DEBUG
                log.log(level, "node status not written", extra={"node": self._settings.name, "error": str(error)})
                delay = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
            except Exception:  # a node whose heart beats must not fall silent about its state
                log.exception("node status not made", extra={"node": self._settings.name})
                delay = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
            try:
                async with asyncio.timeout(delay * (0.95 + random.random() / 10)):
                    await self._look.wait()
            except TimeoutError:
                pass  # the usual pace
            self._look.clear()

    async def _read_back(self) -> None:
        """Learn what others wrote to the node's status meanwhile."""
        now = time.monotonic()
        paused = now - self._looked_at > 2 * self._look_seconds
        self._looked_at = now
        if not self._written_at:
            return
        try:
            read = await self._nodes.get(self._settings.name, resource_version="" if paused else "0")
        except errors.NotFoundError:
            # Perhaps only the cache that answered does not know it yet.
            read = await self._nodes.get(self._settings.name)
        self._take(read)

    def _take(self, read: core.Node) -> None:
        """Go on with what was read, unless it is older than what is known; before the registration nothing is."""
        if int(read.metadata.resourceVersion) > int(self.node.metadata.resourceVersion or 0):
            self.node = read

    async def fresh(self) -> core.Node:
        """Return the node as the API has it now. Raises StatusError when that cannot be told."""
        self._take(await self._nodes.get(self._settings.name))
        return self.node

    async def _register_anew(self) -> None:
        log.warning("the node is gone from the API, registering anew", extra={"node": self._settings.name})
        self.node = await self._registered()
        self._look.set()

    async def _report(self) -> None:
        try:
            await self._read_back()
        except errors.NotFoundError:
            await self._register_anew()
            return
        runtime = await self._ask()
        wanted = core.Node()
        wanted.CopyFrom(self.node)
        self._refresh_status(wanted, runtime, await self._usage())
        now = time.monotonic()
        recent = self._written_at and now - self._written_at < self._full_seconds
        if recent and not differs(wanted.status, self.node.status):
            return
        before = {condition.type: condition.status for condition in self.node.status.conditions}
        try:
            stored = await self._writer.update(wanted, subresource="status")
        except errors.ConflictError:
            self.node = await self._nodes.get(self._settings.name)
            self._look.set()
            return
        except errors.NotFoundError:
            await self._register_anew()
            return
        first = not self._written_at
        self.node, self._written_at = stored, now
        for condition in stored.status.conditions:
            if first or before.get(condition.type) != condition.status:
                event = _EVENTS.get((condition.type, condition.status))
                if event is not None:
                    text = f"Node {stored.metadata.name} status is now: {event[1]}"
                    self._events.event(stored, event[0], event[1], text)

    async def _ask(self) -> RuntimeStatus:
        status = await self._runtime.status()
        if status.ready:
            try:
                self._version = await self._runtime.version()
                self._images = await self._runtime.list_images()
            except RuntimeFailure as error:
                return RuntimeStatus(False, False, "ContainerRuntimeUnreachable", str(error))
        return status

    async def _usage(self) -> Usage | None:
        return None if self._hollow else await asyncio.to_thread(read_usage, self._root_dir)

    def _refresh_status(self, node: core.Node, runtime: RuntimeStatus, usage: Usage | None) -> None:
        fill_status(
            node,
            self._settings,
            self._machine,
            usage=usage,
            version=self._version,
            runtime=runtime,
            images=self._images,
            now=self._clock(),
        )
