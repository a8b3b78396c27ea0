"""Clears away pods that nobody else will: a pure choice, made every twenty seconds, and its deletes.

Four kinds: pods on nodes that no longer exist, pods that are being deleted and never had a node, pods that are being
deleted on a node marked out of service, and ended pods beyond a number. Source: "Pod Lifecycle", section on garbage
collection of pods, in Kubernetes' documentation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from controlplane.controllers import metrics
from controlplane.controllers.context import Context, for_each
from controlplane.controllers.liveness import STALL_SECONDS
from controlplane.controllers.node_taints import OUT_OF_SERVICE
from controlplane.controllers.objects import (
    condition_status,
    deleting,
    is_terminal,
    key_of,
    seconds_of,
)
from wharfinger.api import disruption, errors
from wharfinger.api.types import core

log = logging.getLogger(__name__)

PERIOD_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
"""A node must be missing for this long before its pods are cleared away: it may only be registering anew."""
WRITES = 32

Reason = Literal["terminated", "orphaned", "terminating-unscheduled", "terminating-out-of-service"]


@dataclass(frozen=True, slots=True)
class Garbage:
    """A pod to clear away, and why."""

    pod: core.Pod
    reason: Reason


@dataclass(slots=True)
class PodGarbage:
    """The choice. It remembers since when each node is missing, in monotonic seconds."""

    threshold: int
    missing_since: dict[str, float] = field(default_factory=dict)

    def choose(self, pods: Sequence[core.Pod], nodes: Mapping[str, core.Node], now: float) -> list[Garbage]:
        """Return the pods to clear away."""
        chosen: dict[str, Garbage] = {}
        for garbage in (*self._beyond(pods), *self._orphans(pods, nodes, now), *_terminating(pods, nodes)):
            chosen.setdefault(garbage.pod.metadata.uid, garbage)
        return list(chosen.values())

    def _beyond(self, pods: Iterable[core.Pod]) -> list[Garbage]:
        if self.threshold <= 0:
            return []
        ended = [pod for pod in pods if is_terminal(pod) and not deleting(pod)]
        surplus = len(ended) - self.threshold
        if surplus <= 0:
            return []
        # Evicted pods go first, then the oldest.
        ended.sort(
            key=lambda pod: (pod.status.reason != "Evicted", seconds_of(pod.metadata.creationTimestamp), key_of(pod))
        )
        return [Garbage(pod, "terminated") for pod in ended[:surplus]]

    def _orphans(self, pods: Iterable[core.Pod], nodes: Mapping[str, core.Node], now: float) -> list[Garbage]:
        lost = [pod for pod in pods if pod.spec.nodeName and pod.spec.nodeName not in nodes]
        missing = {pod.spec.nodeName for pod in lost}
        self.missing_since = {name: self.missing_since.get(name, now) for name in missing}
        return [
            Garbage(pod, "orphaned")
            for pod in lost
            if now - self.missing_since[pod.spec.nodeName] >= QUARANTINE_SECONDS
        ]


def _terminating(pods: Iterable[core.Pod], nodes: Mapping[str, core.Node]) -> list[Garbage]:
    garbage: list[Garbage] = []
    for pod in pods:
        if not deleting(pod):
            continue
        if not pod.spec.nodeName:
            garbage.append(Garbage(pod, "terminating-unscheduled"))
        elif (node := nodes.get(pod.spec.nodeName)) is not None and _out_of_service(node):
            garbage.append(Garbage(pod, "terminating-out-of-service"))
    return garbage


def _out_of_service(node: core.Node) -> bool:
    return condition_status(node.status.conditions, "Ready") != "True" and any(
        taint.key == OUT_OF_SERVICE for taint in node.spec.taints
    )


class PodGarbageCollector:
    """See the module."""

    name = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers.of(core.Pod)
        self._nodes = context.informers.of(core.Node)
        self._client = context.client.resource(core.Pod)
        self._node_client = context.client.resource(core.Node)
        self._garbage = PodGarbage(context.options.terminated_pod_gc_threshold)

    async def run(self) -> None:
        """Look every twenty seconds."""
        while True:
            await self._collect()
            await asyncio.sleep(PERIOD_SECONDS)

    async def _collect(self) -> None:
        if max(self._pods.idle_seconds, self._nodes.idle_seconds) > STALL_SECONDS:
            self._garbage.missing_since.clear()  # what we see may be stale: count anew
            return
        nodes = {node.metadata.name: node for node in self._nodes.items()}
        chosen = self._garbage.choose(self._pods.items(), nodes, self._context.clock())
        gone = await self._really_gone({item.pod.spec.nodeName for item in chosen if item.reason == "orphaned"})
        certain = [item for item in chosen if item.reason != "orphaned" or item.pod.spec.nodeName in gone]
        failures = await for_each(certain, self._clear, limit=WRITES)
        if failures:
            log.warning("pods not cleared away, trying again", extra={"pods": len(failures), "error": str(failures[0])})

    async def _really_gone(self, names: set[str]) -> set[str]:
        gone = set()
        for name in names:
            try:
                await self._node_client.get(name)
            except errors.NotFoundError:
                gone.add(name)
            except errors.StatusError as error:
                log.warning("cannot tell whether a node exists", extra={"node": name, "error": str(error)})
        return gone

    async def _clear(self, item: Garbage) -> None:
        metadata = item.pod.metadata
        try:
            if not is_terminal(item.pod) and item.reason != "terminated":
                patch = self._last_words(item)
                await self._client.patch(
                    metadata.name,
                    patch=patch,
                    patch_type="strategic",
                    namespace=metadata.namespace,
                    subresource="status",
                )
            await self._client.delete(
                metadata.name, namespace=metadata.namespace, grace_period_seconds=0, uid=metadata.uid
            )
        except errors.NotFoundError:
            return
        metrics.POD_GC.labels(item.reason).inc()
        log.info("cleared a pod away", extra={"pod": key_of(item.pod), "reason": item.reason})

    @staticmethod
    def _last_words(item: Garbage) -> dict[str, object]:
        metadata = item.pod.metadata
        if item.reason == "orphaned":
            return disruption.patch(metadata.uid, "DeletionByPodGC", "PodGC: node no longer exists", phase="Failed")
        return {"metadata": {"uid": metadata.uid}, "status": {"phase": "Failed"}}
