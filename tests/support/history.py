"""What a client saw, kept outside the processes that are killed: acknowledged writes and watch histories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig

Change = tuple[str, int]
"""Name of the object, and the revision of the change."""


@dataclass
class PodHistory:
    """One watcher of all pods of a namespace, which resumes where it was cut, on the next apiserver."""

    config: ClientConfig
    namespace: str
    name: str
    seen: dict[Change, str] = field(default_factory=dict)
    """Every change with its type."""
    resumes: int = 0
    troubles: list[str] = field(default_factory=list)
    revision: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    """Where each pod was bound, by uid."""

    async def follow(self, since: str) -> None:
        """Watch from a resourceVersion until cancelled."""
        self.revision = int(since)
        endpoints = list(self.config.endpoints)
        while True:
            async with Client(replace(self.config, endpoints=endpoints)) as client:
                try:
                    await self._follow(client)
                except errors.GoneError as error:
                    # Nothing here is old enough to be forgotten: a 410 would be a lost history.
                    self.troubles.append(f"{self.name} at {self.revision}: {error}")
                    return
                except errors.StatusError:
                    pass  # killed under us; go on with the next
            self.resumes += 1
            endpoints = endpoints[1:] + endpoints[:1]
            await asyncio.sleep(0.1)

    async def _follow(self, client: Client) -> None:
        stream = client.resource(core.Pod).watch(namespace=self.namespace, resource_version=str(self.revision))
        async for events in stream:
            for event in events:
                if event.type == "BOOKMARK":
                    self.revision = max(self.revision, int(event.resource_version))
                    continue
                change = (event.object.metadata.name, int(event.resource_version))
                before = self.seen.setdefault(change, event.type)
                if before != event.type:
                    self.troubles.append(f"{self.name}: {change} was {before}, then {event.type}")
                self.revision = int(event.resource_version)
                node, uid = event.object.spec.nodeName, event.object.metadata.uid
                if node and self.nodes.setdefault(uid, node) != node:
                    self.troubles.append(f"{self.name}: {change} was bound to {self.nodes[uid]} and then to {node}")


@dataclass
class Counters:
    """ConfigMaps that one writer counts up; what was acknowledged must still be there at the end."""

    client: Client
    namespace: str
    names: Sequence[str]
    acknowledged: dict[str, int] = field(default_factory=dict)
    attempted: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    """Writes whose outcome the client was not told."""

    async def count(self, name: str) -> None:
        """Count one ConfigMap up until cancelled, reading back after every failure."""
        maps = self.client.resource(core.ConfigMap)
        current: core.ConfigMap | None = None
        while True:
            try:
                if current is None:
                    current = await self._read_or_create(name)
                value = int(current.data["n"]) + 1
                change = core.ConfigMap()
                change.CopyFrom(current)
                change.data["n"] = str(value)
                self.attempted[name] = max(value, self.attempted.get(name, 0))
                current = await maps.update(change)
                self.acknowledged[name] = int(current.data["n"])
                await asyncio.sleep(0.005)
            except errors.StatusError:
                self.unknown += 1
                current = None
                await asyncio.sleep(0.1)

    async def _read_or_create(self, name: str) -> core.ConfigMap:
        maps = self.client.resource(core.ConfigMap)
        try:
            return await maps.get(name, namespace=self.namespace)
        except errors.NotFoundError:
            fresh = core.ConfigMap()
            fresh.metadata.name, fresh.metadata.namespace = name, self.namespace
            fresh.data["n"] = "0"
            self.attempted.setdefault(name, 0)
            return await maps.create(fresh)

    async def lost(self) -> list[str]:
        """Return every acknowledged count that the store no longer shows."""
        found = []
        for name, value in self.acknowledged.items():
            stored = int((await self.client.resource(core.ConfigMap).get(name, namespace=self.namespace)).data["n"])
            if not value <= stored <= self.attempted[name]:
                found.append(f"{name}: acknowledged {value}, attempted {self.attempted[name]}, stored {stored}")
        return found


@dataclass
class Deletions:
    """ConfigMaps that are made and deleted; what was acknowledged as deleted must stay away."""

    client: Client
    namespace: str
    acknowledged: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Make and delete until cancelled; a delete whose answer was lost counts as nothing."""
        maps = self.client.resource(core.ConfigMap)
        number = 0
        while True:
            number += 1
            gone = core.ConfigMap()
            gone.metadata.name, gone.metadata.namespace = f"gone-{number}", self.namespace
            try:
                await maps.create(gone)
                await maps.delete(gone.metadata.name, namespace=self.namespace)
                self.acknowledged.add(gone.metadata.name)
                await asyncio.sleep(0.02)
            except errors.StatusError:
                await asyncio.sleep(0.1)

    async def back(self) -> set[str]:
        """Return what was deleted and is there all the same."""
        listed = await self.client.resource(core.ConfigMap).list(namespace=self.namespace)
        return self.acknowledged & {found.metadata.name for found in listed.items}
