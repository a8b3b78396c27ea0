"""A whole cluster on one machine: real etcd, real daemons, real containerds, and as many hollow nodes as wanted.

What `./dev up` gives a person is what integration tests and benchmarks use, too, with other settings. Everything is
below one folder: certificates, etcd's data, logs, and what is needed to find the processes again. Nodes live in
network namespaces of their own, joined to the host by a bridge, as hosts in a network would be.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from wharfinger.api.types import coordination, core
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools import commandlines
from wharfinger.devtools.containerd import DevtoolsError, NodeRuntime
from wharfinger.devtools.layout import APISERVER, CONTROLLER_MANAGER, ETCD, HOLLOW, SCHEDULER, Layout, Settings
from wharfinger.devtools.processes import ProcessTable, wait_until

IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
"""Nodes need the host to route between them; `down` puts back what it was."""

__all__ = [
    "APISERVER",
    "CONTROLLER_MANAGER",
    "ETCD",
    "HOLLOW",
    "SCHEDULER",
    "Cluster",
    "Settings",
    "https_ok",
    "own_network",
]


class Cluster(Layout):
    """One cluster below `directory`; see :class:`Settings`. `progress` is told what happens."""

    def __init__(
        self, directory: Path, settings: Settings | None = None, *, progress: Callable[[str], None] = print
    ) -> None:
        super().__init__(directory, settings)
        self.progress = progress
        self.processes = ProcessTable(self.directory)

    def command(self, name: str) -> list[str]:
        """Return the command line of a daemon. Raises DevtoolsError for a name that this cluster does not have."""
        return commandlines.of(self, name)

    # --- life

    def up(self) -> None:
        """Start everything that does not run yet, one after another, each when the one before is ready."""
        if self.settings.nodes and IP_FORWARD.read_text().strip() == "0":
            self._state["forwarding_was_off"] = True
        self.save_state()
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
                self.save_state()
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
            [*commandlines.program("wharf"), *arguments],
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
