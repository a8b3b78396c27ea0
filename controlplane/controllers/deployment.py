"""Rolls Deployments out: from ReplicaSet to ReplicaSet, by their strategy.

Every decision is :mod:`~controlplane.controllers.deployment_plan`'s, every word
:mod:`~controlplane.controllers.deployment_status`'s. A sync makes at most one kind of step (make the
new ReplicaSet, resize some, clean up) and then tells the status; the watch brings the next one. ReplicaSets are
written with the resourceVersion that the step was decided from, so two steps never add up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from controlplane.controllers import deployment_plan as plan
from controlplane.controllers import deployment_status as telling
from controlplane.controllers.context import CONTROLLER_INDEX, Context, work
from controlplane.controllers.deployment_plan import Family, Scale
from controlplane.controllers.objects import condition_of, controller_of, deleting, is_terminal, key_of
from wharfinger.api import errors, labels
from wharfinger.api.types import apps, core

log = logging.getLogger(__name__)

KIND = "Deployment"


class DeploymentController:
    """See the module."""

    name = "deployment"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._deployments = context.informers.of(apps.Deployment)
        self._sets = context.informers.of(apps.ReplicaSet)
        self._pods = context.informers.of(core.Pod)
        self._client = context.client.resource(apps.Deployment)
        self._set_client = context.client.resource(apps.ReplicaSet)
        self._queue = context.queue(self.name)
        self._written: dict[str, int] = {}
        """By uid of a ReplicaSet: the version that our last write gave it, until the watch shows it."""

    async def run(self) -> None:
        """Watch and sync."""
        self._deployments.add_handler(
            on_add=lambda item: self._queue.add(key_of(item)),
            on_update=lambda _, item: self._queue.add(key_of(item)),
            on_delete=lambda item: self._queue.add(key_of(item)),
        )
        self._sets.add_handler(on_add=self._set_changed, on_update=self._set_moved, on_delete=self._set_gone)
        self._pods.add_handler(on_delete=self._pod_gone)
        workers = self._context.options.concurrent_deployment_syncs
        await work(self._queue, self._sync, workers=workers, name=self.name)

    # --- what is seen

    def _set_changed(self, item: apps.ReplicaSet) -> None:
        known = self._written.get(item.metadata.uid)
        if known is not None and int(item.metadata.resourceVersion) >= known:
            del self._written[item.metadata.uid]
        reference = controller_of(item)
        if reference is not None:
            if reference.kind == KIND:
                self._queue.add(f"{item.metadata.namespace}/{reference.name}")
            return
        for deployment in self._deployments.items():
            if deployment.metadata.namespace == item.metadata.namespace and labels.from_label_selector(
                deployment.spec.selector
            ).matches(item.metadata.labels):
                self._queue.add(key_of(deployment))

    def _set_moved(self, old: apps.ReplicaSet, new: apps.ReplicaSet) -> None:
        before = controller_of(old)
        if before is not None and before.kind == KIND and controller_of(new) != before:
            self._queue.add(f"{old.metadata.namespace}/{before.name}")
        self._set_changed(new)

    def _set_gone(self, item: apps.ReplicaSet) -> None:
        self._written.pop(item.metadata.uid, None)
        reference = controller_of(item)
        if reference is not None and reference.kind == KIND:
            self._queue.add(f"{item.metadata.namespace}/{reference.name}")

    def _pod_gone(self, pod: core.Pod) -> None:
        # The last pod of the old revision is gone: a Recreate may go on.
        reference = controller_of(pod)
        owner = self._sets.get(f"{pod.metadata.namespace}/{reference.name}") if reference is not None else None
        if owner is not None:
            self._set_changed(owner)

    # --- syncing

    async def _sync(self, key: str) -> None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        family = plan.sort_out(deployment, await self._claim(deployment))
        if any(item.metadata.uid in self._written for item in family.all):
            return  # the watch is about to show what we wrote last, and brings us back
        if deleting(deployment):
            await self._write_status(key, family, telling.plan_status(family, now=time.time()))
            return
        if await self._tell_pause(deployment):
            return
        if deployment.spec.paused or plan.needs_scaling(family):
            await self._apply(family, plan.plan_scaling(family))
            if deployment.spec.paused:
                await self._clean_up(family)
            await self._write_status(key, family, telling.plan_status(family, now=time.time()))
            return
        await self._roll_out(key, family)

    async def _roll_out(self, key: str, family: Family) -> None:
        deployment = family.deployment
        if plan.is_rolling(deployment):
            if await self._ensure_new(family):
                await self._apply(family, plan.plan_rolling(family))
        else:
            old = [Scale(item, 0) for item in family.old if item.spec.replicas > 0]
            if old:
                await self._apply(family, old)
            elif not self._old_pods(family) and await self._ensure_new(family) and family.new is not None:
                await self._apply(family, [Scale(family.new, plan.wanted(deployment))])
        now = time.time()
        status = telling.plan_status(family, now=now)
        wait = telling.judge_progress(family, status, now=now)
        if wait is not None:
            self._queue.add_after(key, wait)
        if telling.is_complete(deployment, status):
            await self._clean_up(family)
        await self._write_status(key, family, status)

    def _old_pods(self, family: Family) -> bool:
        return any(
            not is_terminal(pod)
            for item in family.old
            for pod in self._pods.by_index(CONTROLLER_INDEX, item.metadata.uid)
        )

    async def _claim(self, deployment: apps.Deployment) -> list[apps.ReplicaSet]:
        selector = labels.from_label_selector(deployment.spec.selector)
        metadata = deployment.metadata
        ours: list[apps.ReplicaSet] = []
        for item in self._sets.by_index(CONTROLLER_INDEX, metadata.uid):
            if selector.matches(item.metadata.labels):
                ours.append(item)
            elif not deleting(deployment):
                references = [{"$patch": "delete", "uid": metadata.uid}]
                await self._patch(item, {"metadata": {"uid": item.metadata.uid, "ownerReferences": references}})
        if deleting(deployment):
            return ours
        for item in self._sets.by_index(CONTROLLER_INDEX, f"orphans/{metadata.namespace}"):
            if deleting(item) or not selector.matches(item.metadata.labels):
                continue
            live = await self._client.get(metadata.name, namespace=metadata.namespace)
            if live.metadata.uid != metadata.uid or deleting(live):
                break
            reference = {
                "apiVersion": "apps/v1", "kind": KIND, "name": metadata.name, "uid": metadata.uid,
                "controller": True, "blockOwnerDeletion": True,
            }  # fmt: skip
            patch = {"metadata": {"uid": item.metadata.uid, "ownerReferences": [reference]}}
            adopted = await self._patch(item, patch)
            if adopted is not None:
                log.info("adopted a ReplicaSet", extra={"deployment": key_of(deployment), "replicaset": key_of(item)})
                ours.append(adopted)
        return ours

    async def _patch(self, item: apps.ReplicaSet, patch: Mapping[str, Any]) -> apps.ReplicaSet | None:
        metadata = item.metadata
        try:
            return await self._set_client.patch(
                metadata.name, patch=patch, patch_type="strategic", namespace=metadata.namespace
            )
        except (errors.NotFoundError, errors.InvalidError) as error:
            log.debug("ReplicaSet changed hands meanwhile", extra={"replicaset": key_of(item), "error": str(error)})
            return None

    # --- steps

    async def _ensure_new(self, family: Family) -> bool:
        """Make the present ReplicaSet or bring it up to date; return whether sizes may be planned in this sync."""
        if family.new is None:
            await self._create_new(family)
            return False
        deployment = family.deployment
        copy = apps.ReplicaSet()
        copy.CopyFrom(family.new)
        if plan.annotate_new(copy, family):
            family.new = await self._update_set(copy)
        revision = family.new.metadata.annotations.get(plan.REVISION, "")
        if deployment.metadata.annotations.get(plan.REVISION) != revision:
            await self._note_revision(family, revision)
        return True

    async def _note_revision(self, family: Family, revision: str) -> None:
        metadata = family.deployment.metadata
        patch = {"metadata": {"uid": metadata.uid, "annotations": {plan.REVISION: revision}}}
        family.deployment = await self._client.patch(metadata.name, patch=patch, namespace=metadata.namespace)

    async def _create_new(self, family: Family) -> None:
        deployment = family.deployment
        made = plan.new_replicaset(family)
        try:
            created = await self._set_client.create(made)
        except errors.AlreadyExistsError:
            await self._settle_collision(family, made)
            return
        except errors.StatusError as error:
            text = f'Failed to create new replica set "{made.metadata.name}": {error}'
            self._context.recorder.event(deployment, "Warning", "ReplicaSetCreateError", text)
            raise
        self._remember(created)
        family.new = created
        log.info(
            "created a ReplicaSet",
            extra={"deployment": key_of(deployment), "replicaset": created.metadata.name, "size": made.spec.replicas},
        )
        if made.spec.replicas:
            text = f"Scaled up replica set {made.metadata.name} from 0 to {made.spec.replicas}"
            self._context.recorder.event(deployment, "Normal", "ScalingReplicaSet", text)
        await self._note_revision(family, created.metadata.annotations[plan.REVISION])

    async def _settle_collision(self, family: Family, made: apps.ReplicaSet) -> None:
        """The name is taken: by our own earlier write, or by a template of the same hash."""
        metadata = family.deployment.metadata
        there = await self._set_client.get(made.metadata.name, namespace=metadata.namespace)
        owner = controller_of(there)
        ours = owner is not None and owner.uid == metadata.uid
        if ours and plan.bare_template(there.spec.template) == plan.bare_template(made.spec.template):
            self._remember(there)
            return
        changed = apps.Deployment()
        changed.CopyFrom(family.deployment)
        changed.status.collisionCount += 1
        await self._client.update_status(changed)
        log.info("the ReplicaSet's name is taken, choosing another", extra={"deployment": key_of(changed)})

    async def _apply(self, family: Family, scales: list[Scale]) -> None:
        for scale in scales:
            before, deployment = scale.replicaset, family.deployment
            changed = plan.resized(before, deployment, scale.replicas)
            if changed == before:
                continue
            after = await self._update_set(changed)
            family.old = [after if item is before else item for item in family.old]
            family.new = after if family.new is before else family.new
            if scale.replicas == before.spec.replicas:
                continue
            way = "up" if scale.replicas > before.spec.replicas else "down"
            name = before.metadata.name
            text = f"Scaled {way} replica set {name} from {before.spec.replicas} to {scale.replicas}"
            log.info("scaled", extra={"deployment": key_of(deployment), "replicaset": name, "size": scale.replicas})
            self._context.recorder.event(deployment, "Normal", "ScalingReplicaSet", text)

    async def _update_set(self, changed: apps.ReplicaSet) -> apps.ReplicaSet:
        after = await self._set_client.update(changed)
        self._remember(after)
        return after

    def _remember(self, item: apps.ReplicaSet) -> None:
        shown = self._sets.get(key_of(item))
        version = int(item.metadata.resourceVersion)
        if shown is None or int(shown.metadata.resourceVersion) < version:
            self._written[item.metadata.uid] = version

    async def _clean_up(self, family: Family) -> None:
        for item in plan.surplus_history(family):
            metadata = item.metadata
            try:
                await self._set_client.delete(
                    metadata.name, namespace=metadata.namespace, uid=metadata.uid, propagation_policy="Background"
                )
            except errors.NotFoundError:
                continue
            log.info("removed an old revision", extra={"replicaset": key_of(item)})

    async def _tell_pause(self, deployment: apps.Deployment) -> bool:
        """Note a pause or its end in the Progressing condition, so that the deadline does not run meanwhile."""
        if not telling.has_deadline(deployment):
            return False
        present = condition_of(deployment.status.conditions, "Progressing")
        if present is not None and present.reason == "ProgressDeadlineExceeded":
            return False
        told = present is not None and present.reason == "DeploymentPaused"
        if told == deployment.spec.paused:
            return False
        changed = apps.Deployment()
        changed.CopyFrom(deployment)
        reason = "DeploymentPaused" if deployment.spec.paused else "DeploymentResumed"
        text = "Deployment is paused" if deployment.spec.paused else "Deployment is resumed"
        telling.set_condition(changed.status, "Progressing", "Unknown", reason, text, now=time.time())
        await self._client.update_status(changed)
        return True  # the change brings us back

    async def _write_status(self, key: str, family: Family, status: apps.DeploymentStatus) -> None:
        if telling.same_status(status, family.deployment.status):
            return
        changed = apps.Deployment()
        changed.CopyFrom(family.deployment)
        changed.status.CopyFrom(status)
        try:
            await self._client.update_status(changed)
        except errors.NotFoundError:
            log.debug("deployment is gone", extra={"deployment": key})
