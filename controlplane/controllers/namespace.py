"""Empties namespaces that are being deleted, says what is left, and lets them go when nothing is.

Pods go first and everything else after them, so that a running pod does not lose the secrets, roles and policies it
lives by while it shuts down. Each pass deletes every collection of the namespace and looks what remains; the rest
(status, finalizers) is decided in :mod:`~controlplane.controllers.namespace_plan`. Source: "Namespaces" in
Kubernetes' documentation.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from controlplane.controllers.context import Context, for_each, work
from controlplane.controllers.namespace_plan import FINALIZER, Leftover, Leftovers, plan_conditions
from controlplane.controllers.objects import deleting
from controlplane.controllers.served_kinds import ServedKinds
from wharfinger.api import errors
from wharfinger.api.kinds import Kind
from wharfinger.api.types import core

log = logging.getLogger(__name__)

COLLECTIONS = 8
"""Collections of one namespace emptied at once."""
LISTED = 500
"""Objects of a collection that are looked at, at most, to tell what is left."""


class NamespaceController:
    """See the module."""

    name = "namespace"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._namespaces = context.informers.of(core.Namespace)
        self._pods = context.informers.of(core.Pod)
        self._client = context.client.resource(core.Namespace)
        self._queue = context.queue(self.name, base=0.2, maximum=30.0)
        self._served = ServedKinds(context)
        self._kinds: list[Kind] = []

    async def run(self) -> None:
        """Watch and sync."""
        await self._deletable(await self._served.load())
        self._namespaces.add_handler(on_add=self._changed, on_update=lambda _, new: self._changed(new))
        self._pods.add_handler(on_delete=self._pod_gone)
        workers = self._context.options.concurrent_namespace_syncs
        async with asyncio.TaskGroup() as group:
            group.create_task(self._served.follow(self._deletable), name=f"{self.name}: kinds")
            group.create_task(work(self._queue, self._sync, workers=workers, name=self.name))

    async def _deletable(self, served: list[Kind]) -> None:
        """Take note of what has to be deleted with a namespace; one version of each resource."""
        found: dict[str, Kind] = {}
        for kind in served:
            if not kind.namespaced or "delete" not in kind.verbs or "list" not in kind.verbs:
                continue
            if not (kind.group == "events.k8s.io" and kind.resource == "events"):  # the same objects as v1 events
                found.setdefault(kind.group_resource, kind)
        self._kinds = list(found.values())

    def _changed(self, namespace: core.Namespace) -> None:
        if deleting(namespace):
            self._queue.add(namespace.metadata.name)

    def _pod_gone(self, pod: core.Pod) -> None:
        namespace = self._namespaces.get(pod.metadata.namespace)
        if namespace is not None and deleting(namespace):
            self._queue.add_after(namespace.metadata.name, 0.05)

    async def _sync(self, name: str) -> None:
        if (cached := self._namespaces.get(name)) is None or not deleting(cached):
            return
        try:
            namespace = await self._client.get(name)
        except errors.NotFoundError:
            return
        if not deleting(namespace) or namespace.metadata.uid != cached.metadata.uid:
            return
        if namespace.status.phase != "Terminating":
            namespace.status.phase = "Terminating"
            namespace = await self._client.update_status(namespace)
        if FINALIZER not in namespace.spec.finalizers:
            return
        await self._deletable(await self._served.load())  # a kind that nobody has told of yet must not be left behind
        left = await self._empty(name)
        namespace = await self._write_status(namespace, left)
        if not left.done:
            log.info(
                "namespace is not empty yet",
                extra={"namespace": name, "left": ",".join(sorted({*left.objects, *left.failures})) or "(waiting)"},
            )
            self._queue.add_after(name, left.next_look())
            return
        await self._finalize(namespace)

    async def _empty(self, namespace: str) -> Leftovers:
        left = Leftovers()
        pods = [kind for kind in self._kinds if kind.message is core.Pod]
        others = [kind for kind in self._kinds if kind.message is not core.Pod]
        for kind in pods:
            await self._empty_one(kind, namespace, left)
        if left.objects or left.failures:
            left.waiting = tuple(kind.group_resource for kind in others)
            return left
        await for_each(others, lambda kind: self._empty_one(kind, namespace, left), limit=COLLECTIONS)
        return left

    async def _empty_one(self, kind: Kind, namespace: str, left: Leftovers) -> None:
        message: Any = kind.partial
        client = self._context.client.resource_of(kind, message)
        try:
            listed = await client.list(namespace=namespace, limit=1)
            if not listed.items:
                return
            await client.delete_collection(namespace=namespace, propagation_policy="Background")
            listed = await client.list(namespace=namespace, limit=LISTED)
        except errors.StatusError as error:
            left.failures[kind.group_resource] = str(error)
            return
        if listed.items:
            left.objects[kind.group_resource] = [
                Leftover(
                    item.metadata.name,
                    tuple(item.metadata.finalizers),
                    item.metadata.deletionGracePeriodSeconds if kind.message is core.Pod else 0,
                )
                for item in listed.items
            ]

    async def _write_status(self, namespace: core.Namespace, left: Leftovers) -> core.Namespace:
        conditions = plan_conditions(namespace, left)
        if left.done and not namespace.status.conditions:
            return namespace  # emptied at the first pass: nobody needs to be told what was left
        if list(namespace.status.conditions) == conditions:
            return namespace
        del namespace.status.conditions[:]
        namespace.status.conditions.extend(conditions)
        return await self._client.update_status(namespace)

    async def _finalize(self, namespace: core.Namespace) -> None:
        namespace.spec.finalizers.remove(FINALIZER)
        try:
            await self._client.update(namespace, subresource="finalize")
        except errors.NotFoundError:
            return
        log.info("namespace is empty, let go", extra={"namespace": namespace.metadata.name})
