"""The flags of the controller-manager: kube-controller-manager's names and defaults where they exist."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from wharfinger.daemon import flags

CONTROLLERS = (
    "node-lifecycle",
    "taint-eviction",
    "replicaset",
    "deployment",
    "disruption",
    "garbage-collector",
    "namespace",
    "pod-garbage-collector",
    "serviceaccount",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-cleaner-controller",
    "token-cleaner-controller",
)
"""Names as ``--controllers`` takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that can be set; durations in seconds."""

    kubeconfig: str | None = None
    context: str | None = None
    controllers: tuple[str, ...] = ("*",)
    bind_address: str = "127.0.0.1"
    secure_port: int = 10257
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None
    client_ca_file: str | None = None
    root_ca_file: str | None = None
    service_account_private_key_file: str | None = None
    cluster_signing_cert_file: str | None = None
    cluster_signing_key_file: str | None = None
    cluster_signing_duration: float = 365 * 86_400.0
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"

    leader_elect: bool = True
    leader_elect_lease_duration: float = 15.0
    leader_elect_renew_deadline: float = 10.0
    leader_elect_retry_period: float = 2.0
    leader_elect_resource_name: str = "kube-controller-manager"
    leader_elect_resource_namespace: str = "kube-system"

    node_monitor_period: float = 5.0
    node_monitor_grace_period: float = 40.0
    node_startup_grace_period: float = 60.0
    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    unhealthy_zone_threshold: float = 0.55
    large_cluster_size_threshold: int = 50

    terminated_pod_gc_threshold: int = 12500
    enable_garbage_collector: bool = True

    concurrent_replicaset_syncs: int = 5
    concurrent_deployment_syncs: int = 5
    concurrent_gc_syncs: int = 20
    concurrent_namespace_syncs: int = 10
    concurrent_node_syncs: int = 8

    def enabled(self, name: str) -> bool:
        """Whether a controller is to run: ``*`` means all, ``-name`` takes one out, ``name`` puts one in."""
        if f"-{name}" in self.controllers:
            return False
        return name in self.controllers or "*" in self.controllers


_CHOICES = {"level": ("debug", "info", "warning", "error"), "format": ("text", "json")}
_HELP: dict[str, tuple[str, str]] = {
    "kubeconfig": ("text", "kubeconfig with the apiserver's address and our credentials"),
    "context": ("text", "context of the kubeconfig to use"),
    "bind_address": ("text", "address to serve /healthz and /metrics on"),
    "secure_port": ("int", "port to serve them on; 0 turns serving off"),
    "tls_cert_file": ("text", "certificate to serve with; without one, plain HTTP"),
    "tls_private_key_file": ("text", "its key"),
    "client_ca_file": ("text", "ask clients for a certificate of this authority"),
    "root_ca_file": ("text", "publish this authority in every namespace, as kube-root-ca.crt"),
    "service_account_private_key_file": ("text", "sign tokens in Secrets with this key; without one there are none"),
    "cluster_signing_cert_file": ("text", "sign approved requests for certificates with this authority"),
    "cluster_signing_key_file": ("text", "its key"),
    "cluster_signing_duration": ("duration", "longest life of such certificates"),
    "log_level": ("level", "debug, info, warning or error"),
    "log_format": ("format", "text or json"),
    "leader_elect": ("bool", "stand for election before doing anything"),
    "leader_elect_lease_duration": ("duration", "others wait this long after the last renewal they saw"),
    "leader_elect_renew_deadline": ("duration", "a leader that cannot renew for this long steps down"),
    "leader_elect_retry_period": ("duration", "time between tries"),
    "leader_elect_resource_name": ("text", "name of the Lease"),
    "leader_elect_resource_namespace": ("text", "namespace of the Lease"),
    "node_monitor_period": ("duration", "how often nodes are looked at"),
    "node_monitor_grace_period": ("duration", "a node that was silent for longer is unknown"),
    "node_startup_grace_period": ("duration", "the same for nodes that never reported"),
    "node_eviction_rate": ("float", "nodes a second that may be given up in a healthy zone"),
    "secondary_node_eviction_rate": ("float", "the same in a large zone that is partially disrupted"),
    "unhealthy_zone_threshold": ("float", "share of nodes not ready from which a zone is partially disrupted"),
    "large_cluster_size_threshold": ("int", "zones up to this size lose no nodes while partially disrupted"),
    "terminated_pod_gc_threshold": ("int", "keep this many ended pods; 0 or less: all"),
    "enable_garbage_collector": ("bool", "delete objects whose owners are gone"),
    "concurrent_replicaset_syncs": ("int", "ReplicaSets worked on at once"),
    "concurrent_deployment_syncs": ("int", "Deployments worked on at once"),
    "concurrent_gc_syncs": ("int", "objects the garbage collector works on at once"),
    "concurrent_namespace_syncs": ("int", "namespaces emptied at once"),
    "concurrent_node_syncs": ("int", "nodes written at once"),
}


def _controllers(text: str) -> tuple[str, ...]:
    names = tuple(item.strip() for item in text.split(",") if item.strip())
    for name in names:
        if name != "*" and name.removeprefix("-") not in CONTROLLERS:
            raise argparse.ArgumentTypeError(f"unknown controller {name!r}: there are {', '.join(CONTROLLERS)}")
    return names


def parse(argv: Sequence[str] | None = None) -> Options:
    """Read the command line; a wrong flag ends the process with a message, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="wharf-controller-manager", description="Runs Wharfinger's controllers; one of several leads."
    )
    defaults = {item.name: item.default for item in fields(Options)}
    types: dict[str, Callable[[str], Any]] = {
        "text": str,
        "int": int,
        "float": float,
        "duration": flags.duration,
        "bool": flags.boolean,
    }
    for name, (kind, text) in _HELP.items():
        flag = f"--{name.replace('_', '-')}"
        default = defaults[name]
        shown = "" if default is None else f" (default {default})"
        if kind in _CHOICES:
            parser.add_argument(flag, choices=_CHOICES[kind], type=str.lower, default=default, help=text + shown)
        elif kind == "bool":
            parser.add_argument(flag, type=flags.boolean, nargs="?", const=True, default=default, help=text + shown)
        else:
            parser.add_argument(flag, type=types[kind], default=default, help=text + shown)
    parser.add_argument(
        "--controllers",
        type=_controllers,
        default=("*",),
        help=f"'*' for all, 'name' to add, '-name' to leave out: {', '.join(CONTROLLERS)}",
    )
    return Options(**vars(parser.parse_args(argv)))
