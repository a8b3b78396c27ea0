"""Prometheus metrics of the controller-manager, with Kubernetes' names where it has them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from wharfinger.client import WorkQueue

RETRIES = Counter("workqueue_retries_total", "Retries of a key after an error", ["name"])
WORK_SECONDS = Histogram("workqueue_work_duration_seconds", "Time to work off one key", ["name"])
ZONE_HEALTH = Gauge("node_collector_zone_health", "Share of ready nodes, in percent", ["zone"])
ZONE_SIZE = Gauge("node_collector_zone_size", "Nodes of a zone", ["zone"])
UNHEALTHY_NODES = Gauge("node_collector_unhealthy_nodes_in_zone", "Nodes of a zone that are not ready", ["zone"])
NODES_TAINTED = Counter("node_collector_evictions_total", "Nodes that got a NoExecute taint for their health", ["zone"])
SUSPENDED = Gauge("node_collector_evictions_suspended", "Whether the brake is on: every node seems gone")
TIMERS_RESTARTED = Counter("node_collector_timers_restarted_total", "How often all grace periods began anew", ["cause"])
LOOK_SECONDS = Histogram(
    "node_collector_update_all_nodes_health_duration_seconds", "Time to judge the health of all nodes once"
)
PODS_EVICTED = Counter("taint_eviction_controller_pod_deletions_total", "Pods deleted because of a NoExecute taint")
GC_ACTIONS = Counter("garbage_collector_actions_total", "What the garbage collector did", ["action"])
GC_OBJECTS = Gauge("garbage_collector_graph_objects", "Objects in the owner graph")
POD_GC = Counter("pod_gc_collector_force_delete_pods_total", "Pods deleted by the pod garbage collector", ["reason"])
REPLICA_CHANGES = Counter("replicaset_controller_pods_total", "Pods created and deleted", ["action"])


class _Depths(Collector):
    """Reads queue depths when scraped, so that queues know nothing of metrics."""

    def __init__(self) -> None:
        self.queues: weakref.WeakValueDictionary[str, WorkQueue[Any]] = weakref.WeakValueDictionary()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily("workqueue_depth", "Keys that wait", labels=["name"])
        for name, queue in list(self.queues.items()):
            family.add_metric([name], len(queue))
        yield family


_depths = _Depths()
REGISTRY.register(_depths)


def watch_queue(name: str, queue: WorkQueue[Any]) -> None:
    """Report a queue's depth under a name; a later queue of the same name takes its place."""
    _depths.queues[name] = queue
