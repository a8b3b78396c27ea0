"""The flags of the node agent: kubelet's names and defaults where they exist."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wharfinger.api import quantity
from wharfinger.api.types import core
from wharfinger.daemon.flags import boolean, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that can be set; durations in seconds."""

    kubeconfig: str | None
    bootstrap_kubeconfig: str | None
    cert_dir: Path | None
    rotate_certificates: bool
    rotate_server_certificates: bool
    context: str | None
    node_name: str
    node_ip: str
    node_labels: dict[str, str]
    register_with_taints: list[core.Taint]
    runtime_endpoint: str
    root_dir: Path
    pod_logs_dir: Path
    cgroup_parent: str
    max_pods: int
    pod_max_pids: int
    allowed_unsafe_sysctls: list[str]
    capacity: dict[str, str]
    system_reserved: dict[str, str]
    cluster_dns: list[str]
    cluster_domain: str
    resolv_conf: Path
    container_log_max_size: int
    """Bytes."""
    container_log_max_files: int
    heartbeat_interval: float
    heartbeat_stall_limit: float
    node_monitor_grace_period: float
    node_status_update_frequency: float
    node_status_report_frequency: float
    relist_interval: float
    address: str
    port: int
    healthz_address: str
    healthz_port: int
    tls_cert_file: str | None
    tls_private_key_file: str | None
    client_ca_file: str | None
    hollow: int
    hollow_prefix: str
    log_level: str
    log_format: Literal["text", "json"]


def parse(argv: Sequence[str] | None = None) -> Options:
    """Read the command line. Ends the process with usage on a mistake, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="wharf-nodeagent",
        description="The agent of a node: runs the pods that are bound to it, and reports what they do.",
        formatter_class=_HelpFormatter,
    )
    add = parser.add_argument
    add("--kubeconfig", help="kubeconfig with the apiserver's address and the node's credentials")
    add("--context", help="context of the kubeconfig to use")
    add(
        "--bootstrap-kubeconfig", metavar="FILE",
        help="kubeconfig with a bootstrap token: without --kubeconfig's file, join by it and write that file",
    )  # fmt: skip
    add(
        "--cert-dir", type=Path, metavar="FOLDER",
        help="folder of the certificates that the node asked for itself (default: pki below --root-dir)",
    )  # fmt: skip
    add(
        "--rotate-certificates", type=boolean, nargs="?", const=True, default=True,
        help="renew the client certificate before it ends, if the node asked for it itself",
    )  # fmt: skip
    add(
        "--rotate-server-certificates", type=boolean, nargs="?", const=True, default=False,
        help="ask the cluster for the serving certificate, and renew it (instead of --tls-cert-file)",
    )  # fmt: skip
    add("--node-name", "--hostname-override", default="", help="name of the node (default: the host's name)")
    add("--node-ip", default="", help="address that the node reports (default: the one that leads to the apiserver)")
    add("--node-labels", type=_pairs, default={}, metavar="K=V,…", help="labels that the node registers with")
    add("--register-with-taints", type=_taints, default=[], metavar="K=V:EFFECT,…", help="taints of a new node")
    add(
        "--container-runtime-endpoint", "--containerd-socket", dest="runtime_endpoint",
        default="unix:///run/containerd/containerd.sock", help="socket of the container runtime (CRI)",
    )  # fmt: skip
    add("--root-dir", type=Path, default=Path("/var/lib/wharfinger"), help="folder for volumes and other files of pods")
    add("--pod-logs-dir", type=Path, default=Path("/var/log/pods"), help="folder for the logs of containers")
    add("--cgroup-parent", "--cgroup-root", default="/wharfinger", help="cgroup below which pods live")
    add("--max-pods", type=int, default=110, help="pods that the node takes")
    add("--pod-max-pids", type=int, default=-1, help="processes that a pod may have; -1: no limit")
    add("--allowed-unsafe-sysctls", type=_words, default=[], metavar="NAME,…", help="sysctls that pods may set besides")
    add("--node-capacity", dest="capacity", type=_amounts, default={}, metavar="cpu=N,…", help="report this capacity")
    add("--system-reserved", type=_amounts, default={}, metavar="cpu=N,…", help="amounts kept from pods")
    add("--cluster-dns", type=_words, default=[], metavar="IP,…", help="DNS servers of pods (default: the node's)")
    add("--cluster-domain", default="cluster.local", help="domain of the cluster")
    add("--resolv-conf", type=Path, default=Path("/etc/resolv.conf"), help="the node's resolver configuration")
    add(
        "--container-log-max-size", type=_bytes, default=10 << 20, help="size at which a log is rotated (default: 10Mi)"
    )
    add("--container-log-max-files", type=int, default=5, help="log files that are kept of a container, at least 2")
    add("--heartbeat-interval", type=duration, default=5.0, help="time between renewals of the node's Lease")
    add(
        "--heartbeat-stall-limit",
        type=duration,
        default=20.0,
        help="no heartbeats when the agent stood still longer",
    )
    add(
        "--node-monitor-grace-period",
        type=duration,
        default=40.0,
        help="the controller-manager's, or less: pods that may not run twice are ended in time when the node is cut "
        "off for longer than this and they tolerate; 0: never",
    )
    add(
        "--node-status-update-frequency",
        type=duration,
        default=10.0,
        help="how often the node's state is looked at",
    )
    add(
        "--node-status-report-frequency",
        type=duration,
        default=300.0,
        help="how often it is written all the same",
    )
    add("--relist-interval", type=duration, default=5.0, help="how often the runtime is looked over at least")
    add("--address", default="0.0.0.0", help="address to serve logs on")
    add("--port", type=int, default=10250, help="port to serve logs on (TLS, client certificates); 0 turns it off")
    add("--healthz-bind-address", dest="healthz_address", default="127.0.0.1", help="address for /healthz and /metrics")
    add("--healthz-port", type=int, default=None, help="port for /healthz and /metrics (default 10248; hollow: off)")
    add("--tls-cert-file", help="certificate to serve with")
    add("--tls-private-key-file", help="its key")
    add("--client-ca-file", help="authority whose clients may ask for logs")
    add("--hollow", type=int, default=0, metavar="N", help="be N hollow nodes on an in-memory runtime")
    add("--hollow-prefix", default="hollow-", help="their names begin so; numbers from 1 follow")
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"), help="how much to log")
    add("--log-format", default="text", choices=("text", "json"), help="how to log")
    values = vars(parser.parse_args(argv))
    if values["container_log_max_files"] < 2:
        parser.error("--container-log-max-files must be at least 2: one that is written and one that was")
    for name in ("heartbeat_interval", "relist_interval"):
        if values[name] <= 0:
            parser.error(f"--{name.replace('_', '-')} must be more than 0")
    if values["bootstrap_kubeconfig"] and not values["kubeconfig"]:
        parser.error("--bootstrap-kubeconfig needs --kubeconfig: the file to write")
    if values["hollow"] and (values["bootstrap_kubeconfig"] or values["rotate_server_certificates"]):
        parser.error("hollow nodes share an identity that is given to them: they ask for no certificates")
    if values["rotate_server_certificates"] and values["tls_cert_file"]:
        parser.error("--rotate-server-certificates and --tls-cert-file exclude each other")
    if values["hollow"] < 0:
        parser.error("--hollow must not be negative")
    if values["healthz_port"] is None:
        values["healthz_port"] = 0 if values["hollow"] else 10248
    if (
        values["port"]
        and not values["hollow"]
        and bool(values["tls_cert_file"]) != bool(values["tls_private_key_file"])
    ):
        parser.error("--tls-cert-file and --tls-private-key-file belong together")
    return Options(**values)


class _HelpFormatter(argparse.HelpFormatter):
    """Adds the defaults, but not empty ones and not where the text says them already."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help, action.default
        if not text or "(default" in text or default in (None, "", [], {}, argparse.SUPPRESS):
            return text
        if action.type is duration:
            return f"{text} (default: {default:g}s)"
        return f"{text} (default: %(default)s)"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for word in _words(text):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise argparse.ArgumentTypeError(f"{word!r} is not of the form name=value")
        pairs[name] = value
    return pairs


def _amounts(text: str) -> dict[str, str]:
    pairs = _pairs(text)
    for name, value in pairs.items():
        try:
            quantity.parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{name}={value}: {error}") from error
    return pairs


def _bytes(text: str) -> int:
    try:
        return quantity.parse(text).value()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _taints(text: str) -> list[core.Taint]:
    taints = []
    for word in _words(text):
        left, colon, effect = word.rpartition(":")
        if not colon or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise argparse.ArgumentTypeError(
                f"{word!r} is not of the form key=value:effect with effect NoSchedule, PreferNoSchedule or NoExecute"
            )
        key, _, value = left.partition("=")
        taint = core.Taint(key=key, effect=effect)
        if value:
            taint.value = value
        taints.append(taint)
    return taints
