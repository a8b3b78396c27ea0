"""Keeps the number of pods of every ReplicaSet.

What to do is decided in :mod:`~controlplane.controllers.replicas`; this module looks pods up, writes, and remembers
what it has ordered (:mod:`~controlplane.controllers.expectations`). Two things go beyond Kubernetes: pods are made
over the write stream, and an owner whose pods are refused by nodes (OutOfcpu and the like) waits longer and longer
before it makes the next ones, where Kubernetes makes them for ever as fast as it can (kubernetes/kubernetes#106419).
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from controlplane.controllers import metrics
from controlplane.controllers.context import CONTROLLER_INDEX, Context, namespace_ends, work
from controlplane.controllers.expectations import Expectations
from controlplane.controllers.objects import controller_of, deleting, is_active, is_terminal, key_of
from controlplane.controllers.replicas import (
    RejectionBackoff,
    batches,
    claim,
    next_available_in,
    plan_replicas,
    plan_status,
    pod_name_prefix,
    same_status,
)
from wharfinger.api import errors, labels
from wharfinger.api.types import apps, core, meta

log = logging.getLogger(__name__)

KIND = "ReplicaSet"


class ReplicaSetController:
    """See the module."""

    name = "replicaset"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sets = context.informers.of(apps.ReplicaSet)
        self._pods = context.informers.of(core.Pod)
        self._client = context.client.resource(apps.ReplicaSet)
        self._writer = context.client.writer()
        self._queue = context.queue(self.name)
        self._expected = Expectations()
        self._rejections: dict[str, RejectionBackoff] = {}
        self._selectors: dict[str, tuple[bytes, labels.Selector]] = {}

    async def run(self) -> None:
        """Watch and sync."""
        self._sets.add_handler(
            on_add=lambda owner: self._queue.add(key_of(owner)),
            on_update=self._set_changed,
            on_delete=self._set_gone,
        )
        self._pods.add_handler(on_add=self._pod_added, on_update=self._pod_changed, on_delete=self._pod_gone)
        try:
            workers = self._context.options.concurrent_replicaset_syncs
            await work(self._queue, self._sync, workers=workers, name=self.name)
        finally:
            await self._writer.close()

    # --- what is seen

    def _set_changed(self, old: apps.ReplicaSet, new: apps.ReplicaSet) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._forget(key_of(old))
        self._queue.add(key_of(new))

    def _set_gone(self, owner: apps.ReplicaSet) -> None:
        self._forget(key_of(owner))
        self._queue.add(key_of(owner))

    def _forget(self, key: str) -> None:
        self._expected.forget(key)
        self._rejections.pop(key, None)
        self._selectors.pop(key, None)

    def _pod_added(self, pod: core.Pod) -> None:
        if deleting(pod):
            self._pod_gone(pod)
            return
        if (key := self._owner_key(pod)) is not None:
            self._expected.pod_seen(key, pod.metadata.uid)
            self._queue.add(key)
        elif controller_of(pod) is None:
            self._orphan(pod)

    def _pod_changed(self, old: core.Pod, new: core.Pod) -> None:
        before, key = self._owner_key(old), self._owner_key(new)
        if before is not None and before != key:
            self._queue.add(before)
        if deleting(new):
            self._pod_gone(new)
            return
        if key is not None:
            if before == key and _alike(old, new):
                return
            self._expected.pod_seen(key, new.metadata.uid)
            self._queue.add(key)
        elif controller_of(new) is None and (before is not None or old.metadata.labels != new.metadata.labels):
            self._orphan(new)

    def _pod_gone(self, pod: core.Pod) -> None:
        if (key := self._owner_key(pod)) is not None:
            self._expected.pod_going(key, pod.metadata.uid)
            self._queue.add(key)

    def _owner_key(self, pod: core.Pod) -> str | None:
        reference = controller_of(pod)
        if reference is None or reference.kind != KIND or not reference.apiVersion.startswith("apps/"):
            return None
        return f"{pod.metadata.namespace}/{reference.name}"

    def _orphan(self, pod: core.Pod) -> None:
        if not pod.metadata.labels:
            return
        for owner in self._sets.items():
            if owner.metadata.namespace == pod.metadata.namespace and self._selector(owner).matches(
                pod.metadata.labels
            ):
                self._queue.add(key_of(owner))

    def _selector(self, owner: apps.ReplicaSet) -> labels.Selector:
        key, form = key_of(owner), owner.spec.selector.SerializeToString(deterministic=True)
        known = self._selectors.get(key)
        if known is None or known[0] != form:
            known = self._selectors[key] = (form, labels.from_label_selector(owner.spec.selector))
        return known[1]

    # --- syncing

    async def _sync(self, key: str) -> None:
        owner = self._sets.get(key)
        if owner is None:
            self._forget(key)
            return
        satisfied = self._expected.satisfied(key, self._context.clock())
        pods = await self._claim(owner)
        failure: tuple[str, str] | None = None
        error: errors.StatusError | None = None
        if satisfied and not deleting(owner):
            failure, error = await self._manage(key, owner, pods)
        await self._write_status(key, owner, pods, failure)
        if error is not None:
            raise error

    async def _claim(self, owner: apps.ReplicaSet) -> list[core.Pod]:
        selector, uid = self._selector(owner), owner.metadata.uid
        candidates = [
            *self._pods.by_index(CONTROLLER_INDEX, uid),
            *self._pods.by_index(CONTROLLER_INDEX, f"orphans/{owner.metadata.namespace}"),
        ]
        ours: list[core.Pod] = []
        may_adopt: bool | None = None
        for pod in candidates:
            verdict = claim(pod, owner_uid=uid, owner_deleting=deleting(owner), selector=selector)
            if verdict == "ours":
                ours.append(pod)
            elif verdict == "release" and not is_terminal(pod):
                await self._release(owner, pod)
            elif verdict == "adopt" and not is_terminal(pod):
                if may_adopt is None:
                    may_adopt = await self._may_adopt(owner)
                if may_adopt and await self._adopt(owner, pod):
                    ours.append(pod)
        return ours

    async def _may_adopt(self, owner: apps.ReplicaSet) -> bool:
        # Read afresh: a ReplicaSet that is gone or made anew must not take pods.
        live = await self._client.get(owner.metadata.name, namespace=owner.metadata.namespace)
        return live.metadata.uid == owner.metadata.uid and not deleting(live)

    async def _adopt(self, owner: apps.ReplicaSet, pod: core.Pod) -> bool:
        reference = owner_reference(owner)
        patch = {
            "metadata": {
                "uid": pod.metadata.uid,
                "ownerReferences": [
                    {
                        "apiVersion": reference.apiVersion,
                        "kind": reference.kind,
                        "name": reference.name,
                        "uid": reference.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            }
        }
        if not await self._patch(pod, patch):
            return False
        log.info("adopted a pod", extra={"replicaset": key_of(owner), "pod": key_of(pod)})
        return True

    async def _release(self, owner: apps.ReplicaSet, pod: core.Pod) -> None:
        patch = {
            "metadata": {
                "uid": pod.metadata.uid,
                "ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}],
            }
        }
        if await self._patch(pod, patch):
            log.info("released a pod", extra={"replicaset": key_of(owner), "pod": key_of(pod)})

    async def _patch(self, pod: core.Pod, patch: dict[str, Any]) -> bool:
        metadata = pod.metadata
        try:
            await self._writer.patch(
                core.Pod,
                metadata.name,
                patch=patch,
                patch_type="strategic",
                namespace=metadata.namespace,
                brief=True,
            )
        except (errors.NotFoundError, errors.InvalidError) as error:
            log.debug("pod changed hands meanwhile", extra={"pod": key_of(pod), "error": str(error)})
            return False
        return True

    async def _manage(
        self, key: str, owner: apps.ReplicaSet, pods: list[core.Pod]
    ) -> tuple[tuple[str, str] | None, errors.StatusError | None]:
        """Create or delete; return (reason, message) of a failure with its error."""
        wanted = owner.spec.replicas if owner.spec.HasField("replicas") else 1
        plan = plan_replicas(pods, wanted=wanted, related=self._related(owner), now=time.time())
        if plan.create:
            backoff = self._rejections.setdefault(key, RejectionBackoff())
            now = self._context.clock()
            backoff.observe(pods, now)
            if wait := backoff.remaining(now):
                log.info(
                    "nodes refuse this owner's pods, waiting", extra={"replicaset": key, "seconds": round(wait, 1)}
                )
                self._queue.add_after(key, wait)
                return None, None
            error = await self._create(key, owner, plan.create)
            return (("FailedCreate", str(error)) if error else None), error
        if plan.delete:
            error = await self._delete(key, owner, list(plan.delete))
            return (("FailedDelete", str(error)) if error else None), error
        return None, None

    def _related(self, owner: apps.ReplicaSet) -> list[core.Pod]:
        parent = controller_of(owner)
        if parent is None:
            return self._pods.by_index(CONTROLLER_INDEX, owner.metadata.uid)
        return [
            pod
            for sibling in self._sets.by_index(CONTROLLER_INDEX, parent.uid)
            for pod in self._pods.by_index(CONTROLLER_INDEX, sibling.metadata.uid)
        ]

    async def _create(self, key: str, owner: apps.ReplicaSet, count: int) -> errors.StatusError | None:
        self._expected.expect_creates(key, count, self._context.clock())
        left = count
        for size in batches(count):
            outcomes = await asyncio.gather(*(self._create_one(key, owner) for _ in range(size)))
            left -= size
            failures = [error for error in outcomes if error is not None]
            if failures:
                for _ in range(left):
                    self._expected.create_answered(key, "")
                return None if namespace_ends(failures[0]) else failures[0]
        return None

    async def _create_one(self, key: str, owner: apps.ReplicaSet) -> errors.StatusError | None:
        try:
            pod = await self._writer.create(pod_from(owner), brief=True)
        except errors.StatusError as error:
            self._expected.create_answered(key, "")
            if isinstance(error, (errors.ServiceUnavailableError, errors.TimeoutError_)):
                # It may have happened. The watch shows it if so; the retry comes after its back-off.
                log.debug("create without an answer", extra={"replicaset": key})
            if not namespace_ends(error):
                self._context.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            return error
        self._expected.create_answered(key, pod.metadata.uid)
        metrics.REPLICA_CHANGES.labels("create").inc()
        log.info("created a pod", extra={"replicaset": key, "pod": pod.metadata.name})
        self._context.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        if self._pods.get(key_of(pod)) is not None:
            self._expected.pod_seen(key, pod.metadata.uid)
        return None

    async def _delete(self, key: str, owner: apps.ReplicaSet, pods: list[core.Pod]) -> errors.StatusError | None:
        self._expected.expect_deletes(key, [pod.metadata.uid for pod in pods], self._context.clock())
        outcomes = await asyncio.gather(*(self._delete_one(key, owner, pod) for pod in pods))
        return next((error for error in outcomes if error is not None), None)

    async def _delete_one(self, key: str, owner: apps.ReplicaSet, pod: core.Pod) -> errors.StatusError | None:
        metadata = pod.metadata
        try:
            await self._writer.delete(core.Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except errors.StatusError as error:
            self._expected.pod_going(key, metadata.uid)
            if isinstance(error, errors.NotFoundError):
                return None
            self._context.recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            return error
        metrics.REPLICA_CHANGES.labels("delete").inc()
        log.info("deleted a pod", extra={"replicaset": key, "pod": key_of(pod)})
        self._context.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata.name}")
        return None

    async def _write_status(
        self, key: str, owner: apps.ReplicaSet, pods: list[core.Pod], failure: tuple[str, str] | None
    ) -> None:
        now = time.time()
        active = [pod for pod in pods if is_active(pod)]
        terminating = sum(deleting(pod) and not is_terminal(pod) for pod in pods)
        status = plan_status(owner, active, terminating=terminating, failure=failure, now=now)
        wait = next_available_in(active, min_ready_seconds=owner.spec.minReadySeconds, now=now)
        if wait is not None:
            self._queue.add_after(key, wait + 0.05)
        if same_status(status, owner.status):
            return
        changed = apps.ReplicaSet()
        changed.CopyFrom(owner)
        changed.status.CopyFrom(status)
        try:
            await self._client.update_status(changed)
        except errors.NotFoundError:
            return


def _alike(old: core.Pod, new: core.Pod) -> bool:
    """Whether nothing changed that an owner looks at."""
    return bool(
        old.status.phase == new.status.phase
        and old.status.reason == new.status.reason
        and old.metadata.labels == new.metadata.labels
        and old.metadata.ownerReferences == new.metadata.ownerReferences
        and _ready_condition(old) == _ready_condition(new)
    )


def _ready_condition(pod: core.Pod) -> tuple[str, int]:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status, condition.lastTransitionTime.seconds
    return "", 0


def owner_reference(owner: apps.ReplicaSet) -> meta.OwnerReference:
    """Return the reference that the set's pods carry."""
    return meta.OwnerReference(
        apiVersion="apps/v1",
        kind=KIND,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def pod_from(owner: apps.ReplicaSet) -> core.Pod:
    """Return a new pod from the set's template."""
    template = owner.spec.template
    pod = core.Pod(spec=template.spec)
    metadata = pod.metadata
    metadata.namespace = owner.metadata.namespace
    metadata.generateName = pod_name_prefix(owner.metadata.name)
    metadata.labels.update(template.metadata.labels)
    metadata.annotations.update(template.metadata.annotations)
    metadata.finalizers.extend(template.metadata.finalizers)
    metadata.ownerReferences.append(owner_reference(owner))
    return pod
