"""Deployments, with their ReplicaSets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.tables import text
from wharfinger.api.types import apps
from wharfinger.cli.describing import common
from wharfinger.cli.describing.containers import template

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client

_REVISION = "deployment.kubernetes.io/revision"


async def describe(client: Client, obj: apps.Deployment, out: Layout) -> None:
    """Write everything about a Deployment."""
    spec, status = obj.spec, obj.status
    selector = text.selector(spec.selector)
    common.head(out, obj)
    out.field(0, "CreationTimestamp", common.moment(obj.metadata.creationTimestamp))
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    out.field(0, "Selector", selector)
    out.field(
        0, "Replicas",
        f"{spec.replicas} desired | {status.updatedReplicas} updated | {status.replicas} total | "
        f"{status.availableReplicas} available | {status.unavailableReplicas} unavailable",
    )  # fmt: skip
    out.field(0, "StrategyType", spec.strategy.type)
    out.field(0, "MinReadySeconds", spec.minReadySeconds)
    if spec.strategy.HasField("rollingUpdate"):
        rolling = spec.strategy.rollingUpdate
        out.field(
            0, "RollingUpdateStrategy",
            f"{text.int_or_string(rolling.maxUnavailable)} max unavailable, "
            f"{text.int_or_string(rolling.maxSurge)} max surge",
        )  # fmt: skip
    template(out, spec.template)
    common.conditions(out, status.conditions)
    listed = await client.resource(apps.ReplicaSet).list(
        namespace=obj.metadata.namespace, label_selector="" if selector == text.NONE else selector
    )
    owned = [one for one in listed.items if any(o.uid == obj.metadata.uid for o in one.metadata.ownerReferences)]
    newest = obj.metadata.annotations.get(_REVISION, "")
    old = [one for one in owned if one.metadata.annotations.get(_REVISION, "") != newest]
    new = [one for one in owned if one.metadata.annotations.get(_REVISION, "") == newest]
    for name, found in (("OldReplicaSets", old), ("NewReplicaSet", new)):
        out.field(0, name, ", ".join(_created(one) for one in found) or common.NONE)
    common.events(out, await common.events_of(client, obj, "Deployment"))


def _created(one: apps.ReplicaSet) -> str:
    return f"{one.metadata.name} ({one.status.replicas}/{one.spec.replicas} replicas created)"
