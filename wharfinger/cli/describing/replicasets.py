"""ReplicaSets, with the states of their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.tables import text
from wharfinger.api.types import apps, core
from wharfinger.cli.describing import common
from wharfinger.cli.describing.containers import template

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, obj: apps.ReplicaSet, out: Layout) -> None:
    """Write everything about a ReplicaSet."""
    common.head(out, obj)
    selector = text.selector(obj.spec.selector)
    out.field(0, "Selector", selector)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    if owner := common.controlled_by(obj.metadata):
        out.field(0, "Controlled By", owner)
    out.field(0, "Replicas", f"{obj.status.replicas} current / {obj.spec.replicas} desired")
    listed = await client.resource(core.Pod).list(
        namespace=obj.metadata.namespace, label_selector="" if selector == text.NONE else selector
    )
    owned = [pod for pod in listed.items if any(o.uid == obj.metadata.uid for o in pod.metadata.ownerReferences)]
    count = dict.fromkeys(("Running", "Pending", "Succeeded", "Failed"), 0)
    for pod in owned:
        count[pod.status.phase] = count.get(pod.status.phase, 0) + 1
    out.field(
        0, "Pods Status",
        f"{count['Running']} Running / {count['Pending']} Waiting / {count['Succeeded']} Succeeded / "
        f"{count['Failed']} Failed",
    )  # fmt: skip
    template(out, obj.spec.template)
    common.conditions(out, obj.status.conditions)
    common.events(out, await common.events_of(client, obj, "ReplicaSet"))
