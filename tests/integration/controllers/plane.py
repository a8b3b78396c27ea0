"""A control plane for these tests: real etcd, real apiserver, real controller-managers, and nodes played by the test.

The nodes here are not agents: they are Leases that the test renews or not, and pods that it calls Running, so that a
test can let exactly one thing go wrong.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from tests.support.etcd import Etcd
from wharfinger import pki
from wharfinger.api import errors, times
from wharfinger.api.types import apps, coordination, core
from wharfinger.client import Client, ClientConfig

START_SECONDS = 30.0


def port() -> int:
    """Return a port that nobody listens on, outside the range that the kernel hands to clients' connections."""
    while True:
        number = random.randint(20000, 32000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", number))
            except OSError:
                continue
            return number


class Process:
    """A daemon of ours with its log."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def said(self, text: str) -> bool:
        return text in self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.alive:
            self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")


class Manager(Process):
    """A controller-manager."""

    def __init__(self, name: str, command: list[str], folder: Path, port: int) -> None:
        super().__init__(name, command, folder)
        self.port = port

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> float:
        """Return a metric with its labels as they are printed; 0 when it is not there yet."""
        for line in self.get("/metrics").splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0


class Plane:
    """Use as a context manager."""

    def __init__(self, *apiserver_flags: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wharf-controllers-"))
        self.etcd = Etcd()
        self._flags = apiserver_flags
        self._processes: list[Process] = []
        self.grpc_port, self.https_port = port(), port()
        self.apiserver: Process | None = None

    def __enter__(self) -> Self:
        try:
            self.etcd.start()
            ca = pki.ensure_ca(self.folder, "test", stem="ca")
            pki.ensure_server(
                ca, self.folder, "apiserver", name="wharf-apiserver", dns=["localhost"], ips=["127.0.0.1"]
            )
            self._user("admin", "admin", ["system:masters"])
            self._user("manager", "system:kube-controller-manager", [])
            self._user("scheduler", "system:kube-scheduler", [])
            self.start_apiserver()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.resume() if process.alive else None
            process.kill()
        self.etcd.stop()
        if not os.environ.get("WHARF_KEEP_LOGS"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _user(self, stem: str, name: str, groups: list[str]) -> None:
        ca = pki.load_ca(self.folder, stem="ca")
        pki.ensure_client(ca, self.folder, stem, name=name, groups=groups)
        pair = pki.read_pair(self.folder, stem)
        pki.write_kubeconfig(
            self.folder / f"{stem}.kubeconfig",
            server=f"https://127.0.0.1:{self.https_port}",
            grpc_endpoints=[f"127.0.0.1:{self.grpc_port}"],
            ca=ca.cert,
            cert=pair.cert,
            key=pair.key,
            user=stem,
        )

    def start_apiserver(self) -> None:
        command = [
            *_program("controlplane.apiserver.main"),
            "--etcd-servers", self.etcd.endpoint, "--bind-address", "127.0.0.1",
            "--grpc-port", str(self.grpc_port), "--grpc-token-port", "-1", "--secure-port", str(self.https_port),
            "--tls-cert-file", str(self.folder / "apiserver.crt"),
            "--tls-private-key-file", str(self.folder / "apiserver.key"),
            "--client-ca-file", str(self.folder / "ca.crt"),
            *self._flags,
        ]  # fmt: skip
        log = self.folder / "apiserver.log"
        before = log.stat().st_size if log.exists() else 0
        self.apiserver = Process("apiserver", command, self.folder)
        self._processes.append(self.apiserver)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.apiserver.alive:
            if b"apiserver.server serving" in log.read_bytes()[before:]:  # a port that is open is not served yet
                return
            time.sleep(0.05)
        raise RuntimeError(f"the apiserver did not start:\n{self.apiserver.log.read_text()[-3000:]}")

    def manager(self, *flags: str, name: str = "manager") -> Manager:
        number = port()
        command = [
            *_program("controlplane.controllers.main"),
            "--kubeconfig", str(self.folder / "manager.kubeconfig"), "--secure-port", str(number),
            "--log-level", "debug", *flags,
        ]  # fmt: skip
        made = Manager(f"{name}-{len(self._processes)}", command, self.folder, number)
        self._processes.append(made)
        return made

    def scheduler(self) -> Process:
        command = [
            *_program("controlplane.scheduler.main"), "--kubeconfig", str(self.folder / "scheduler.kubeconfig"),
            "--secure-port", "0", "--grpc-port", "0",
        ]  # fmt: skip
        made = Process(f"scheduler-{len(self._processes)}", command, self.folder)
        self._processes.append(made)
        return made

    def hollow_node(self, name: str) -> Process:
        """Start the real agent of one node, on a runtime in memory, that beats every second. The node is `name`1."""
        root = self.folder / f"hollow-{name}"
        command = [
            *_program("nodeagent.main"), "--kubeconfig", str(self.folder / "admin.kubeconfig"),
            "--hollow", "1", "--hollow-prefix", name, "--root-dir", str(root), "--pod-logs-dir", str(root / "logs"),
            "--port", "0",
            "--heartbeat-interval", "1s", "--node-status-report-frequency", "2s",
        ]  # fmt: skip
        made = Process(f"{name}-{len(self._processes)}", command, self.folder)
        self._processes.append(made)
        return made

    def client(self) -> Client:
        return Client(ClientConfig.load(kubeconfig=str(self.folder / "admin.kubeconfig")))


def _program(module: str) -> list[str]:
    return [sys.executable, "-m", module]


async def until(condition: Callable[[], Awaitable[object]], what: str, *, seconds: float = 30.0) -> None:
    """Wait until a condition holds; fail with `what` when it does not in time."""
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = await condition()
        except errors.StatusError as error:
            last = error
        else:
            if last:
                return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what} (last: {last!r})")


class FakeNodes:
    """Nodes that renew their Leases, take every unbound pod and call it ready."""

    def __init__(self, client: Client, *names: str, period: float = 0.4) -> None:
        self.client = client
        self.names = names
        self.alive = set(names)
        self.period = period
        self.seen: dict[str, set[str]] = {}
        """Every Ready status that each node ever had."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for name in self.names:
            await self._register(name)
        for work in (self._beat(), self._run_pods(), self._watch()):
            self._tasks.append(asyncio.get_running_loop().create_task(work))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _register(self, name: str) -> None:
        node = core.Node()
        node.metadata.name = name
        node = await self.client.resource(core.Node).create(node)
        await self.report(name)
        lease = coordination.Lease()
        lease.metadata.name, lease.metadata.namespace = name, "kube-node-lease"
        lease.spec.holderIdentity, lease.spec.leaseDurationSeconds = name, 40
        await self.client.resource(coordination.Lease).create(lease)

    async def report(self, name: str, ready: str = "True") -> None:
        """Write a node's status, as its agent does."""
        nodes = self.client.resource(core.Node)
        while True:
            node = await nodes.get(name)
            del node.status.conditions[:]
            for kind, status in (
                ("Ready", ready),
                ("MemoryPressure", "False"),
                ("DiskPressure", "False"),
                ("PIDPressure", "False"),
            ):
                condition = node.status.conditions.add(type=kind, status=status, reason="Test", message="by the test")
                condition.lastHeartbeatTime.CopyFrom(times.now())
                condition.lastTransitionTime.CopyFrom(times.now())
            try:
                await nodes.update_status(node)
            except errors.ConflictError:
                continue
            return

    async def _beat(self) -> None:
        leases = self.client.resource(coordination.Lease)
        while True:
            for name in sorted(self.alive):
                try:
                    async with asyncio.timeout(2):
                        await leases.patch(
                            name,
                            patch={"spec": {"renewTime": times.to_text(times.micro_now())}},
                            namespace="kube-node-lease",
                        )
                except (errors.StatusError, TimeoutError):
                    continue  # the server is away: an agent tries again too
            await asyncio.sleep(self.period)

    async def _watch(self) -> None:
        nodes = self.client.resource(core.Node)
        while True:
            try:
                listed = await nodes.list()
                for node in listed.items:
                    self._note(node)
                async for events in nodes.watch(resource_version=listed.resource_version):
                    for event in events:
                        if event.type in ("ADDED", "MODIFIED"):
                            self._note(event.object)
            except errors.StatusError:
                await asyncio.sleep(0.2)

    def _note(self, node: core.Node) -> None:
        for condition in node.status.conditions:
            if condition.type == "Ready":
                self.seen.setdefault(node.metadata.name, set()).add(condition.status)

    async def _run_pods(self) -> None:
        pods = self.client.resource(core.Pod)
        turn = 0
        while True:
            try:
                async with asyncio.timeout(5):
                    for pod in (await pods.list()).items:
                        metadata = pod.metadata
                        where = {"namespace": metadata.namespace}
                        if metadata.HasField("deletionTimestamp"):
                            if pod.spec.nodeName in self.alive:
                                await pods.delete(metadata.name, grace_period_seconds=0, **where)
                        elif not pod.spec.nodeName and self.alive:
                            turn += 1
                            node = sorted(self.alive)[turn % len(self.alive)]
                            await self.client.bind(metadata.namespace, metadata.name, node=node)
                        elif pod.spec.nodeName in self.alive and pod.status.phase == "Pending":
                            now = times.to_text(times.now())
                            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
                            status = {"phase": "Running", "conditions": [ready]}
                            await pods.patch(
                                metadata.name,
                                patch={"status": status},
                                patch_type="strategic",
                                subresource="status",
                                **where,
                            )
            except (errors.StatusError, TimeoutError):
                pass  # somebody was faster, or the server is away
            await asyncio.sleep(0.1)


def replicaset(name: str = "web", *, replicas: int = 3, namespace: str = "default") -> apps.ReplicaSet:
    obj = apps.ReplicaSet()
    obj.metadata.name, obj.metadata.namespace = name, namespace
    obj.spec.replicas = replicas
    obj.spec.selector.matchLabels["app"] = name
    _template(obj.spec.template, name)
    return obj


def deployment(name: str = "web", *, replicas: int = 3, image: str = "v1") -> apps.Deployment:
    obj = apps.Deployment()
    obj.metadata.name, obj.metadata.namespace = name, "default"
    obj.spec.replicas = replicas
    obj.spec.selector.matchLabels["app"] = name
    _template(obj.spec.template, name, image)
    return obj


def _template(template: core.PodTemplateSpec, name: str, image: str = "v1") -> None:
    template.metadata.labels["app"] = name
    template.spec.containers.add(name="c", image=f"registry.example/{image}")


def configmap(name: str, *owners: core.ConfigMap, namespace: str = "default", blocks: bool = False) -> core.ConfigMap:
    obj = core.ConfigMap()
    obj.metadata.name, obj.metadata.namespace = name, namespace
    for owner in owners:
        obj.metadata.ownerReferences.add(
            apiVersion="v1",
            kind="ConfigMap",
            name=owner.metadata.name,
            uid=owner.metadata.uid,
            blockOwnerDeletion=blocks,
        )
    return obj
