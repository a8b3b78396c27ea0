"""Where everything of a development cluster is: ports, certificates, kubeconfigs, the runtimes of its nodes.

All of it is below one folder, and what was chosen at first use (ports) is remembered in ``cluster.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wharfinger import pki
from wharfinger.devtools.containerd import NodeRuntime, Switch
from wharfinger.devtools.ports import free_ports

ETCD = "etcd"
APISERVER = "apiserver"
SCHEDULER = "scheduler"
CONTROLLER_MANAGER = "controller-manager"
HOLLOW = "hollow"
PREFERRED_PORTS = (2379, 2380, 6443, 6444, 6445, 10257, 10258, 10259)


@dataclass
class Settings:
    """What a cluster is made of; kept in ``cluster.json``."""

    nodes: int = 1
    """Nodes with a containerd of their own, node-1 to node-N (root only)."""
    hollow: int = 0
    """Hollow nodes, hollow-1 to hollow-M, in one process."""
    apiservers: int = 1
    default_ports: bool = False
    """Take Kubernetes' usual ports where they are free."""
    flags: dict[str, list[str]] = field(default_factory=dict)
    """More flags by daemon (``apiserver``, ``scheduler``, ``node`` for all agents, …)."""
    prefix: str = "wharf"
    """Begins the names of network namespaces, links and cgroups: two clusters on a machine need two."""
    subnet: int = 213
    """The second byte of node addresses, ``10.<subnet>.0.0/24``."""
    without: list[str] = field(default_factory=list)
    """Daemons that `up` leaves out."""


class Layout:
    """The places of one cluster below `directory`; see :class:`Settings`."""

    def __init__(self, directory: Path, settings: Settings | None = None) -> None:
        self.directory = directory.resolve()
        self._state = self._load_state()
        self.settings = settings or Settings(**self._state.get("settings", {}))

    # --- what is remembered

    @property
    def _state_file(self) -> Path:
        return self.directory / "cluster.json"

    def _load_state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self._state_file.read_text())
        except FileNotFoundError:
            return {}
        return state

    def save_state(self) -> None:
        """Write down what is remembered."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._state["settings"] = asdict(self.settings)
        self._state_file.write_text(json.dumps(self._state, indent=1))

    def port(self, name: str) -> int:
        """Return the port that was chosen for a purpose such as ``apiserver-grpc``; it stays the same over restarts."""
        ports: dict[str, int] = self._state.setdefault("ports", {})
        if name not in ports:
            self._choose_ports(ports)
        return ports[name]

    def _choose_ports(self, ports: dict[str, int]) -> None:
        names = [
            "etcd", "etcd-peer", "apiserver-https", "apiserver-grpc", "apiserver-token",
            "controller-manager", "scheduler-health", "scheduler",
        ]  # fmt: skip
        for index in range(2, self.settings.apiservers + 1):
            names += [f"apiserver{index}-https", f"apiserver{index}-grpc", f"apiserver{index}-token"]
        missing = [name for name in names if name not in ports]
        preferred = PREFERRED_PORTS if self.settings.default_ports and not ports else ()
        ports.update(zip(missing, free_ports(len(missing), preferred=preferred), strict=True))
        self.save_state()

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, for the host."""
        return self.directory / "kubeconfig"

    @property
    def pki(self) -> Path:
        """The folder of certificates."""
        return self.directory / "pki"

    @property
    def switch(self) -> Switch:
        """The bridge that joins nodes and host."""
        return Switch(name=f"{self.settings.prefix}0", network=f"10.{self.settings.subnet}.0.0/24")

    @property
    def etcd_endpoint(self) -> str:
        """``host:port`` of etcd."""
        return f"127.0.0.1:{self.port('etcd')}"

    def apiserver_names(self) -> list[str]:
        """Return apiserver, apiserver2, …"""
        return [APISERVER, *(f"{APISERVER}{index}" for index in range(2, self.settings.apiservers + 1))]

    def grpc_endpoints(self, host: str = "127.0.0.1", *, purpose: str = "grpc") -> list[str]:
        """Return the addresses of the apiservers as seen from the host or (switch address) from a node."""
        return [f"{host}:{self.port(f'{name}-{purpose}')}" for name in self.apiserver_names()]

    def node_names(self) -> list[str]:
        """Return node-1 to node-N."""
        return [f"node-{index}" for index in range(1, self.settings.nodes + 1)]

    def daemons(self) -> list[str]:
        """Return every daemon of this cluster, in the order in which they are started."""
        names = [ETCD, *self.apiserver_names(), SCHEDULER, CONTROLLER_MANAGER]
        for node in self.node_names():
            names += [f"containerd-{node}", node]
        if self.settings.hollow:
            names.append(HOLLOW)
        return [name for name in names if name not in self.settings.without]

    # --- certificates and configuration

    def prepare(self) -> None:
        """Make certificates and kubeconfigs; what is there and valid stays."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        addresses = ["127.0.0.1", self.switch.host_address]
        ca = pki.ensure_ca(self.pki, "wharfinger", stem="ca")
        etcd_ca = pki.ensure_ca(self.pki, "wharfinger-etcd", stem="etcd-ca")
        pki.ensure_signing_key(self.pki)
        names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        pki.ensure_server(etcd_ca, self.pki, "etcd", name="etcd", dns=["localhost"], ips=["127.0.0.1"], client=True)
        pki.ensure_client(etcd_ca, self.pki, "etcd-client", name="wharf-apiserver")
        pki.ensure_server(ca, self.pki, "apiserver", name="wharf-apiserver", dns=names, ips=addresses)
        kubelet_client: dict[str, Any] = {"name": "system:apiserver", "groups": ["system:masters"]}
        pki.ensure_client(ca, self.pki, "apiserver-kubelet-client", **kubelet_client)
        pki.ensure_server(ca, self.pki, "scheduler", name="wharf-scheduler", dns=["localhost"], ips=addresses)
        pki.ensure_server(
            ca, self.pki, "controller-manager", name="wharf-controller-manager", dns=["localhost"], ips=addresses
        )
        self._user("admin", "kubernetes-admin", ["system:masters"], self.kubeconfig)
        for name in (SCHEDULER, CONTROLLER_MANAGER):
            self._user(name, f"system:kube-{name}", [])
        for index, node in enumerate(self.node_names(), 1):
            address = self.switch.node_address(index)
            self._user(node, f"system:node:{node}", ["system:nodes"], host=self.switch.host_address)
            pki.ensure_server(
                ca, self.pki, f"{node}-serving", name=f"system:node:{node}", dns=[node], ips=[address, "127.0.0.1"]
            )
        if self.settings.hollow:
            # Hollow nodes share a process and so a connection: one identity that may speak for all of them.
            self._user(HOLLOW, "hollow-nodes", ["system:masters"])
            # The apiserver expects a node's name in its agent's certificate; thousands would not fit into one.
            hollow = [f"hollow-{number}" for number in range(1, min(self.settings.hollow, 500) + 1)]
            pki.ensure_server(
                ca, self.pki, f"{HOLLOW}-serving", name="hollow-nodes", dns=["localhost", *hollow], ips=["127.0.0.1"]
            )

    def _user(
        self, stem: str, name: str, groups: Sequence[str], path: Path | None = None, *, host: str = "127.0.0.1"
    ) -> None:
        ca = pki.load_ca(self.pki, stem="ca")
        pki.ensure_client(ca, self.pki, f"user-{stem}", name=name, groups=groups)
        pair = pki.read_pair(self.pki, f"user-{stem}")
        pki.write_kubeconfig(
            path or self.kubeconfig_of(stem),
            server=f"https://{host}:{self.port('apiserver-https')}",
            grpc_endpoints=self.grpc_endpoints(host),
            grpc_token_endpoints=self.grpc_endpoints(host, purpose="token"),
            ca=ca.cert,
            cert=pair.cert,
            key=pair.key,
            user=stem,
            cluster="wharfinger",
            context="wharfinger",
        )

    def kubeconfig_of(self, user: str) -> Path:
        """Return the kubeconfig of a daemon."""
        return self.directory / "kubeconfigs" / user

    def runtime(self, node: str) -> NodeRuntime:
        """Return a node's containerd, prepared at first use."""
        folder = self.directory / "nodes" / node
        if (folder / "node.json").exists():
            return NodeRuntime.load(folder)
        index = int(node.rpartition("-")[2])
        return NodeRuntime.prepare(
            folder, name=node, index=index, switch=self.switch, prefix=self.settings.prefix,
            pod_cidr=f"10.{self.settings.subnet + 1}.{index}.0/24",
        )  # fmt: skip
