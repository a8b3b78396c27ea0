"""Whether a pod may be started here: the node's own last word, with kubelet's reasons.

A pod may reach a node past the scheduler (``spec.nodeName`` in the manifest, a Binding by hand), and the scheduler may
have counted on what is no longer so. Pure: a pod, the node, the pods that count → None, or the reason why not.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent.memory import Ending
from wharfinger.api import labels, pods
from wharfinger.api.types import core

SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""Kernel parameters that a pod may set in its own namespaces without harm to others (Kubernetes' safe set)."""


def admit(
    pod: core.Pod, node: core.Node, others: Iterable[core.Pod], *, allowed_sysctls: Iterable[str] = ()
) -> Ending | None:
    """Return why the node refuses the pod; None when it takes it.

    `others` are the pods that take up room already; `allowed_sysctls` are names, or prefixes that end in ``*``, which
    the node allows beyond the safe ones.
    """
    spec = pod.spec
    system = spec.os.name if spec.HasField("os") else ""
    if system and system != "linux":
        return _refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    wanted_os = spec.nodeSelector.get("kubernetes.io/os")
    if wanted_os and wanted_os != node.metadata.labels.get("kubernetes.io/os"):
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return _refusal("PodOSSelectorNodeLabelDoesNotMatch", message)
    unsafe = [one.name for one in spec.securityContext.sysctls if not _sysctl_allowed(one.name, allowed_sysctls)]
    if unsafe:
        return _refusal("SysctlForbidden", f'forbidden sysctl: "{unsafe[0]}" not allowlisted')
    counted = list(others)
    refusal = _resources(pod, node, counted)
    if refusal is None and not matches_node(pod, node):
        refusal = _refusal(
            "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
    if refusal is None and (port := _taken_port(pod, counted)):
        message = f"Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports ({port})"
        refusal = _refusal("NodePorts", message)
    if (
        refusal is None
        and (taint := pods.untolerated(spec.tolerations, node.spec.taints, effects=("NoExecute",))) is not None
    ):
        what = f"{{{taint.key}: {taint.value}}}"
        message = f"Predicate TaintToleration failed: node(s) had taint {what} that it didn't tolerate"
        refusal = _refusal("TaintToleration", message)
    return refusal


def _sysctl_allowed(name: str, allowed: Iterable[str]) -> bool:
    name = name.replace("/", ".")
    if name in SAFE_SYSCTLS:
        return True
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in allowed)


def _refusal(reason: str, message: str) -> Ending:
    return Ending(reason, f"Pod was rejected: {message}", rejected=True)


def _resources(pod: core.Pod, node: core.Node, others: list[core.Pod]) -> Ending | None:
    room = pods.amounts(node.status.allocatable)
    most = room.get("pods", 0)
    if len(others) + 1 > most:
        message = f"Node didn't have enough resource: pods, requested: 1, used: {len(others)}, capacity: {most}"
        return _refusal("OutOfpods", message)
    wanted = {name: amount for name, amount in pods.effective_requests(pod).items() if amount}
    if not wanted:
        return None
    used: dict[str, int] = {}
    for other in others:
        for name, amount in pods.effective_requests(other).items():
            used[name] = used.get(name, 0) + amount
    for name, amount in wanted.items():
        has = room.get(name, 0)
        if used.get(name, 0) + amount > has:
            message = (
                f"Node didn't have enough resource: {name}, requested: {amount}, "
                f"used: {used.get(name, 0)}, capacity: {has}"
            )
            return _refusal(f"OutOf{name}", message)
    return None


def matches_node(pod: core.Pod, node: core.Node) -> bool:
    """Whether the node's labels are those that the pod demands by selector and required affinity."""
    for key, value in pod.spec.nodeSelector.items():
        if node.metadata.labels.get(key) != value:
            return False
    affinity = pod.spec.affinity.nodeAffinity
    if not affinity.HasField("requiredDuringSchedulingIgnoredDuringExecution"):
        return True
    return labels.node_selector_matches(
        affinity.requiredDuringSchedulingIgnoredDuringExecution, dict(node.metadata.labels), node.metadata.name
    )


def _taken_port(pod: core.Pod, others: list[core.Pod]) -> str:
    wanted = list(pods.host_ports(pod))
    if not wanted:
        return ""
    taken = [port for other in others for port in pods.host_ports(other)]
    anywhere = ("", "0.0.0.0")
    for address, protocol, number in wanted:
        for other_address, other_protocol, other_number in taken:
            same_address = address == other_address or address in anywhere or other_address in anywhere
            if same_address and protocol == other_protocol and number == other_number:
                return f"{protocol}/{number}"
    return ""
