"""The command lines of a development cluster's daemons: etcd, ours, and one agent a node."""

from __future__ import annotations

import sys
from pathlib import Path

from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.layout import APISERVER, CONTROLLER_MANAGER, ETCD, HOLLOW, SCHEDULER, Layout


def of(layout: Layout, name: str) -> list[str]:
    """Return the command line of a daemon. Raises DevtoolsError for a name that this cluster does not have."""
    if name == ETCD:
        made = _etcd(layout)
    elif name.startswith(APISERVER):
        made = [*_apiserver(layout, name), *_flags(layout, APISERVER)]
    elif name == SCHEDULER:
        made = _scheduler(layout)
    elif name == CONTROLLER_MANAGER:
        made = _controllers(layout)
    elif name == HOLLOW:
        made = _hollow(layout)
    elif name in layout.node_names():
        made = layout.runtime(name).in_netns(*_node(layout, name), *_flags(layout, "node"))
    else:
        raise DevtoolsError(f"{name!r} is no daemon of this cluster; it has {', '.join(layout.daemons())}")
    return made if name == APISERVER else [*made, *_flags(layout, name)]


def _flags(layout: Layout, name: str) -> list[str]:
    return layout.settings.flags.get(name, [])


def program(name: str) -> list[str]:
    """Return how a program of this installation is started."""
    return [str(Path(sys.executable).parent / name)]


def _tls(layout: Layout, stem: str) -> list[str]:
    return [
        "--tls-cert-file", str(layout.pki / f"{stem}.crt"),
        "--tls-private-key-file", str(layout.pki / f"{stem}.key"),
        "--client-ca-file", str(layout.pki / "ca.crt"),
    ]  # fmt: skip


def _etcd(layout: Layout) -> list[str]:
    client, peer = f"https://{layout.etcd_endpoint}", f"http://127.0.0.1:{layout.port('etcd-peer')}"
    return [
        "etcd", "--name", "etcd", "--data-dir", str(layout.directory / "etcd"),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd={peer}",
        "--cert-file", str(layout.pki / "etcd.crt"), "--key-file", str(layout.pki / "etcd.key"),
        "--trusted-ca-file", str(layout.pki / "etcd-ca.crt"), "--client-cert-auth",
        "--logger", "zap", "--log-level", "warn",
    ]  # fmt: skip


def _apiserver(layout: Layout, name: str) -> list[str]:
    return [
        *program("wharf-apiserver"),
        "--etcd-servers", f"https://{layout.etcd_endpoint}",
        "--etcd-cafile", str(layout.pki / "etcd-ca.crt"),
        "--etcd-certfile", str(layout.pki / "etcd-client.crt"), "--etcd-keyfile", str(layout.pki / "etcd-client.key"),
        "--bind-address", "0.0.0.0",
        "--secure-port", str(layout.port(f"{name}-https")),
        "--grpc-port", str(layout.port(f"{name}-grpc")), "--grpc-token-port", str(layout.port(f"{name}-token")),
        *_tls(layout, APISERVER),
        "--service-account-signing-key-file", str(layout.pki / "sa.key"),
        "--kubelet-client-certificate", str(layout.pki / "apiserver-kubelet-client.crt"),
        "--kubelet-client-key", str(layout.pki / "apiserver-kubelet-client.key"),
    ]  # fmt: skip


def _scheduler(layout: Layout) -> list[str]:
    return [
        *program("wharf-scheduler"),
        "--kubeconfig", str(layout.kubeconfig_of(SCHEDULER)), "--bind-address", "127.0.0.1",
        "--secure-port", str(layout.port("scheduler-health")), "--grpc-port", str(layout.port("scheduler")),
        *_tls(layout, SCHEDULER),
    ]  # fmt: skip


def _controllers(layout: Layout) -> list[str]:
    return [
        *program("wharf-controller-manager"),
        "--kubeconfig", str(layout.kubeconfig_of(CONTROLLER_MANAGER)), "--bind-address", "127.0.0.1",
        "--secure-port", str(layout.port("controller-manager")), *_tls(layout, CONTROLLER_MANAGER),
        "--root-ca-file", str(layout.pki / "ca.crt"),
        "--service-account-private-key-file", str(layout.pki / "sa.key"),
        "--cluster-signing-cert-file", str(layout.pki / "ca.crt"),
        "--cluster-signing-key-file", str(layout.pki / "ca.key"),
    ]  # fmt: skip


def _node(layout: Layout, node: str) -> list[str]:
    runtime = layout.runtime(node)
    return [
        *program("wharf-nodeagent"),
        "--kubeconfig", str(layout.kubeconfig_of(node)), "--node-name", node, "--node-ip", runtime.node_ip,
        "--container-runtime-endpoint", f"unix://{runtime.socket}", "--cgroup-parent", runtime.cgroup_parent,
        "--pod-logs-dir", str(layout.directory / "pod-logs" / node), "--root-dir", str(runtime.path / "agent"),
        *_tls(layout, f"{node}-serving"),
    ]  # fmt: skip


def _hollow(layout: Layout) -> list[str]:
    return [
        *program("wharf-nodeagent"),
        "--kubeconfig", str(layout.kubeconfig_of(HOLLOW)), "--hollow", str(layout.settings.hollow),
        "--hollow-prefix", "hollow-", "--root-dir", str(layout.directory / "hollow"),
        *_tls(layout, f"{HOLLOW}-serving"),
    ]  # fmt: skip
