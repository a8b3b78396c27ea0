"""Evicts pods from nodes with NoExecute taints, when their time has come.

The timetable is :class:`~controlplane.controllers.taint_deadlines.TaintDeadlines`. Before anything is deleted three
things must hold: the watches of nodes and pods are proven current, this process has not stood still, and the node,
read afresh, still has the taint. When one of the first two fails all times begin anew. Every delete carries the
fence and the pod's uid.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict

from controlplane.controllers import metrics
from controlplane.controllers.context import NODE_INDEX, Context, for_each
from controlplane.controllers.liveness import LiveClock
from controlplane.controllers.node_taints import no_execute_taints
from controlplane.controllers.objects import split_key
from controlplane.controllers.taint_deadlines import Eviction, TaintDeadlines
from wharfinger.api import errors
from wharfinger.api.types import core

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
RETRY_SECONDS = 1.0
NODES = 8
"""Nodes whose pods are evicted at once."""
WRITES = 64
"""Pods of one node deleted at once."""


class TaintEvictionController:
    """See the module."""

    name = "taint-eviction"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes = context.informers.of(core.Node)
        self._pods = context.informers.of(core.Pod)
        self._deadlines = TaintDeadlines()
        self._live = LiveClock(context.clock())
        self._client = context.client.resource(core.Node)
        self._writer = context.client.writer()

    async def run(self) -> None:
        """Watch, and evict who is due."""
        clock = self._context.clock
        self._nodes.add_handler(
            on_add=self._node, on_update=self._node_changed, on_delete=lambda node: self._drop(node.metadata.name)
        )
        self._pods.add_handler(
            on_add=lambda pod: self._deadlines.observe_pod(pod, clock()),
            on_update=self._pod_changed,
            on_delete=self._deadlines.forget_pod,
        )
        try:
            while True:
                until = self._deadlines.next_deadline() - clock() if self._live.live else LOOK_SECONDS
                wait = min(LOOK_SECONDS, max(until, 0.01))
                await asyncio.sleep(wait)
                await self._look(wait)
        finally:
            await self._writer.close()

    def _node(self, node: core.Node) -> None:
        name = node.metadata.name
        pods = self._pods.by_index(NODE_INDEX, name) if no_execute_taints(node.spec.taints) else []
        if self._deadlines.observe_node(name, node.spec.taints, pods, self._context.clock()):
            log.info("evictions cancelled: the taint is gone", extra={"node": name})

    def _node_changed(self, old: core.Node, new: core.Node) -> None:
        if old.spec.taints or new.spec.taints:
            self._node(new)

    def _drop(self, name: str) -> None:
        self._deadlines.observe_node(name, [], [], self._context.clock())

    def _pod_changed(self, old: core.Pod, new: core.Pod) -> None:
        if old.spec.nodeName and old.spec.nodeName != new.spec.nodeName:
            self._deadlines.forget_pod(old)
        self._deadlines.observe_pod(new, self._context.clock())

    async def _look(self, period: float) -> None:
        now = self._context.clock()
        idle = max(self._nodes.idle_seconds, self._pods.idle_seconds)
        restarted = self._live.tick(now, idle=idle, period=period)
        if restarted:
            self._deadlines.restart(now)
            log.warning("all tolerated times begin anew", extra={"reason": restarted, "pods": len(self._deadlines)})
        if not self._live.live:
            return
        due = self._deadlines.due(now)
        if not due:
            return
        by_node: dict[str, list[Eviction]] = defaultdict(list)
        for eviction in due:
            by_node[eviction.node].append(eviction)
        await for_each(by_node.values(), self._evict, limit=NODES)
        self._live.skip(self._context.clock())

    async def _evict(self, evictions: list[Eviction]) -> None:
        """Evict pods of one node."""
        name = evictions[0].node
        try:
            async with asyncio.timeout(10):
                node = await self._client.get(name)
        except (errors.StatusError, TimeoutError) as error:
            if not isinstance(error, errors.NotFoundError):
                self._later(evictions, error)
                return
            node = core.Node()  # the pod collector takes over when a node is gone
        now = self._context.clock()
        pods = self._pods.by_index(NODE_INDEX, name)
        fresh = TaintDeadlines()
        fresh.observe_node(name, node.spec.taints, pods, now)
        called_for = {(item.pod, item.uid) for item in fresh.due(math.inf)}
        confirmed = [item for item in evictions if (item.pod, item.uid) in called_for]
        dropped = [item for item in evictions if item not in confirmed]
        if dropped:
            log.info("evictions dropped: no longer called for", extra={"node": name, "pods": len(dropped)})
            for item in dropped:  # until our watch shows why, too: were it never to, nobody would ask again
                self._deadlines.retry(item, now + RETRY_SECONDS)
        await for_each(confirmed, self._delete, limit=WRITES)

    async def _delete(self, eviction: Eviction) -> None:
        namespace, name = split_key(eviction.pod)
        reference = core.ObjectReference(kind="Pod", apiVersion="v1", namespace=namespace, name=name, uid=eviction.uid)
        try:
            await self._writer.displace(
                name, namespace=namespace, uid=eviction.uid, reason="DeletionByTaintManager",
                message="Taint manager: deleting due to NoExecute taint", brief=True,
            )  # fmt: skip
        except errors.NotFoundError:
            return
        except errors.StatusError as error:
            self._later([eviction], error)
            return
        metrics.PODS_EVICTED.inc()
        log.warning(
            "evicted a pod",
            extra={
                "pod": eviction.pod,
                "node": eviction.node,
                "taint": eviction.taint,
                "tolerated_seconds": eviction.tolerated_seconds,
            },
        )
        text = f"Marking for deletion Pod {eviction.pod}"
        self._context.recorder.event_for(reference, "Normal", "TaintManagerEviction", text)

    def _later(self, evictions: list[Eviction], error: Exception) -> None:
        at = self._context.clock() + RETRY_SECONDS
        for eviction in evictions:
            self._deadlines.retry(eviction, at)
        log.warning(
            "could not evict, trying again",
            extra={"node": evictions[0].node, "pods": len(evictions), "error": str(error) or type(error).__name__},
        )
