"""The Node object as its agent keeps it: what it registers, and the status that it reports. Pure.

https://kubernetes.io/docs/reference/node/node-status/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nodeagent.machine import Machine, Usage
from nodeagent.runtime import ImageRecord, RuntimeStatus, RuntimeVersion
from wharfinger.api.quantity import Quantity
from wharfinger.api.quantity import parse as parse_quantity
from wharfinger.api.types import core, meta
from wharfinger.version import git_version

KUBELET_VERSION = git_version()
MAX_IMAGES = 50
MEMORY_PRESSURE_BYTES = 100 * 1024 * 1024
DISK_PRESSURE_SHARE = 0.1
PID_PRESSURE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What flags say about the node."""

    name: str
    addresses: Sequence[str]
    port: int = 10250
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[core.Taint] = ()
    max_pods: int = 110
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Amounts to report instead of, or beside, what the machine has."""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """Amounts kept for the system: allocatable is capacity less these."""


def new_node(settings: NodeSettings, machine: Machine) -> core.Node:
    """Return the object that is registered; its status is filled in by :func:`fill_status`."""
    node = core.Node()
    node.metadata.name = settings.name
    for name, value in own_labels(settings, machine).items():
        node.metadata.labels[name] = value
    node.metadata.annotations["volumes.kubernetes.io/controller-managed-attach-detach"] = "true"
    node.spec.taints.extend(settings.taints)
    return node


def own_labels(settings: NodeSettings, machine: Machine) -> dict[str, str]:
    """Return the labels that the agent answers for."""
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": settings.name,
        "kubernetes.io/os": "linux",
        **settings.labels,
    }


def capacity(settings: NodeSettings, machine: Machine) -> dict[str, Quantity]:
    """Return what the node has in all."""
    amounts = {
        "cpu": str(machine.cpus),
        "ephemeral-storage": f"{machine.disk // 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{machine.memory // 1024}Ki",
        "pods": str(settings.max_pods),
        **settings.capacity,
    }
    return {name: parse_quantity(text) for name, text in amounts.items()}


def allocatable(settings: NodeSettings, machine: Machine) -> dict[str, Quantity]:
    """Return what pods may ask for."""
    amounts = capacity(settings, machine)
    for name, text in settings.reserved.items():
        if name in amounts:
            amounts[name] = max(amounts[name] - parse_quantity(text), Quantity(0, amounts[name].format))
    return amounts


def fill_status(
    node: core.Node,
    settings: NodeSettings,
    machine: Machine,
    *,
    usage: Usage | None,
    version: RuntimeVersion,
    runtime: RuntimeStatus,
    images: Iterable[ImageRecord],
    now: float,
) -> None:
    """Bring a node's status up to date; conditions keep their times of change, and others' conditions stay."""
    status = node.status
    for amounts, values in (
        (status.capacity, capacity(settings, machine)),
        (status.allocatable, allocatable(settings, machine)),
    ):
        amounts.clear()
        for name, value in values.items():
            amounts[name].string = str(value)
    del status.addresses[:]
    for address in settings.addresses:
        status.addresses.add(type="InternalIP", address=address)
    status.addresses.add(type="Hostname", address=settings.name)
    status.daemonEndpoints.kubeletEndpoint.Port = settings.port
    info = status.nodeInfo
    info.architecture, info.operatingSystem = machine.architecture, "linux"
    info.kernelVersion, info.osImage = machine.kernel, machine.os_image
    info.machineID, info.systemUUID, info.bootID = machine.machine_id, machine.system_uuid, machine.boot_id
    info.containerRuntimeVersion = f"{version.name}://{version.version}"
    info.kubeletVersion, info.kubeProxyVersion = KUBELET_VERSION, ""
    del status.images[:]
    for image in sorted(images, key=lambda image: -image.size)[:MAX_IMAGES]:
        status.images.add(names=[*image.digests, *image.tags], sizeBytes=image.size)
    _conditions(status, usage=usage, runtime=runtime, now=now)


def _conditions(status: core.NodeStatus, *, usage: Usage | None, runtime: RuntimeStatus, now: float) -> None:
    memory = usage is not None and usage.memory_available < MEMORY_PRESSURE_BYTES
    disk = usage is not None and usage.disk_available < usage.disk_total * DISK_PRESSURE_SHARE
    pids = usage is not None and usage.processes > usage.processes_most * PID_PRESSURE_SHARE
    ready = runtime.ready and runtime.network_ready
    if ready:
        verdict = ("True", "KubeletReady", "the node agent is posting ready status")
    else:
        what = "container runtime network not ready" if runtime.ready else "container runtime is not ready"
        verdict = ("False", "KubeletNotReady", f"{what}: {runtime.reason}: {runtime.message}")
    wanted = {
        "MemoryPressure": _pressure(memory, "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "memory"),
        "DiskPressure": _pressure(disk, "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", "disk space"),
        "PIDPressure": _pressure(pids, "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "process ids"),
        "Ready": verdict,
    }
    known = {condition.type: condition for condition in status.conditions}
    moment = meta.Time(seconds=int(now))
    for kind, (value, reason, message) in wanted.items():
        condition = known.get(kind)
        if condition is None:
            condition = status.conditions.add(type=kind)
        if condition.status != value:
            condition.lastTransitionTime.CopyFrom(moment)
        condition.status, condition.reason, condition.message = value, reason, message
        condition.lastHeartbeatTime.CopyFrom(moment)


def _pressure(holds: bool, bad: str, good: str, what: str) -> tuple[str, str, str]:
    if holds:
        return "True", bad, f"the node is short of {what}"
    return "False", good, f"the node has {what} enough"


def differs(one: core.NodeStatus, other: core.NodeStatus) -> bool:
    """Whether two statuses differ in more than the time when they were looked at."""
    left, right = core.NodeStatus(), core.NodeStatus()
    left.CopyFrom(one)
    right.CopyFrom(other)
    for status in (left, right):
        for condition in status.conditions:
            condition.ClearField("lastHeartbeatTime")
    return left != right
