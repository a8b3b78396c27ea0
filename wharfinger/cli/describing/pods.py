"""Pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.api import times
from wharfinger.api.types import core
from wharfinger.cli.describing import common
from wharfinger.cli.describing.containers import containers, volumes

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


def toleration(one: core.Toleration) -> str:
    """Write a toleration: ``key=value:Effect op=Exists for 300s``."""
    text = one.key
    if one.value:
        text += f"={one.value}"
    if one.effect:
        text += f":{one.effect}"
    if one.operator == "Exists" and not one.value:
        text += " op=Exists" if one.key or one.effect else "op=Exists"
    if one.HasField("tolerationSeconds"):
        text += f" for {one.tolerationSeconds}s"
    return text


async def describe(client: Client, pod: core.Pod, out: Layout) -> None:
    """Write everything about a pod."""
    spec, status = pod.spec, pod.status
    common.head(out, pod)
    out.field(0, "Priority", spec.priority)
    if spec.priorityClassName:
        out.field(0, "Priority Class Name", spec.priorityClassName)
    if spec.runtimeClassName:
        out.field(0, "Runtime Class Name", spec.runtimeClassName)
    if spec.serviceAccountName:
        out.field(0, "Service Account", spec.serviceAccountName)
    out.field(0, "Node", f"{spec.nodeName}/{status.hostIP}" if spec.nodeName else common.NONE)
    if not times.is_zero(status.startTime):
        out.field(0, "Start Time", common.moment(status.startTime))
    common.labels_and_annotations(out, pod.metadata)
    if pod.metadata.HasField("deletionTimestamp"):
        common.deletion(out, pod.metadata)
    else:
        out.field(0, "Status", status.phase)
    if status.reason:
        out.field(0, "Reason", status.reason)
    if status.message:
        out.field(0, "Message", status.message)
    out.field(0, "IP", status.podIP)
    if not status.podIPs:
        out.field(0, "IPs", common.NONE)
    else:
        out.line(0, "IPs:")
        for address in status.podIPs:
            out.field(1, "IP", address.ip)
    if owner := common.controlled_by(pod.metadata):
        out.field(0, "Controlled By", owner)
    if status.nominatedNodeName:
        out.field(0, "NominatedNodeName", status.nominatedNodeName)
    guests = [one.ephemeralContainerCommon for one in spec.ephemeralContainers]
    containers(out, "Init Containers", spec.initContainers, statuses=_by_name(status.initContainerStatuses))
    containers(out, "Containers", spec.containers, statuses=_by_name(status.containerStatuses))
    containers(out, "Ephemeral Containers", guests, statuses=_by_name(status.ephemeralContainerStatuses))
    if spec.readinessGates:
        true = {one.type: one.status for one in status.conditions}
        out.line(0, "Readiness Gates:")
        out.line(1, "Type", "Status")
        for gate in spec.readinessGates:
            out.line(1, gate.conditionType, true.get(gate.conditionType, common.NONE))
    common.conditions(out, status.conditions)
    volumes(out, spec.volumes)
    if status.qosClass:
        out.field(0, "QoS Class", status.qosClass)
    out.mapping(0, "Node-Selectors", spec.nodeSelector)
    out.multi(0, "Tolerations", [toleration(one) for one in spec.tolerations])
    common.events(out, await common.events_of(client, pod, "Pod"))


def _by_name(states: Sequence[core.ContainerStatus]) -> dict[str, core.ContainerStatus] | None:
    if not states:
        return None
    return {one.name: one for one in states}
