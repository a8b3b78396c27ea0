"""Nodes: Ready or not, and the roles that labels give them."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import core

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def status(node: core.Node) -> str:
    """Return ``Ready``, ``NotReady`` or ``Unknown``, with ``,SchedulingDisabled`` when cordoned."""
    word = "Unknown"
    for condition in node.status.conditions:
        if condition.type == "Ready":
            word = "Ready" if condition.status == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if node.spec.unschedulable else word


def roles(node: core.Node) -> list[str]:
    """Return the node's roles, sorted."""
    found = set()
    for key, value in node.metadata.labels.items():
        if key.startswith(_ROLE_PREFIX) and len(key) > len(_ROLE_PREFIX):
            found.add(key[len(_ROLE_PREFIX) :])
        elif key == _ROLE and value:
            found.add(value)
    return sorted(found)


def address(node: core.Node, kind: str) -> str:
    """Return the node's first address of a kind (``InternalIP``)."""
    return next((entry.address for entry in node.status.addresses if entry.type == kind), text.NONE)


def _row(node: core.Node, now: float) -> list[Cell]:
    info = node.status.nodeInfo
    kernel = info.kernelVersion
    return [
        node.metadata.name,
        status(node),
        text.joined(roles(node), empty=text.NONE),
        text.age(node, now),
        info.kubeletVersion,
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        info.osImage or text.UNKNOWN,
        (f"{kernel} ({info.architecture})" if info.architecture else kernel) or text.UNKNOWN,
        info.containerRuntimeVersion or text.UNKNOWN,
    ]


TABLE = Table(
    (
        NAME,
        Column("Status", description="Whether the node is ready, and whether pods may be scheduled to it."),
        Column("Roles", description="The node's roles, from its labels."),
        AGE,
        Column("Version", description="Version of the node agent."),
        Column("Internal-IP", priority=1, description="Address inside the cluster's network."),
        Column("External-IP", priority=1, description="Address outside of it."),
        Column("OS-Image", priority=1, description="The operating system."),
        Column("Kernel-Version", priority=1, description="The kernel."),
        Column("Container-Runtime", priority=1, description="The container runtime and its version."),
    ),
    _row,
)
