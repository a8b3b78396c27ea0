"""Eviction: a delete that asks the pod's disruption budget first.

The budget's controller writes how many disruptions are allowed; an eviction takes one of them, in the same transaction
that marks the pod, so two evictions through two servers cannot both take the last one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.store import Compare, CompareFailed, Put
from wharfinger.api import disruption, errors, labels
from wharfinger.api.errors import TooManyRequestsError
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from controlplane.apiserver.registry.registry import Registry
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache, Entry
    from wharfinger.api.types import core, policy

_MAX_DISRUPTED = 2000
_ATTEMPTS = 10
_MARK = disruption.marker("EvictionByEvictionAPI", "Eviction API: evicting")


class DisruptionBudgetError(TooManyRequestsError):
    """Raised when a budget does not allow an eviction now; its cause names the budget."""

    def __init__(self, message: str, cause: str, *, retry_after: int = 0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.cause = cause

    def to_status(self) -> meta.Status:
        """Return the Status, with the cause that ``kubectl drain`` looks for."""
        status = super().to_status()
        status.details.causes.add(reason="DisruptionBudget", message=self.cause)
        return status


class Evictor:
    """Evicts pods."""

    def __init__(self, pods: Registry, budgets: Registry, cache: Cache) -> None:
        self._pods = pods
        self._budgets = budgets
        self._cache = cache

    async def evict(self, request: Request, options: meta.DeleteOptions) -> None:
        """Delete the pod that the request names, if its budget allows.

        Raises NotFoundError, DisruptionBudgetError (429), StatusError 500 when several budgets cover the pod.
        """
        for _ in range(_ATTEMPTS):
            entry = await self._pods.reader.entry(request.namespace, request.name)
            pod = entry.decoded
            await self._pods.deleter.admit(request, pod)  # who may not does not learn of the pod's budget
            extra = self._taken(entry)
            if not options.preconditions.HasField("uid"):
                options.preconditions.uid = pod.metadata.uid
            try:
                await self._pods.deleter.delete(request, options, extra=extra, mark=_MARK)
            except CompareFailed:
                continue  # the budget changed meanwhile, or the pod whose state made it count for nothing
            return
        raise DisruptionBudgetError(
            "Cannot evict pod: it or its disruption budget changes all the time", "too many changes", retry_after=1
        )

    def _taken(self, evicted: Entry) -> list[Put | Compare]:
        """Return what an eviction writes to the budget, and what must not change until then.

        A pod that costs the budget nothing, since it has not begun or is not ready, must still be the same one when it
        goes. Raises when the budget refuses.
        """
        pod: core.Pod = evicted.decoded
        unchanged: list[Put | Compare] = [Compare(evicted.key, evicted.mod_revision)]
        if pod.status.phase in ("Succeeded", "Failed") or pod.metadata.HasField("deletionTimestamp"):
            return []
        if pod.status.phase == "Pending":
            return unchanged
        covering = [
            entry
            for entry in self._cache.list(self._budgets.resource.prefix, namespace=pod.metadata.namespace).entries
            if labels.from_label_selector(entry.decoded.spec.selector).matches(pod.metadata.labels)
        ]
        if not covering:
            return []
        if len(covering) > 1:
            raise errors.StatusError(
                "This pod has more than one PodDisruptionBudget, which the eviction does not support."
            )
        entry = covering[0]
        budget: policy.PodDisruptionBudget = entry.decoded
        if not _ready(pod):
            if budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow":
                return unchanged
            status = budget.status
            if status.currentHealthy >= status.desiredHealthy and status.desiredHealthy > 0:
                return unchanged
        return self._take(entry, budget, pod)

    def _take(self, entry: Entry, budget: policy.PodDisruptionBudget, pod: core.Pod) -> list[Put | Compare]:
        status, name = budget.status, budget.metadata.name
        if status.observedGeneration < budget.metadata.generation:
            raise DisruptionBudgetError(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                f"The disruption budget {name} is still being processed by the server.",
                retry_after=10,
            )
        if status.disruptionsAllowed < 0 or len(status.disruptedPods) > _MAX_DISRUPTED:
            raise errors.ForbiddenError(
                f'poddisruptionbudgets.policy "{name}" is forbidden: its status does not allow evictions '
                f"(disruptionsAllowed {status.disruptionsAllowed}, {len(status.disruptedPods)} disrupted pods)",
                name=name,
                kind="poddisruptionbudgets",
                group="policy",
            )
        if not status.disruptionsAllowed:
            raise DisruptionBudgetError(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                f"The disruption budget {name} needs {status.desiredHealthy} healthy pods "
                f"and has {status.currentHealthy} currently",
            )
        changed: Any = self._budgets.resource.message(entry.value, entry.mod_revision)
        changed.status.disruptionsAllowed -= 1
        changed.status.disruptedPods[pod.metadata.name].seconds = int(time.time())
        value, _ = self._budgets.resource.encode(changed)
        return [Compare(entry.key, entry.mod_revision), Put(entry.key, value)]


def _ready(pod: core.Pod) -> bool:
    return any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions)
