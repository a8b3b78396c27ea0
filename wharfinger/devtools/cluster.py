"""A whole cluster on one machine: real etcd, real daemons, real containerds, and as many hollow nodes as wanted.

What `./dev up` gives a person is what integration tests and benchmarks use, too, with other settings. Everything is
below one folder: certificates, etcd's data, logs, and what is needed to find the processes again. Nodes live in
network namespaces of their own, joined to the host by a bridge, as hosts in a network would be.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from wharfinger import pki
from wharfinger.api.types import coordination, core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.containerd import DevtoolsError, NodeRuntime, Switch
from wharfinger.devtools.ports import free_ports
from wharfinger.devtools.processes import ProcessTable, wait_until

ETCD = "etcd"
APISERVER = "apiserver"
SCHEDULER = "scheduler"
CONTROLLER_MANAGER = "controller-manager"
HOLLOW = "hollow"
IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
"""Nodes need the host to route between them; `down` puts back what it was."""
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


class Cluster:
    """One cluster below `directory`; see :class:`Settings`. `progress` is told what happens."""

    def __init__(
        self, directory: Path, settings: Settings | None = None, *, progress: Callable[[str], None] = print
    ) -> None:
        self.directory = directory.resolve()
        self.progress = progress
        self.processes = ProcessTable(self.directory)
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

    def _save_state(self) -> None:
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
        self._save_state()

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

    # --- commands

    def command(self, name: str) -> list[str]:
        """Return the command line of a daemon. Raises DevtoolsError for a name that this cluster does not have."""
        more = self.settings.flags.get(name, [])
        if name == ETCD:
            return self._etcd()
        if name.startswith(APISERVER):
            return [*self._apiserver(name), *self.settings.flags.get(APISERVER, ())]
        if name == SCHEDULER:
            return [*self._program("wharf-scheduler"), *self._scheduler(), *more]
        if name == CONTROLLER_MANAGER:
            return [
                *self._program("wharf-controller-manager"),
                *self._controllers(),
                *self.settings.flags.get(name, ()),
            ]
        if name == HOLLOW:
            return [*self._program("wharf-nodeagent"), *self._hollow(), *more]
        if name in self.node_names():
            flags = [*self.settings.flags.get("node", ()), *self.settings.flags.get(name, ())]
            return self.runtime(name).in_netns(*self._program("wharf-nodeagent"), *self._node(name), *flags)
        raise DevtoolsError(f"{name!r} is no daemon of this cluster; it has {', '.join(self.daemons())}")

    @staticmethod
    def _program(name: str) -> list[str]:
        return [str(Path(sys.executable).parent / name)]

    def _tls(self, stem: str) -> list[str]:
        return [
            "--tls-cert-file", str(self.pki / f"{stem}.crt"),
            "--tls-private-key-file", str(self.pki / f"{stem}.key"),
            "--client-ca-file", str(self.pki / "ca.crt"),
        ]  # fmt: skip

    def _etcd(self) -> list[str]:
        client, peer = f"https://{self.etcd_endpoint}", f"http://127.0.0.1:{self.port('etcd-peer')}"
        return [
            "etcd", "--name", "etcd", "--data-dir", str(self.directory / "etcd"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd={peer}",
            "--cert-file", str(self.pki / "etcd.crt"), "--key-file", str(self.pki / "etcd.key"),
            "--trusted-ca-file", str(self.pki / "etcd-ca.crt"), "--client-cert-auth",
            "--logger", "zap", "--log-level", "warn",
            *self.settings.flags.get(ETCD, ()),
        ]  # fmt: skip

    def _apiserver(self, name: str) -> list[str]:
        return [
            *self._program("wharf-apiserver"),
            "--etcd-servers", f"https://{self.etcd_endpoint}",
            "--etcd-cafile", str(self.pki / "etcd-ca.crt"),
            "--etcd-certfile", str(self.pki / "etcd-client.crt"), "--etcd-keyfile", str(self.pki / "etcd-client.key"),
            "--bind-address", "0.0.0.0",
            "--secure-port", str(self.port(f"{name}-https")),
            "--grpc-port", str(self.port(f"{name}-grpc")), "--grpc-token-port", str(self.port(f"{name}-token")),
            *self._tls(APISERVER),
            "--service-account-signing-key-file", str(self.pki / "sa.key"),
            "--kubelet-client-certificate", str(self.pki / "apiserver-kubelet-client.crt"),
            "--kubelet-client-key", str(self.pki / "apiserver-kubelet-client.key"),
        ]  # fmt: skip

    def _scheduler(self) -> list[str]:
        return [
            "--kubeconfig", str(self.kubeconfig_of(SCHEDULER)), "--bind-address", "127.0.0.1",
            "--secure-port", str(self.port("scheduler-health")), "--grpc-port", str(self.port("scheduler")),
            *self._tls(SCHEDULER),
        ]  # fmt: skip

    def _controllers(self) -> list[str]:
        return [
            "--kubeconfig", str(self.kubeconfig_of(CONTROLLER_MANAGER)), "--bind-address", "127.0.0.1",
            "--secure-port", str(self.port("controller-manager")), *self._tls(CONTROLLER_MANAGER),
            "--root-ca-file", str(self.pki / "ca.crt"),
            "--service-account-private-key-file", str(self.pki / "sa.key"),
            "--cluster-signing-cert-file", str(self.pki / "ca.crt"),
            "--cluster-signing-key-file", str(self.pki / "ca.key"),
        ]  # fmt: skip

    def _node(self, node: str) -> list[str]:
        runtime = self.runtime(node)
        return [
            "--kubeconfig", str(self.kubeconfig_of(node)), "--node-name", node, "--node-ip", runtime.node_ip,
            "--container-runtime-endpoint", f"unix://{runtime.socket}", "--cgroup-parent", runtime.cgroup_parent,
            "--pod-logs-dir", str(self.directory / "pod-logs" / node), "--root-dir", str(runtime.path / "agent"),
            *self._tls(f"{node}-serving"),
        ]  # fmt: skip

    def _hollow(self) -> list[str]:
        return [
            "--kubeconfig", str(self.kubeconfig_of(HOLLOW)), "--hollow", str(self.settings.hollow),
            "--hollow-prefix", "hollow-", "--root-dir", str(self.directory / "hollow"), *self._tls(f"{HOLLOW}-serving"),
        ]  # fmt: skip

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

    # --- life

    def up(self) -> None:
        """Start everything that does not run yet, one after another, each when the one before is ready."""
        if self.settings.nodes and IP_FORWARD.read_text().strip() == "0":
            self._state["forwarding_was_off"] = True
        self._save_state()
        self.prepare()
        self._remove_surplus_nodes()
        for name in self.daemons():
            self._stop_changed(name)
            self.start(name)
        self.wait_nodes_ready()
        self._delete_surplus_node_objects()

    def _stop_changed(self, name: str) -> None:
        """Stop a daemon that runs with other flags than it should have by now."""
        running = None if name.startswith("containerd-") else self.processes.running(name)
        if running is not None and list(running.command) != self.command(name):
            self.processes.stop(name)
            self.progress(f"{name} stopped: its flags have changed")

    def _remove_surplus_nodes(self) -> None:
        """Take down nodes that an earlier `up` with larger numbers has started."""
        if not self.settings.hollow and self.processes.stop(HOLLOW):
            self.processes.forget(HOLLOW)
            self.progress(f"{HOLLOW} stopped")
        wanted = self.node_names()
        for record in sorted((self.directory / "nodes").glob("*/node.json")):
            folder = record.parent
            if folder.name in wanted:
                continue
            self.processes.stop(folder.name)
            self.processes.forget(folder.name)
            NodeRuntime.load(folder).purge()
            self.progress(f"{folder.name}: agent, pods, containerd and network removed")

    def _delete_surplus_node_objects(self) -> None:
        """Delete the Node objects of such nodes; their pods follow, and controllers make new ones elsewhere."""
        if APISERVER in self.settings.without:
            return
        limits = {"node-": self.settings.nodes, "hollow-": self.settings.hollow}
        for name in asyncio.run(_delete_nodes_beyond(ClientConfig.load(self.kubeconfig), limits)):
            self.progress(f"node object {name} deleted")

    def wait_nodes_ready(self, *, timeout: float = 60, only: str = "") -> None:
        """Wait until every node (`only`: of this agent) says that it is ready.

        Raises DevtoolsError when an agent ends or time runs out.
        """
        agents = {name: name for name in self.node_names()}
        if self.settings.hollow:
            agents |= {f"hollow-{index}": HOLLOW for index in range(1, self.settings.hollow + 1)}
        waiting = {
            node: agent for node, agent in agents.items() if only in ("", agent) and agent not in self.settings.without
        }
        if not waiting or APISERVER in self.settings.without:
            return
        started = time.monotonic()
        missing: dict[str, str] = {}

        def ready() -> bool:
            since = {}
            for node, agent in waiting.items():
                running = self.processes.running(agent)
                if running is None:
                    raise DevtoolsError(f"{agent} ended; the end of its log:\n{self.processes.tail(agent)}")
                since[node] = running.started
            missing.clear()
            missing.update(asyncio.run(_missing_nodes(ClientConfig.load(self.kubeconfig), since)))
            return not missing

        try:
            wait_until(ready, timeout)
        except TimeoutError:
            node, why = next(iter(missing.items()))
            raise DevtoolsError(
                f"{len(missing)} of {len(waiting)} nodes were not ready after {timeout:g} s; {node}: {why}; "
                f"the end of its agent's log:\n{self.processes.tail(waiting[node])}"
            ) from None
        self.progress(
            f"{len(waiting)} node{'s' if len(waiting) > 1 else ''} ready ({time.monotonic() - started:.1f} s)"
        )

    def start(self, name: str) -> None:
        """Start one daemon and wait until it is ready; does nothing when it runs."""
        started = time.monotonic()
        if name.startswith("containerd-"):
            runtime = self.runtime(name.removeprefix("containerd-"))
            if runtime.pid is not None:
                return
            runtime.start(timeout=120)
        else:
            if self.processes.running(name) is not None:
                return
            self.processes.start(name, self.command(name))
            probe = self._probe(name)
            if probe is None:  # an agent; wait_nodes_ready tells whether it is well
                self.progress(f"{name} started")
                return
            self.processes.wait_ready(name, probe, timeout=60)
        self.progress(f"{name} ready ({time.monotonic() - started:.1f} s)")

    def _probe(self, name: str) -> Callable[[], bool] | None:
        if name == ETCD:
            pair = (self.pki / "etcd-client.crt", self.pki / "etcd-client.key")
            return lambda: https_ok(f"https://{self.etcd_endpoint}/health", self.pki / "etcd-ca.crt", pair)
        if name.startswith(APISERVER):
            return self._health(f"{name}-https")
        if name == SCHEDULER:
            return self._health("scheduler-health")
        if name == CONTROLLER_MANAGER:
            return self._health("controller-manager")
        return None

    def _health(self, purpose: str) -> Callable[[], bool]:
        pair = (self.pki / "user-admin.crt", self.pki / "user-admin.key")
        return lambda: https_ok(f"https://127.0.0.1:{self.port(purpose)}/readyz", self.pki / "ca.crt", pair)

    def check_name(self, name: str) -> None:
        """Raise DevtoolsError for a name that this cluster does not have."""
        if name not in self.daemons():
            raise DevtoolsError(f"{name!r} is no daemon of this cluster; it has {', '.join(self.daemons())}")

    def stop(self, name: str) -> bool:
        """Stop one daemon; return whether it ran. Containers outlive their agent and their containerd."""
        self.check_name(name)
        if name.startswith("containerd-"):
            runtime = self.runtime(name.removeprefix("containerd-"))
            ran = runtime.pid is not None
            runtime.stop()
            return ran
        return self.processes.stop(name)

    def kill(self, name: str) -> None:
        """End one daemon with SIGKILL, as a crash would."""
        if name.startswith("containerd-"):
            self.runtime(name.removeprefix("containerd-")).kill()
        else:
            self.processes.kill(name)

    def pid(self, name: str) -> int | None:
        """Return the process id of a daemon that runs."""
        if name.startswith("containerd-"):
            return self.runtime(name.removeprefix("containerd-")).pid
        running = self.processes.running(name)
        return running.pid if running else None

    def down(self, *, purge: bool = False) -> None:
        """End everything: agents first, then pods with their sandboxes, networks and mounts, etcd last."""
        known = self.processes.names()
        nodes = sorted(path.parent for path in (self.directory / "nodes").glob("*/node.json"))
        last = [ETCD, *(name for name in known if name.startswith(APISERVER))]
        for name in [*(name for name in known if name not in last), *reversed(last)]:
            if self.processes.stop(name):
                self.progress(f"{name} stopped")
            self.processes.forget(name)
        for folder in nodes:
            NodeRuntime.load(folder).purge()
            self.progress(f"{folder.name}: pods, containerd and network removed")
        if nodes:
            self.switch.down()
            if self._state.pop("forwarding_was_off", False):
                IP_FORWARD.write_text("0\n")
                self._save_state()
        if purge:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- state

    def status(self) -> list[dict[str, Any]]:
        """Return name, pid (None: not running), addresses and log file of every daemon."""
        rows = []
        for name in self.daemons():
            if name.startswith("containerd-"):
                runtime = self.runtime(name.removeprefix("containerd-"))
                log, addresses = runtime.log_file, [f"unix://{runtime.socket}"]
            else:
                log, addresses = self.processes.log_file(name), self._addresses(name)
            rows.append({"name": name, "pid": self.pid(name), "addresses": addresses, "log": str(log)})
        return rows

    def _addresses(self, name: str) -> list[str]:
        if name == ETCD:
            return [f"https://{self.etcd_endpoint}"]
        if name.startswith(APISERVER):
            return [
                f"grpc://127.0.0.1:{self.port(f'{name}-grpc')}",
                f"grpc://127.0.0.1:{self.port(f'{name}-token')} (tokens)",
                f"https://127.0.0.1:{self.port(f'{name}-https')}",
            ]
        if name == SCHEDULER:
            return [f"grpc://127.0.0.1:{self.port('scheduler')}", f"https://127.0.0.1:{self.port('scheduler-health')}"]
        if name == CONTROLLER_MANAGER:
            return [f"https://127.0.0.1:{self.port('controller-manager')}"]
        if name in self.node_names():
            return [f"grpc://{self.runtime(name).node_ip}:10250"]
        return []

    def wharf(self, *arguments: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line against this cluster."""
        return subprocess.run(
            [*self._program("wharf"), *arguments],
            env=self.environment(),
            input=text,
            text=True,
            capture_output=True,
            check=check,
        )

    def environment(self) -> Mapping[str, str]:
        """Return this process's environment with KUBECONFIG set to this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}


async def _missing_nodes(config: ClientConfig, since: Mapping[str, float]) -> dict[str, str]:
    """Return which nodes are not ready, or not yet by the word of their agents started at `since`, each with why.

    What a node was before its agent was started may still stand in etcd; a heartbeat tells. All clocks are this host's.
    """
    async with Client(config) as client:
        nodes = {node.metadata.name: node for node in (await client.resource(core.Node).list()).items}
        leases = (await client.resource(coordination.Lease).list(namespace="kube-node-lease")).items
    renewed = {lease.metadata.name: lease.spec.renewTime.seconds for lease in leases}
    reasons = {name: _why_not_ready(nodes.get(name), renewed.get(name), int(start)) for name, start in since.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _why_not_ready(node: core.Node | None, renewed: int | None, since: int) -> str:
    if node is None:
        return "it has not registered"
    if renewed is None:
        return "it has no lease"
    if renewed < since:
        return f"its lease was renewed {since - renewed} s before its agent was started"
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return "" if condition.status == "True" else f"Ready is {condition.status}: {condition.message}"
    return "it has no condition Ready"


async def _delete_nodes_beyond(config: ClientConfig, limits: Mapping[str, int]) -> list[str]:
    """Delete the nodes PREFIX-N with an N above the limit of the prefix; returns their names."""
    async with Client(config) as client:
        nodes = client.resource(core.Node)
        deleted = []
        for node in (await nodes.list()).items:
            name = node.metadata.name
            for prefix, limit in limits.items():
                number = name.removeprefix(prefix)
                if number != name and number.isdecimal() and int(number) > limit:
                    await nodes.delete(name)
                    deleted.append(name)
        return deleted


def own_network() -> tuple[str, int]:
    """Return a prefix and a subnet for :class:`Settings` that no other cluster on this machine uses."""
    taken = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    used = {int(address.split(".")[1]) for address in taken if address.startswith("10.")}
    free = [subnet for subnet in range(100, 200, 2) if subnet not in used and subnet + 1 not in used]
    if not free:
        raise DevtoolsError("all subnets from 10.100 to 10.199 are in use on this machine")
    subnet = random.SystemRandom().choice(free)
    return f"w{subnet}", subnet


def https_ok(url: str, ca: Path, pair: tuple[Path, Path]) -> bool:
    """Return whether a URL answers 200."""
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(*pair)
    try:
        with urllib.request.urlopen(url, context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
