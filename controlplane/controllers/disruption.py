"""Keeps the status of PodDisruptionBudgets, which evictions are granted by.

What it says is decided in :mod:`~controlplane.controllers.disruption_plan`. The status is written with the
resourceVersion that it was worked out from: an eviction that the apiserver granted meanwhile changes the budget, so
that the write is refused and worked out anew.
"""

from __future__ import annotations

import logging

from controlplane.controllers import disruption_plan as plan
from controlplane.controllers.context import Context, work
from controlplane.controllers.disruption_plan import Size, UnknownScaleError
from controlplane.controllers.objects import controller_of, deleting, is_ready, key_of
from wharfinger.api import errors, labels
from wharfinger.api.types import apps, core, policy

log = logging.getLogger(__name__)

WORKERS = 4


class DisruptionController:
    """See the module."""

    name = "disruption"

    def __init__(self, context: Context) -> None:
        self._context = context
        informers = context.informers
        self._budgets = informers.of(policy.PodDisruptionBudget)
        self._pods = informers.of(core.Pod)
        self._deployments = informers.of(apps.Deployment)
        self._sets = informers.of(apps.ReplicaSet)
        self._stateful = informers.of(apps.StatefulSet)
        self._replication = informers.of(core.ReplicationController)
        self._client = context.client.resource(policy.PodDisruptionBudget)
        self._queue = context.queue(self.name)
        self._evicted = plan.Evicted()

    async def run(self) -> None:
        """Watch and sync."""
        self._budgets.add_handler(
            on_add=lambda budget: self._queue.add(key_of(budget)),
            on_update=lambda _, budget: self._queue.add(key_of(budget)),
            on_delete=lambda budget: self._evicted.forget(budget.metadata.uid),
        )
        self._pods.add_handler(on_add=self._pod, on_update=self._pod_changed, on_delete=self._pod)
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _pod(self, pod: core.Pod) -> None:
        if not len(self._budgets):
            return
        for budget in self._budgets.items():
            if budget.metadata.namespace == pod.metadata.namespace and _selector(budget).matches(pod.metadata.labels):
                self._queue.add(key_of(budget))

    def _pod_changed(self, old: core.Pod, new: core.Pod) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._pod(old)
        elif is_ready(old) == is_ready(new) and deleting(old) == deleting(new):
            return
        self._pod(new)

    async def _sync(self, key: str) -> None:
        budget = self._budgets.get(key)
        if budget is None:
            return
        selector = _selector(budget)
        pods = [
            pod
            for pod in self._pods.items()
            if pod.metadata.namespace == budget.metadata.namespace and selector.matches(pod.metadata.labels)
        ]
        try:
            expected, desired = plan.expected_pods(budget, pods, self._sizes(budget, pods))
        except UnknownScaleError as error:
            self._context.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", str(error))
            await self._write(budget, plan.failed_status(budget, str(error)))
            return
        by_name = {pod.metadata.name: pod for pod in pods}
        pending, stayed, again = self._evicted.pending(budget, by_name, self._context.clock())
        for name in stayed:
            text = f"Pod was expected by PDB {key} to be deleted but it wasn't"
            self._context.recorder.event(by_name[name], "Warning", "NotDeleted", text)
        if again is not None:
            self._queue.add_after(key, again + 0.1)
        status = plan.plan_status(budget, pods, expected=expected, desired=desired, pending=pending)
        await self._write(budget, status)

    def _sizes(self, budget: policy.PodDisruptionBudget, pods: list[core.Pod]) -> dict[str, Size]:
        if not plan.needs_sizes(budget):
            return {}
        found = ((pod.metadata.uid, self._size(pod)) for pod in pods)
        return {uid: size for uid, size in found if size is not None}

    def _size(self, pod: core.Pod) -> Size | None:
        reference = controller_of(pod)
        if reference is None:
            return None
        key = f"{pod.metadata.namespace}/{reference.name}"
        if reference.kind == "ReplicaSet":
            owner = self._sets.get(key)
            parent = controller_of(owner) if owner is not None else None
            if parent is not None and parent.kind == "Deployment":
                deployment = self._deployments.get(f"{pod.metadata.namespace}/{parent.name}")
                return _size_of(deployment, parent.uid)
            return _size_of(owner, reference.uid)
        if reference.kind == "StatefulSet":
            return _size_of(self._stateful.get(key), reference.uid)
        if reference.kind == "ReplicationController":
            return _size_of(self._replication.get(key), reference.uid)
        return None

    async def _write(self, budget: policy.PodDisruptionBudget, status: policy.PodDisruptionBudgetStatus) -> None:
        if plan.same_status(status, budget.status):
            return
        changed = policy.PodDisruptionBudget()
        changed.CopyFrom(budget)
        changed.status.CopyFrom(status)
        try:
            await self._client.update_status(changed)
        except errors.NotFoundError:
            log.debug("budget is gone", extra={"budget": key_of(budget)})


def _selector(budget: policy.PodDisruptionBudget) -> labels.Selector:
    return labels.from_label_selector(budget.spec.selector if budget.spec.HasField("selector") else None)


def _size_of(
    owner: apps.Deployment | apps.ReplicaSet | apps.StatefulSet | core.ReplicationController | None, uid: str
) -> Size | None:
    if owner is None or owner.metadata.uid != uid:
        return None
    return Size(uid, owner.spec.replicas if owner.spec.HasField("replicas") else 1)
