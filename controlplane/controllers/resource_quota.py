"""Counts what quotas are about, and writes it into their status together with the bounds.

The apiserver charges each new object itself, before it is stored; here is what it cannot do: put a new quota's bounds
into force, give back what deleted objects used, and mend counts that went wrong. Of each kind that some quota counts,
an informer keeps what each object uses and nothing else; kinds that no quota counts are not watched.

A count that is lower than the status says may only mean that an object was charged for and is not seen yet. So usage is
lowered only once the quota has not been written for a moment.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from controlplane.controllers.context import Context, work
from controlplane.controllers.served_kinds import ServedKinds
from wharfinger.api import errors, quantity, quota
from wharfinger.api.types import core, meta
from wharfinger.client import Informer

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.api.quota import Usage

WORKERS = 2
RESYNC_SECONDS = 300.0
QUIET_SECONDS = 1.0
"""How long a quota must have been left alone before its usage is lowered."""
_SYNC_SECONDS = 30.0
_GATHER_SECONDS = 0.1
"""Changes of many objects lead to one count."""
_SIZED = frozenset({"pods", "services", "persistentvolumeclaims"})
_NAMESPACE = "namespace"


@dataclass(slots=True)
class Counted:
    """What is kept of an object."""

    metadata: meta.ObjectMeta
    usage: Usage
    scoped: core.Pod | None = field(default=None, repr=False)
    """Of a pod: what scopes ask about."""


def counted(group_resource: str, obj: Any) -> Counted:
    """Return what is to be kept of an object."""
    metadata = meta.ObjectMeta(
        name=obj.metadata.name,
        namespace=obj.metadata.namespace,
        uid=obj.metadata.uid,
        resourceVersion=obj.metadata.resourceVersion,
    )
    scoped = None
    if group_resource == "pods":
        scoped = core.Pod()
        scoped.spec.CopyFrom(obj.spec)
        scoped.status.qosClass = obj.status.qosClass
        for heavy in ("volumes", "tolerations", "topologySpreadConstraints"):
            scoped.spec.ClearField(heavy)
    return Counted(metadata, quota.usage(group_resource, obj), scoped)


class ResourceQuotaController:
    """See the module."""

    name = "resourcequota-controller"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._quotas = context.informers.of(core.ResourceQuota)
        self._client = context.client.resource(core.ResourceQuota)
        self._queue = context.queue(self.name)
        self._served = ServedKinds(context)
        self._informers: dict[str, tuple[str, Informer[Any]]] = {}
        """By group resource: the version that is watched, and who watches."""
        self._written: dict[str, tuple[str, float]] = {}
        """By quota: the version last seen, and the monotonic time when it was seen first."""

    async def run(self) -> None:
        """Watch and sync."""
        self._quotas.add_handler(
            on_add=self._changed, on_update=lambda _, item: self._changed(item), on_delete=self._gone
        )
        try:
            await self._served.load()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._served.follow(self._kinds_changed), name=f"{self.name}: kinds")
                group.create_task(self._resync(), name=f"{self.name}: resync")
                group.create_task(work(self._queue, self._sync, workers=WORKERS, name=self.name))
        finally:
            await asyncio.gather(*(informer.stop() for _, informer in self._informers.values()))

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self._all()

    async def _kinds_changed(self, served: list[Kind]) -> None:
        """Watch no longer what is not served any more, or only in another version, and count everything again."""
        versions = {(kind.group_resource, kind.api_version) for kind in served}
        for resource, (version, informer) in list(self._informers.items()):
            if (resource, version) not in versions:
                del self._informers[resource]
                await informer.stop()
        self._all()

    def _all(self) -> None:
        for item in self._quotas.items():
            self._queue.add(f"{item.metadata.namespace}/{item.metadata.name}")

    def _changed(self, item: core.ResourceQuota) -> None:
        key = f"{item.metadata.namespace}/{item.metadata.name}"
        self._written[key] = (item.metadata.resourceVersion, time.monotonic())
        self._queue.add(key)

    def _gone(self, item: core.ResourceQuota) -> None:
        self._written.pop(f"{item.metadata.namespace}/{item.metadata.name}", None)

    def _count_again(self, namespace: str) -> None:
        for item in self._quotas.items():
            if item.metadata.namespace == namespace:
                self._queue.add_after(f"{namespace}/{item.metadata.name}", _GATHER_SECONDS)

    async def _sync(self, key: str) -> None:
        item = self._quotas.get(key)
        if item is None:
            return
        hard = quota.read(item.spec.hard)
        before = quota.read(item.status.used)
        used = await self._count(item, hard)
        if quota.read(item.status.hard) == hard and before == used:
            return
        lowered = any(size < before.get(name, size) for name, size in used.items())
        version, since = self._written.get(key, ("", 0.0))
        quiet = time.monotonic() - since
        if lowered and version == item.metadata.resourceVersion and quiet < QUIET_SECONDS:
            self._queue.add_after(key, QUIET_SECONDS - quiet + _GATHER_SECONDS)
            return
        new = core.ResourceQuota()
        new.CopyFrom(item)
        quota.write(new.status.hard, hard)
        quota.write(new.status.used, used)
        try:
            await self._client.update_status(new)
        except errors.ConflictError:
            self._queue.add_after(key, _GATHER_SECONDS)  # somebody was charged meanwhile
        except errors.NotFoundError:
            return

    async def _count(self, item: core.ResourceQuota, hard: Usage) -> Usage:
        """Return what is used of everything that the quota bounds and that can be counted."""
        used: Usage = {}
        for name in hard:
            about = quota.counted_kind(name)
            kind = self._kind(*about) if about is not None else None
            if kind is None:
                continue  # nobody knows how much there is: the apiserver says so when something is created
            informer = await self._informer(kind)
            total = quantity.parse("0")
            for one in informer.by_index(_NAMESPACE, item.metadata.namespace):
                size = one.usage.get(name)
                if size is not None and quota.in_scope(item, kind.group_resource, one.scoped):
                    total = total + size
            used[name] = total
        return used

    def _kind(self, group: str, resource: str) -> Kind | None:
        found = (kind for kind in self._served.kinds if (kind.group, kind.resource) == (group, resource))
        return next((kind for kind in found if kind.namespaced and "watch" in kind.verbs), None)

    async def _informer(self, kind: Kind) -> Informer[Any]:
        """Return the informer of a kind, synced; made when the first quota counts the kind.

        Raises ServiceUnavailableError when it does not become so: the kind may be gone again.
        """
        resource = kind.group_resource
        _, informer = self._informers.get(resource, ("", None))
        if informer is None:
            message: Any = kind.message if resource in _SIZED else kind.partial
            source: Any = self._context.client.resource_of(kind, message)
            transform: Any = partial(counted, resource)
            informer = Informer(source, transform=transform)
            informer.add_index(_NAMESPACE, lambda one: [one.metadata.namespace])
            informer.add_handler(
                on_add=lambda one: self._count_again(one.metadata.namespace),
                on_update=self._maybe_count_again,
                on_delete=lambda one: self._count_again(one.metadata.namespace),
            )
            self._informers[resource] = (kind.api_version, informer)
            await informer.start()
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await informer.wait_synced()
        except TimeoutError as error:
            raise errors.ServiceUnavailableError(
                f"{resource} could not be listed within {_SYNC_SECONDS:g} s, so they are not counted yet"
            ) from error
        return informer

    def _maybe_count_again(self, old: Counted, new: Counted) -> None:
        if old.usage != new.usage:
            self._count_again(new.metadata.namespace)
