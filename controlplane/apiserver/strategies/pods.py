"""Pods: phases, grace periods, and a generation that binding does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy
from wharfinger.api import pods, times
from wharfinger.api.defaults import app_armor
from wharfinger.api.types import core

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.types import meta

_FINISHED = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    """How pods differ."""

    graceful = True
    returns_deleted = True

    def prepare_for_create(self, obj: core.Pod, request: Request) -> None:
        """Start in phase Pending, with the QoS class; gates show as a PodScheduled condition."""
        if obj.spec.terminationGracePeriodSeconds < 0:
            obj.spec.terminationGracePeriodSeconds = 1
        request.warnings += app_armor.adopt(obj)
        obj.ClearField("status")
        status = obj.status
        status.phase = "Pending"
        status.qosClass = pods.qos_class(obj)
        obj.metadata.generation = 1
        if obj.spec.schedulingGates:
            condition = status.conditions.add(
                type="PodScheduled",
                status="False",
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )
            condition.lastTransitionTime.CopyFrom(times.now())

    def prepare_for_status_update(self, obj: core.Pod, old: core.Pod, request: Request) -> None:
        """Keep the spec, the owners and what marks the deletion; the QoS class stays unless it is said."""
        super().prepare_for_status_update(obj, old, request)
        if not obj.status.qosClass:
            obj.status.qosClass = old.status.qosClass

    def keep_metadata(self, obj: core.Pod, old: core.Pod) -> None:
        """Owners are not the business of those who report status."""
        del obj.metadata.ownerReferences[:]
        obj.metadata.ownerReferences.extend(old.metadata.ownerReferences)

    def prepare_for_ephemeralcontainers(self, obj: core.Pod, old: core.Pod) -> None:
        """Only the ephemeral containers may change."""
        changed = list(obj.spec.ephemeralContainers)
        version = obj.metadata.resourceVersion
        result = core.Pod()
        result.CopyFrom(old)
        del result.spec.ephemeralContainers[:]
        result.spec.ephemeralContainers.extend(changed)
        self._replace(obj, result, old, version)

    def prepare_for_resize(self, obj: core.Pod, old: core.Pod) -> None:
        """Only the resources of containers may change, and how a change is made."""
        version = obj.metadata.resourceVersion
        result = core.Pod()
        result.CopyFrom(old)
        for containers, wanted in (
            (result.spec.containers, obj.spec.containers),
            (result.spec.initContainers, obj.spec.initContainers),
        ):
            by_name = {container.name: container for container in wanted}
            for container in containers:
                new = by_name.get(container.name)
                if new is not None:
                    container.resources.CopyFrom(new.resources)
                    del container.resizePolicy[:]
                    container.resizePolicy.extend(new.resizePolicy)
        self._replace(obj, result, old, version)

    def _replace(self, obj: core.Pod, result: core.Pod, old: core.Pod, version: str) -> None:
        result.metadata.resourceVersion = version
        if self.changes_generation(result, old):
            result.metadata.generation += 1
        obj.CopyFrom(result)

    def check_graceful_delete(self, obj: core.Pod, options: meta.DeleteOptions) -> bool:
        """Settle the grace: as asked, else as the spec says; none for pods that no node runs (any more)."""
        period = 30
        if options.HasField("gracePeriodSeconds"):
            period = options.gracePeriodSeconds
        elif obj.spec.HasField("terminationGracePeriodSeconds"):
            period = obj.spec.terminationGracePeriodSeconds
        if not obj.spec.nodeName or obj.status.phase in _FINISHED:
            period = 0
        options.gracePeriodSeconds = 1 if period < 0 else period
        return True
