"""Nodes, with what runs on them and how much of them is given away."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from wharfinger.api import times
from wharfinger.api.pods import amounts, effective_limits, effective_requests
from wharfinger.api.quantity import Quantity
from wharfinger.api.tables.nodes import roles
from wharfinger.api.tables.text import age
from wharfinger.api.types import coordination, core
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, node: core.Node, out: Layout) -> None:
    """Write everything about a node."""
    common.head(out, node, namespaced=False)
    out.field(0, "Roles", ",".join(roles(node)) or common.NONE)
    common.labels_and_annotations(out, node.metadata)
    out.field(0, "CreationTimestamp", common.moment(node.metadata.creationTimestamp))
    common.deletion(out, node.metadata)
    out.multi(0, "Taints", [_taint(one) for one in node.spec.taints])
    out.field(0, "Unschedulable", str(bool(node.spec.unschedulable)).lower())
    await _lease(client, node, out)
    common.conditions(out, node.status.conditions, wide=True)
    out.line(0, "Addresses:")
    for address in node.status.addresses:
        out.field(1, address.type, address.address)
    for name, values in (("Capacity", node.status.capacity), ("Allocatable", node.status.allocatable)):
        common.resources(out, 0, name, values)
    info = node.status.nodeInfo
    out.line(0, "System Info:")
    for name, value in (
        ("Machine ID", info.machineID), ("System UUID", info.systemUUID), ("Boot ID", info.bootID),
        ("Kernel Version", info.kernelVersion), ("OS Image", info.osImage),
        ("Operating System", info.operatingSystem), ("Architecture", info.architecture),
        ("Container Runtime Version", info.containerRuntimeVersion), ("Kubelet Version", info.kubeletVersion),
    ):  # fmt: skip
        out.field(1, name, value)
    if node.spec.podCIDR:
        out.field(0, "PodCIDR", node.spec.podCIDR)
    listed = await client.resource(core.Pod).list(field_selector=f"spec.nodeName={node.metadata.name}")
    pods = [pod for pod in listed.items if pod.status.phase not in ("Succeeded", "Failed")]
    _pods(out, node, pods)
    common.events(out, await common.events_of(client, node, "Node"))


def _taint(taint: core.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


async def _lease(client: Client, node: core.Node, out: Layout) -> None:
    from wharfinger.api.errors import ForbiddenError, NotFoundError

    out.line(0, "Lease:")
    try:
        lease = await client.resource(coordination.Lease).get(node.metadata.name, namespace="kube-node-lease")
    except (NotFoundError, ForbiddenError) as error:
        out.line(1, f"not known: {error.message}")
        return
    out.field(1, "HolderIdentity", lease.spec.holderIdentity or "<unset>")
    out.field(1, "AcquireTime", common.moment(lease.spec.acquireTime))
    renewed = common.moment(lease.spec.renewTime)
    if not times.is_zero(lease.spec.renewTime):
        renewed += f" ({max(time.time() - lease.spec.renewTime.seconds, 0):.0f}s ago by this host's clock)"
    out.field(1, "RenewTime", renewed)


def _share(used: int, all_: int) -> str:
    return f"{used * 100 // all_}%" if all_ else "0%"


def _pods(out: Layout, node: core.Node, pods: list[core.Pod]) -> None:
    now = time.time()
    allocatable = amounts(node.status.allocatable)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    out.line(0, "Non-terminated Pods:", f"({len(pods)} in total)")
    out.line(1, "Namespace", "Name", "CPU Requests", "CPU Limits", "Memory Requests", "Memory Limits", "Age")
    out.line(1, "---------", "----", "------------", "----------", "---------------", "-------------", "---")
    for pod in sorted(pods, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        needed, capped = effective_requests(pod), effective_limits(pod)
        for totals, found in ((requests, needed), (limits, capped)):
            for name, value in found.items():
                totals[name] = totals.get(name, 0) + value
        cells = [
            _cell(name, found.get(name, 0), allocatable) for name in ("cpu", "memory") for found in (needed, capped)
        ]
        out.line(1, pod.metadata.namespace, pod.metadata.name, *cells, age(pod, now))
    out.line(0, "Allocated resources:")
    out.line(1, "(Total limits may be over 100 percent, i.e., overcommitted.)")
    out.line(1, "Resource", "Requests", "Limits")
    out.line(1, "--------", "--------", "------")
    usual = ["cpu", "memory", "ephemeral-storage"]
    for name in [*usual, *sorted((set(requests) | set(limits)) - {*usual, "pods"})]:
        out.line(1, name, *(_cell(name, totals.get(name, 0), allocatable) for totals in (requests, limits)))


def _cell(name: str, value: int, allocatable: Mapping[str, int]) -> str:
    shown = Quantity.of_milli(value) if name == "cpu" else Quantity.of(value, "BinarySI")
    return f"{shown} ({_share(value, allocatable.get(name, 0))})"
