"""Deletes what nobody owns any more, over all stored kinds.

One watch a kind feeds the :class:`~controlplane.controllers.owner_graph.OwnerGraph`; of the objects only the
metadata is decoded and kept (a full object parses as :class:`meta.PartialObjectMetadata`, for metadata is field 1 of
every kind). The graph only says whom to look at. Before anything is written the object and each owner are read
afresh by name and compared by uid, and a delete carries uid and resourceVersion of what was judged.

Custom kinds join and leave as their definitions do. Not collected: Events, whose owners do not matter and which expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from controlplane.controllers import metrics
from controlplane.controllers.context import Context, for_each, work
from controlplane.controllers.owner_graph import (
    FOREGROUND,
    ORPHAN,
    Decision,
    Owner,
    OwnerGraph,
    OwnerState,
    Task,
    Vertex,
    decide,
    vertex_of,
)
from controlplane.controllers.served_kinds import ServedKinds
from wharfinger.api import codec, errors
from wharfinger.api.kinds import Kind
from wharfinger.api.types import core, meta
from wharfinger.client import Informer, ResourceClient

log = logging.getLogger(__name__)

REMEMBERED_ABSENT = 4096
PATCHES = 64
"""Dependents released at once."""
UNSEEN_SECONDS = 1.0
"""How long to wait for the watch to show an owner that a live read has shown."""

Metadata = meta.PartialObjectMetadata


class GarbageCollector:
    """See the module."""

    name = "garbage-collector"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._served = ServedKinds(context)
        self._graph = OwnerGraph(self._served.by_kind)
        self._queue = context.queue(self.name)
        self._informers: dict[str, tuple[Kind, Informer[Any]]] = {}
        """By group resource: of each, one version is watched."""
        self._clients: dict[Kind, ResourceClient[Metadata]] = {}
        self._absent: OrderedDict[tuple[str, str, str, str, str], None] = OrderedDict()

    async def run(self) -> None:
        """Watch everything, collect."""
        try:
            await self._follow(await self._served.load())
            for _, informer in list(self._informers.values()):
                await informer.wait_synced()
            log.info("owner graph is complete", extra={"objects": len(self._graph), "kinds": len(self._informers)})
            workers = self._context.options.concurrent_gc_syncs
            async with asyncio.TaskGroup() as group:
                group.create_task(self._served.follow(self._follow), name=f"{self.name}: kinds")
                group.create_task(work(self._queue, self._process, workers=workers, name=self.name))
        finally:
            await asyncio.gather(*(informer.stop() for _, informer in self._informers.values()))

    async def _follow(self, served: list[Kind]) -> None:
        """Watch what is served, and nothing else."""
        wanted: dict[str, Kind] = {}
        for kind in served:
            if kind.resource != "events" and {"list", "watch", "delete"} <= set(kind.verbs):
                wanted.setdefault(kind.group_resource, kind)
        for resource, (kind, informer) in list(self._informers.items()):
            now = wanted.get(resource)
            if now is not None and now.api_version == kind.api_version and now.kind == kind.kind:
                continue
            del self._informers[resource]
            await informer.stop()
            self._clients.pop(kind, None)
            if now is None:  # its definition is gone, and with it all objects
                for vertex in informer.items():
                    self._gone(vertex)
        for resource, kind in wanted.items():
            if resource not in self._informers:
                await self._watch(kind).start()
        self._add(self._graph.resolve_again())

    def _client(self, kind: Kind) -> ResourceClient[Metadata]:
        if kind not in self._clients:
            message: Any = kind.partial
            self._clients[kind] = self._context.client.resource_of(kind, message)
        return self._clients[kind]

    def _watch(self, kind: Kind) -> Informer[Any]:
        # The informer keeps vertices, which look enough like objects to it.
        informer: Informer[Any] = Informer(self._client(kind), transform=partial(vertex_of, kind))
        informer.add_handler(
            on_add=self._seen, on_update=lambda _, new: self._seen(new), on_delete=lambda obj: self._gone(obj)
        )
        self._informers[kind.group_resource] = kind, informer
        return informer

    def _seen(self, vertex: Vertex) -> None:
        self._add(self._graph.observe(vertex))

    def _gone(self, obj: Any) -> None:
        self._add(self._graph.remove(obj.metadata.uid))

    def _add(self, tasks: list[Task]) -> None:
        for task in tasks:
            self._queue.add(task)
        metrics.GC_OBJECTS.set(len(self._graph))

    # --- work

    async def _process(self, task: Task) -> None:
        what, uid = task
        vertex = self._graph.get(uid)
        if vertex is None:
            return
        if what == "orphan":
            await self._orphan(vertex)
        elif vertex.virtual:
            await self._verify(vertex)
        else:
            await self._check(vertex)

    async def _read(self, kind: Kind, *, namespace: str, name: str) -> Vertex | None:
        try:
            return vertex_of(kind, await self._client(kind).get(name, namespace=namespace))
        except errors.NotFoundError:
            return None

    async def _verify(self, owner: Vertex) -> None:
        """Find out whether an owner that was only named exists."""
        if owner.kind is None:
            log.debug("an owner's kind is not known; its dependents are kept", extra={"owner": owner.name})
            return
        live = await self._read(owner.kind, namespace=owner.namespace, name=owner.name)
        if live is None or live.uid != owner.uid:
            known = self._graph.get(owner.uid)
            if known is not None and known.virtual:
                self._remember_absent(owner.kind, owner.namespace, owner.name, owner.uid)
                self._add(self._graph.remove(owner.uid))
        else:
            self._queue.add_after(("check", owner.uid), UNSEEN_SECONDS)  # the watch is late

    def _remember_absent(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        self._absent[(kind.group, kind.kind, namespace, name, uid)] = None
        if len(self._absent) > REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    async def _check(self, vertex: Vertex) -> None:
        if vertex.kind is None or (vertex.deleting and not vertex.deleting_dependents):
            return
        live = await self._read(vertex.kind, namespace=vertex.namespace, name=vertex.name)
        if live is None or live.uid != vertex.uid:
            self._add(self._graph.remove(vertex.uid))
            return
        if live.deleting_dependents:
            await self._let_go(vertex, live)
            return
        if live.deleting:
            return
        states = {owner.uid: await self._state(owner, live) for owner in live.owners}
        dependents = self._graph.dependents(vertex)
        decision = decide(
            live,
            states,
            has_dependents=bool(dependents),
            in_a_circle=any(item.deleting_dependents for item in dependents),
        )
        await self._carry_out(live, decision)

    async def _state(self, owner: Owner, dependent: Vertex) -> OwnerState:
        kind = self._served.by_kind(owner.api_version, owner.kind)
        if kind is None:
            return "unknown"
        if kind.namespaced and not dependent.namespace:
            self._complain(dependent, owner)
            return "unknown"
        namespace = dependent.namespace if kind.namespaced else ""
        if (kind.group, kind.kind, namespace, owner.name, owner.uid) in self._absent:
            return "gone"
        live = await self._read(kind, namespace=namespace, name=owner.name)
        if live is None or live.uid != owner.uid:
            self._remember_absent(kind, namespace, owner.name, owner.uid)
            return "gone"
        return "waiting" if live.deleting_dependents else "solid"

    def _complain(self, dependent: Vertex, owner: Owner) -> None:
        assert dependent.kind is not None
        reference = core.ObjectReference(
            kind=dependent.kind.kind, apiVersion=dependent.kind.api_version, name=dependent.name, uid=dependent.uid
        )
        text = f"owner {owner.kind} {owner.name} (uid {owner.uid}) lives in a namespace, and this object does not"
        self._context.recorder.event_for(reference, "Warning", "OwnerRefInvalidNamespace", text)

    async def _carry_out(self, live: Vertex, decision: Decision) -> None:
        if decision.action == "keep":
            return
        assert live.kind is not None
        fields = {"object": f"{live.kind.group_resource} {live.namespace}/{live.name}", "reason": decision.reason}
        if decision.action == "drop references":
            await self._drop_references(live, decision.owners)
            log.info("dropped references to owners that are gone", extra=fields)
        else:
            if decision.action == "unblock and delete":
                await self._unblock(live)
            await self._delete(live, decision)
            log.info("deleted", extra=fields | {"policy": decision.policy})
        metrics.GC_ACTIONS.labels(decision.action).inc()

    async def _delete(self, live: Vertex, decision: Decision) -> None:
        assert live.kind is not None
        version = live.resourceVersion if decision.action == "delete" else None
        try:
            await self._client(live.kind).delete(
                live.name,
                namespace=live.namespace,
                propagation_policy=decision.policy,
                uid=live.uid,
                resource_version=version,
            )
        except errors.NotFoundError:
            self._add(self._graph.remove(live.uid))

    async def _drop_references(self, live: Vertex, owners: tuple[str, ...]) -> None:
        if live.kind is not None and not live.kind.described:
            await self._rewrite_owners(live, lambda owner: None if owner["uid"] in owners else owner)
            return
        references = [{"$patch": "delete", "uid": uid} for uid in owners]
        await self._patch(live, {"metadata": {"uid": live.uid, "ownerReferences": references}}, "strategic")

    async def _unblock(self, live: Vertex) -> None:
        if live.kind is not None and not live.kind.described:
            await self._rewrite_owners(live, lambda owner: {**owner, "blockOwnerDeletion": False})
            return
        references = [{"uid": owner.uid, "blockOwnerDeletion": False} for owner in live.owners if owner.blocks]
        if references:
            await self._patch(live, {"metadata": {"uid": live.uid, "ownerReferences": references}}, "strategic")

    async def _rewrite_owners(self, vertex: Vertex, change: Callable[[Any], Any]) -> None:
        """Change the owner references of a custom object, which takes no strategic patches: all of them at once."""
        assert vertex.kind is not None
        try:
            live = await self._client(vertex.kind).get(vertex.name, namespace=vertex.namespace)
        except errors.NotFoundError:
            return
        if live.metadata.uid != vertex.uid:
            return
        found = [change(codec.to_json(owner)) for owner in live.metadata.ownerReferences]
        left = [owner for owner in found if owner is not None]
        # With the version: somebody else's change in between is a conflict, and tried again.
        await self._patch(
            vertex,
            {
                "metadata": {
                    "uid": vertex.uid,
                    "resourceVersion": live.metadata.resourceVersion,
                    "ownerReferences": left or None,
                }
            },
        )

    async def _patch(self, vertex: Vertex, patch: dict[str, Any], patch_type: Any = "merge") -> None:
        assert vertex.kind is not None
        try:
            await self._client(vertex.kind).patch(
                vertex.name, patch=patch, patch_type=patch_type, namespace=vertex.namespace
            )
        except errors.NotFoundError:
            return

    async def _let_go(self, vertex: Vertex, live: Vertex) -> None:
        """Let an owner go that has waited for its dependents, or see to those that are left."""
        blocking = self._graph.blocking(vertex)
        if blocking:
            for dependent in blocking:
                if not dependent.deleting_dependents:
                    self._queue.add(("check", dependent.uid))
            return
        await self._remove_finalizer(live, FOREGROUND)

    async def _remove_finalizer(self, live: Vertex, finalizer: str) -> None:
        if finalizer not in live.finalizers:
            return
        left = [item for item in live.finalizers if item != finalizer]
        await self._patch(live, {"metadata": {"resourceVersion": live.resourceVersion, "finalizers": left}})
        metrics.GC_ACTIONS.labels("let go").inc()

    async def _orphan(self, vertex: Vertex) -> None:
        """Release a deleted owner's dependents, then let it go."""
        if not vertex.orphaning or vertex.kind is None:
            return
        dependents = [item for item in self._graph.dependents(vertex) if item.kind is not None]
        failures = await for_each(dependents, lambda item: self._drop_references(item, (vertex.uid,)), limit=PATCHES)
        failures = [error for error in failures if not isinstance(error, errors.InvalidError)]
        if failures:
            raise failures[0]
        live = await self._read(vertex.kind, namespace=vertex.namespace, name=vertex.name)
        if live is not None and live.uid == vertex.uid:
            await self._remove_finalizer(live, ORPHAN)
            log.info(
                "released dependents", extra={"owner": f"{vertex.namespace}/{vertex.name}", "count": len(dependents)}
            )
