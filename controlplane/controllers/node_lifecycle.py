"""Gives up nodes that fell silent, and keeps every node's taints in step with its conditions.

The decisions are :class:`~controlplane.controllers.node_health.NodeHealth`'s and
:func:`~controlplane.controllers.node_taints.plan_taints`'s; this module feeds them from the watches and writes what
they say. Writes go through a queue, so that a slow apiserver never delays the look at the clock. What is written is
always decided from the newest state, and each write carries the resourceVersion that it was decided from: an agent
that speaks up in the meantime wins.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from controlplane.controllers import metrics
from controlplane.controllers.context import NODE_INDEX, Context, for_each, work
from controlplane.controllers.node_health import HealthOptions, NodeHealth, NodePlan, TickReport
from controlplane.controllers.objects import is_ready, is_terminal, key_of, wall_time
from controlplane.controllers.zones import EvictionRates
from wharfinger.api import errors, times
from wharfinger.api.types import coordination, core

log = logging.getLogger(__name__)

NODE_LEASES = "kube-node-lease"
POD_WRITES = 32
"""Pods of one node marked not ready at once."""


class NodeLifecycleController:
    """See the module."""

    name = "node-lifecycle"

    def __init__(self, context: Context) -> None:
        options = context.options
        self._context = context
        self._health = NodeHealth(
            HealthOptions(
                monitor_period=options.node_monitor_period,
                monitor_grace_period=options.node_monitor_grace_period,
                startup_grace_period=options.node_startup_grace_period,
                rates=EvictionRates(
                    normal=options.node_eviction_rate,
                    secondary=options.secondary_node_eviction_rate,
                    unhealthy_threshold=options.unhealthy_zone_threshold,
                    large_cluster=options.large_cluster_size_threshold,
                ),
            ),
            now=context.clock(),
        )
        self._nodes = context.informers.of(core.Node)
        self._leases = context.informers.of(coordination.Lease, namespace=NODE_LEASES)
        self._pods = context.informers.of(core.Pod)
        self._queue = context.queue(self.name, maximum=5.0)
        self._client = context.client.resource(core.Node)
        self._writer = context.client.writer()

    async def run(self) -> None:
        """Watch, look, write."""
        clock, health = self._context.clock, self._health
        self._nodes.add_handler(on_add=self._seen, on_update=lambda _, node: self._seen(node), on_delete=self._gone)
        self._leases.add_handler(
            on_add=lambda lease: health.observe_lease(lease, clock()),
            on_update=lambda _, lease: health.observe_lease(lease, clock()),
            on_delete=lambda lease: health.forget_lease(lease.metadata.name),
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look(), name="node monitor")
                group.create_task(
                    work(self._queue, self._sync, workers=self._context.options.concurrent_node_syncs, name=self.name),
                    name="node writers",
                )
        finally:
            await self._writer.close()

    def _seen(self, node: core.Node) -> None:
        self._health.observe_node(node, self._context.clock())
        self._queue.add(node.metadata.name)

    def _gone(self, node: core.Node) -> None:
        self._health.forget_node(node.metadata.name)

    async def _look(self) -> None:
        period = self._health.options.monitor_period
        loop = asyncio.get_running_loop()
        due = loop.time() + period
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            due = max(due + period, loop.time())
            with metrics.LOOK_SECONDS.time():
                report = self._health.tick(self._context.clock(), idle=self._idle())
                self._say(report)
                for name in report.sync | self._unmarked():
                    self._queue.add(name)

    def _idle(self) -> float:
        return max(self._nodes.idle_seconds, self._leases.idle_seconds)

    def _unmarked(self) -> set[str]:
        """Return silent nodes with pods that still say they are ready (they came late, or an earlier leader died)."""
        return {
            name
            for name, record in self._health.records.items()
            if record.effective == "Unknown" and self._ready_pods(name)
        }

    def _ready_pods(self, node: str) -> list[core.Pod]:
        return [pod for pod in self._pods.by_index(NODE_INDEX, node) if is_ready(pod) and not is_terminal(pod)]

    def _say(self, report: TickReport) -> None:
        if report.restarted:
            log.warning("all nodes get their grace period anew", extra={"reason": report.restarted})
            cause = "loop" if report.restarted.startswith("this process") else "watch"
            metrics.TIMERS_RESTARTED.labels(cause).inc()
        for zone, verdict in report.zones.items():
            log.warning("zone changed its state", extra={"zone": zone or "(none)", "state": verdict.describe()})
        if report.suspended is not None:
            metrics.SUSPENDED.set(report.suspended)
            if report.suspended:
                log.warning("no node of any zone is ready: evictions are suspended until one is")
            else:
                log.warning("nodes are ready again: evictions are resumed, all grace periods begin anew")
        for zone, verdict in self._health.zones.items():
            total = verdict.ready + verdict.not_ready
            metrics.ZONE_SIZE.labels(zone).set(total)
            metrics.UNHEALTHY_NODES.labels(zone).set(verdict.not_ready)
            metrics.ZONE_HEALTH.labels(zone).set(100 * verdict.ready / total if total else 100)

    # --- writing

    async def _sync(self, name: str) -> None:
        if name not in self._health.records:
            return
        plan = self._health.plan(name)
        try:
            if plan.status is not None:
                await self._mark_unknown(name, plan.status)
            if name in self._health.records:
                await self._write_taints(name)
        except errors.NotFoundError:
            return
        if name in self._health.records:
            await self._announce(name, plan)

    async def _mark_unknown(self, name: str, status: core.NodeStatus) -> None:
        record = self._health.records[name]
        node = core.Node()
        node.CopyFrom(record.node)
        node.status.CopyFrom(status)
        silence = self._health.silence(name)
        node = await self._client.update_status(node)
        log.warning("node fell silent", extra={"node": name, "silent_seconds": round(silence, 1)})
        self._written(node)

    def _written(self, node: core.Node) -> None:
        """Take in what a write answered, unless the watch has shown something newer."""
        record = self._health.records.get(node.metadata.name)
        if record is None or record.node.metadata.uid != node.metadata.uid:
            return
        if int(node.metadata.resourceVersion) > int(record.node.metadata.resourceVersion):
            self._health.observe_node(node, self._context.clock())

    async def _write_taints(self, name: str) -> None:
        record = self._health.records[name]
        plan = self._health.plan_taints(name)
        if not plan.changed:
            return
        patch = {
            "metadata": {"resourceVersion": record.node.metadata.resourceVersion, "uid": record.node.metadata.uid},
            "spec": {"taints": [_taint(taint) for taint in plan.taints] or None},
        }
        node = await self._client.patch(name, patch=patch)
        log.info(
            "node's taints changed",
            extra={"node": name, "added": ",".join(plan.added), "removed": ",".join(plan.removed)},
        )
        if any(taint.endswith(":NoExecute") for taint in plan.added) and not record.tainted:
            metrics.NODES_TAINTED.labels(record.zone).inc()
        self._written(node)

    async def _announce(self, name: str, plan: NodePlan) -> None:
        record = self._health.records[name]
        if plan.announce and record.announced == "True":
            text = f"Node {name} status is now: NodeNotReady"
            self._context.recorder.event_for(node_reference(record.node), "Normal", "NodeNotReady", text)
        unknown = record.effective == "Unknown"
        pods = self._ready_pods(name) if plan.announce or unknown else []
        failures = await for_each(pods, self._mark_not_ready, limit=POD_WRITES)
        if failures:
            raise failures[0]
        if plan.announce:
            record.announced = plan.announce

    async def _mark_not_ready(self, pod: core.Pod) -> None:
        now = times.to_text(wall_time())
        patch: dict[str, Any] = {
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]},
        }
        metadata = pod.metadata
        try:
            await self._writer.patch(
                core.Pod,
                metadata.name,
                patch=patch,
                patch_type="strategic",
                namespace=metadata.namespace,
                subresource="status",
                brief=True,
            )
        except (errors.NotFoundError, errors.ConflictError) as error:
            log.debug("pod is gone or another by now", extra={"pod": key_of(pod), "error": str(error)})
            return
        self._context.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")


def node_reference(node: core.Node) -> core.ObjectReference:
    """Refer to a node in an event the way Kubernetes does: by its name, in place of its uid too."""
    name = node.metadata.name
    return core.ObjectReference(kind="Node", apiVersion="v1", name=name, uid=node.metadata.uid)


def _taint(taint: core.Taint) -> dict[str, str]:
    form = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        form["value"] = taint.value
    if taint.HasField("timeAdded"):
        form["timeAdded"] = times.to_text(taint.timeAdded)
    return form
