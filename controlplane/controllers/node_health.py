"""Which nodes have fallen silent, and what follows from it: a pure state machine.

What is seen goes in (:meth:`NodeHealth.observe_node`, :meth:`~NodeHealth.observe_lease`), time passes
(:meth:`~NodeHealth.tick`), and the names of the nodes that need a write come out; :meth:`~NodeHealth.plan` says what
to write. Nothing here waits, reads a clock or talks to anybody.

A renewal is *any change* of the node's Lease, told by its resourceVersion, or of the heartbeat time in its status,
told by inequality. What the times say is never looked at: a node whose clock is wrong is as alive as any other.
Silence is measured on :class:`~controlplane.controllers.liveness.LiveClock`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.controllers.liveness import LiveClock
from controlplane.controllers.node_taints import HEALTH_TAINTS, TaintPlan, no_execute_key, plan_taints
from controlplane.controllers.objects import condition_of, wall_time
from controlplane.controllers.zones import (
    EXCLUDE_LABEL,
    EvictionRates,
    ZoneQueue,
    ZoneVerdict,
    all_disrupted,
    judge_zone,
    rate_for,
    zone_of,
)
from wharfinger.api.types import core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.types import coordination

WATCHED_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a silent node no longer vouches for."""


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """Seconds, with the names and defaults of kube-controller-manager's flags."""

    monitor_period: float = 5.0
    monitor_grace_period: float = 40.0
    startup_grace_period: float = 60.0
    """For nodes that never reported a Ready condition."""
    rates: EvictionRates = field(default_factory=EvictionRates)


@dataclass(slots=True)
class NodeRecord:
    """What is known of one node."""

    node: core.Node
    zone: str
    ready: str
    """Status of its Ready condition; empty when it never reported one."""
    heartbeat: tuple[int, int]
    seen: float
    """When it was last seen alive, on the live clock."""
    lease_version: str = ""
    tainted: bool = False
    """Whether it has a NoExecute taint for its health."""
    excluded: bool = False
    overdue: bool = False
    granted: bool = False
    """Whether it has leave to get its NoExecute taint."""
    announced: str = ""
    """The Ready status that its pods and the event stream were told."""

    @property
    def effective(self) -> str:
        """The Ready status that it ought to have."""
        return "Unknown" if self.overdue else self.ready


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What to write for one node; empty parts mean nothing."""

    status: core.NodeStatus | None
    """With the conditions of a silent node set to Unknown."""
    announce: str = ""
    """The new Ready status, when the node has just stopped being ready: tell its pods and the event stream."""


@dataclass(frozen=True, slots=True)
class TickReport:
    """What a tick brought about."""

    sync: set[str]
    """Nodes that need a write, perhaps."""
    restarted: str = ""
    """Why all timers started again; empty: they did not."""
    zones: Mapping[str, ZoneVerdict] = field(default_factory=dict)
    """Verdicts that changed."""
    suspended: bool | None = None
    """Set when the brake was put on (True) or taken off (False)."""


class NodeHealth:
    """See the module. All times are seconds of one monotonic clock."""

    def __init__(self, options: HealthOptions, *, now: float) -> None:
        self.options = options
        self.clock = LiveClock(now)
        self.records: dict[str, NodeRecord] = {}
        self.zones: dict[str, ZoneVerdict] = {}
        self.suspended = False
        """The brake: every node seems gone, so nobody is evicted."""
        self._queues: dict[str, ZoneQueue] = {}
        self._leases: dict[str, str] = {}
        self._epoch = self.clock.epoch

    # --- what is seen

    def observe_node(self, node: core.Node, now: float) -> NodeRecord:
        """Take in a node as the watch shows it."""
        ready = condition_of(node.status.conditions, "Ready")
        heartbeat = (ready.lastHeartbeatTime.seconds, ready.lastHeartbeatTime.nanos) if ready else (0, 0)
        name = node.metadata.name
        record = self.records.get(name)
        if record is None or record.node.metadata.uid != node.metadata.uid:
            record = NodeRecord(node, zone="", ready="", heartbeat=heartbeat, seen=self.clock.at(now))
            record.lease_version = self._leases.get(name, "")
            record.announced = ready.status if ready else ""
            self.records[name] = record
        elif heartbeat != record.heartbeat:
            self._alive(record, now)
        record.node = node
        record.heartbeat = heartbeat
        if record.zone != (zone := zone_of(node)):
            self._stop_waiting(name, record.zone)
            record.zone = zone
        record.ready = ready.status if ready else ""
        record.tainted = any(taint.effect == "NoExecute" and taint.key in HEALTH_TAINTS for taint in node.spec.taints)
        record.excluded = EXCLUDE_LABEL in node.metadata.labels
        if record.ready == "True" and not record.overdue:
            record.granted = False
            record.announced = "True"
        return record

    def observe_lease(self, lease: coordination.Lease, now: float) -> None:
        """Take in a node's Lease as the watch shows it."""
        name, version = lease.metadata.name, lease.metadata.resourceVersion
        self._leases[name] = version
        record = self.records.get(name)
        if record is not None and record.lease_version != version:
            record.lease_version = version
            self._alive(record, now)

    def forget_lease(self, name: str) -> None:
        """Take in that a node's Lease is gone."""
        self._leases.pop(name, None)

    def forget_node(self, name: str) -> None:
        """Take in that a node is gone."""
        record = self.records.pop(name, None)
        if record is not None:
            self._stop_waiting(name, record.zone)

    def _stop_waiting(self, name: str, zone: str) -> None:
        if (queue := self._queues.get(zone)) is not None:
            queue.waiting.pop(name, None)

    def _alive(self, record: NodeRecord, now: float) -> None:
        record.seen = self.clock.at(now)
        record.overdue = False

    # --- time

    def silence(self, name: str) -> float:
        """Return for how long nothing was seen of a node, in proven seconds."""
        return max(0.0, self.clock.value - self.records[name].seen)

    def tick(self, now: float, *, idle: float) -> TickReport:
        """Look at all nodes; called every monitor period. `idle` is the age of the watches' last proof, in seconds."""
        restarted = self.clock.tick(now, idle=idle, period=self.options.monitor_period)
        self._follow_epoch()
        if not self.clock.live:
            return TickReport(set(), restarted)
        sync = {name for name, record in self.records.items() if self._judge(name, record)}
        changed = self._judge_zones(now)
        brake = self._brake(sync)
        self._grant(now, sync)
        return TickReport(sync, restarted, changed, brake)

    def _follow_epoch(self) -> None:
        if self._epoch == self.clock.epoch:
            return
        self._epoch = self.clock.epoch
        for record in self.records.values():
            record.seen = self.clock.value
            record.overdue = False
            record.granted = False
        for queue in self._queues.values():
            queue.waiting.clear()

    def _judge(self, name: str, record: NodeRecord) -> bool:
        limit = self.options.monitor_grace_period if record.ready else self.options.startup_grace_period
        record.overdue = self.silence(name) > limit
        if record.overdue:
            return record.ready != "Unknown" or not self._settled(record)
        return not self._settled(record)

    @staticmethod
    def _settled(record: NodeRecord) -> bool:
        return record.announced == record.effective or not record.effective

    def _judge_zones(self, now: float) -> dict[str, ZoneVerdict]:
        counts: dict[str, list[int]] = {}
        for record in self.records.values():
            if record.effective and not record.excluded:
                counts.setdefault(record.zone, [0, 0])[record.effective != "True"] += 1
        verdicts = {
            zone: judge_zone(ready=ready, not_ready=not_ready, rates=self.options.rates)
            for zone, (ready, not_ready) in counts.items()
        }
        changed = {
            zone: verdict
            for zone, verdict in verdicts.items()
            if verdict.state != (self.zones[zone].state if zone in self.zones else "Normal")
        }
        for zone in self._queues.keys() - {record.zone for record in self.records.values()}:
            del self._queues[zone]
        for zone, verdict in verdicts.items():
            rate = rate_for(verdict, self.options.rates)
            queue = self._queues.get(zone)
            if queue is None:
                self._queues[zone] = ZoneQueue(rate, now)
            else:
                queue.set_rate(rate, now)
        self.zones = verdicts
        return changed

    def _brake(self, sync: set[str]) -> bool | None:
        suspended = all_disrupted(self.zones)
        if suspended == self.suspended:
            return None
        self.suspended = suspended
        if suspended:
            sync.update(name for name, record in self.records.items() if record.tainted)
            for record in self.records.values():
                record.granted = False
            for queue in self._queues.values():
                queue.waiting.clear()
        else:
            self.clock.restart()
            self._follow_epoch()
        return suspended

    def _grant(self, now: float, sync: set[str]) -> None:
        if self.suspended:
            return
        for name, record in self.records.items():
            queue = self._queues.get(record.zone)
            if queue is None:
                continue
            if not no_execute_key(record.effective) or record.tainted:
                queue.waiting.pop(name, None)
            elif record.granted:
                sync.add(name)
            else:
                queue.waiting.setdefault(name)
        for queue in self._queues.values():
            for name in queue.take(now):
                self.records[name].granted = True
                sync.add(name)

    # --- what to write

    def plan(self, name: str) -> NodePlan:
        """Decide what to write for one node's status."""
        record = self.records[name]
        status = unknown_status(record.node) if record.overdue and self.clock.live else None
        return NodePlan(status, "" if self._settled(record) or record.effective == "True" else record.effective)

    def plan_taints(self, name: str) -> TaintPlan:
        """Decide one node's taints, by its conditions as they are stored by now."""
        record = self.records[name]
        return plan_taints(record.node, may_execute=record.granted, suspended=self.suspended)


def unknown_status(node: core.Node) -> core.NodeStatus | None:
    """Return the status of a node that fell silent; None when it says so already.

    The conditions keep their heartbeat times: they tell when the node last spoke.
    """
    status = core.NodeStatus()
    status.CopyFrom(node.status)
    now = wall_time()
    changed = False
    for name in WATCHED_CONDITIONS:
        condition = condition_of(status.conditions, name)
        if condition is None:
            condition = status.conditions.add(type=name, reason="NodeStatusNeverUpdated")
            condition.message = "Kubelet never posted node status."
            condition.lastHeartbeatTime.CopyFrom(node.metadata.creationTimestamp)
        elif condition.status != "Unknown":
            condition.reason, condition.message = "NodeStatusUnknown", "Kubelet stopped posting node status."
        else:
            continue
        condition.status = "Unknown"
        condition.lastTransitionTime.CopyFrom(now)
        changed = True
    return status if changed else None
