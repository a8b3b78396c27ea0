"""Plays the steps of a recorded case (see :mod:`goldencase`) against this agent, in a namespace of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

from tests.node.goldencase import Outcome, recorded_events, signature
from wharfinger.api import codec, errors, kinds
from wharfinger.api.types import core
from wharfinger.client import Client, Informer
from wharfinger.devtools.containerd import NodeRuntime
from wharfinger.proto.native import streams_v1_pb2

WAIT_SECONDS = 60.0
_IMAGE = "docker.io/library/busybox:latest"


class Player:
    """Plays one case in a namespace of its own."""

    def __init__(self, client: Client, runtime: NodeRuntime, *, node: str, name: str, host_dir: Path) -> None:
        self._client = client
        self._runtime = runtime
        self._node = node
        self._namespace = name
        self._host_dir = host_dir
        self._pods: dict[str, core.Pod] = {}
        self._changed = asyncio.Event()
        self._manifests: list[dict[str, Any]] = []
        self._case: dict[str, Any] = {}
        self.outcome = Outcome()

    async def play(self, case: dict[str, Any]) -> Outcome:
        """Play all steps."""
        self._case = case
        namespace = core.Namespace()
        namespace.metadata.name = self._namespace
        await self._client.resource(core.Namespace).create(namespace)
        # The controller that would make it does not run here; the recordings are of pods without tokens.
        account = core.ServiceAccount(automountServiceAccountToken=False)
        account.metadata.name, account.metadata.namespace = "default", self._namespace
        await self._client.resource(core.ServiceAccount).create(account)
        informer = Informer(self._client.resource(core.Pod), namespace=self._namespace)
        informer.add_handler(on_add=self._seen, on_update=lambda _, new: self._seen(new), on_delete=self._gone)
        await informer.start()
        await informer.wait_synced()
        text = json.dumps(case["manifests"])
        text = text.replace(_IMAGE, "wharf.local/busybox:1").replace('"nodeName": "n1"', f'"nodeName": "{self._node}"')
        text = text.replace("<hostdir>", str(self._host_dir)).replace("<hostIP>", "127.0.0.1")
        self._manifests = json.loads(text)
        try:
            for step in case["steps"]:
                await self._step(step)
            await self._read_events(case)
        finally:
            await informer.stop()
        return self.outcome

    def _seen(self, pod: core.Pod) -> None:
        self._pods[pod.metadata.name] = pod
        status = codec.to_json(pod).get("status") or {}
        self.outcome.states.append((pod.metadata.name, status))
        self._changed.set()

    def _gone(self, pod: core.Pod) -> None:
        self._pods.pop(pod.metadata.name, None)
        self._changed.set()

    async def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            self._changed.clear()
            try:
                async with asyncio.timeout(max(0.01, deadline - time.monotonic())):
                    await self._changed.wait()
            except TimeoutError:
                last = self.outcome.states[-1] if self.outcome.states else None
                raise AssertionError(f"waited in vain: {what}; last state {last and signature(last[1])}") from None

    async def _step(self, step: str) -> None:
        for pattern, action in self._actions:
            if match := re.fullmatch(pattern, step):
                await action(self, *match.groups())
                return
        raise AssertionError(f"this step is not known: {step}")

    async def _create(self) -> None:
        for manifest in self._manifests:
            message = kinds.by_kind(manifest["apiVersion"], manifest["kind"])
            assert message is not None
            obj: Any = codec.from_json(json.dumps(manifest).encode(), message.message).message
            if message.namespaced:
                obj.metadata.namespace = self._namespace
            await self._client.resource(type(obj)).create(obj)

    async def _wait_for(self, pod: str, what: str) -> None:
        await self._until(f"{pod}: {what}", lambda: pod in self._pods and reached(self._pods[pod].status, what))

    async def _sleep(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    async def _delete(self, pod: str, grace: str | None = None) -> None:
        await self._client.resource(core.Pod).delete(
            pod, namespace=self._namespace, grace_period_seconds=int(grace) if grace else None
        )

    async def _wait_gone(self, pod: str) -> None:
        await self._until(f"{pod} is gone", lambda: pod not in self._pods)

    async def _finish(self) -> None:
        for pod in list(self._pods.values()):
            for container in (*pod.spec.initContainers, *pod.spec.containers):
                await self._read_log(pod.metadata.name, container.name)
        for name in list(self._pods):
            try:
                await self._delete(name)
            except errors.NotFoundError:
                continue  # the case's own deletion was only on its way to us
        for name in list(self._pods):
            await self._wait_gone(name)

    async def _read_log(self, pod: str, container: str) -> None:
        """Read a log; a container that has just started may not have said all yet, so wait a little."""
        recorded = (one for one in self._case.get("logs") or [] if (one["pod"], one["container"]) == (pod, container))
        lines = max((one["text"].count("\n") for one in recorded), default=0)
        deadline = time.monotonic() + 3
        while True:
            request = streams_v1_pb2.LogRequest(namespace=self._namespace, pod=pod, container=container)
            try:
                data = b"".join([chunk async for chunk in self._client.log(request)])
            except errors.StatusError:
                return
            self.outcome.logs[pod, container] = data.decode()
            if data.count(b"\n") >= lines or time.monotonic() > deadline:
                return
            await asyncio.sleep(0.1)

    async def _kill(self, pod: str, container: str, number: str) -> None:
        status = (
            next(one for one in self._pods[pod].status.containerStatuses if one.name == container)
            if any(one.name == container for one in self._pods[pod].status.containerStatuses)
            else next(one for one in self._pods[pod].status.initContainerStatuses if one.name == container)
        )
        os.kill(self._pid(status.containerID.rpartition("/")[2]), int(number))

    async def _kill_sandbox(self, number: str) -> None:
        pod = next(iter(self._pods.values()))
        own = {one.containerID.rpartition("/")[2] for one in pod.status.containerStatuses}
        cgroup = Path(f"/sys/fs/cgroup/memory{self._runtime.cgroup_parent}/kubepods")
        for folder in cgroup.rglob(f"pod{pod.metadata.uid}/*"):
            running = (folder / "cgroup.procs").read_text().split() if folder.is_dir() else []
            if running and folder.name not in own:
                os.kill(int(running[0]), int(number))

    def _pid(self, container_id: str) -> int:
        listed = subprocess.run(
            ["ctr", "--address", str(self._runtime.socket), "-n", "k8s.io", "tasks", "list"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return next(int(line.split()[1]) for line in listed.stdout.splitlines() if line.startswith(container_id))

    async def _deadline(self, seconds: str) -> None:
        await self._client.resource(core.Pod).patch(
            "p", namespace=self._namespace, patch={"spec": {"activeDeadlineSeconds": int(seconds)}}, patch_type="merge"
        )

    async def _get(self, port: str, path: str) -> None:
        reader, writer = await asyncio.open_connection(self._runtime.node_ip, int(port))
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        self.outcome.outputs.append((await reader.read()).decode())
        writer.close()

    async def _create_config_map(self, name: str, key: str, value: str) -> None:
        config_map = core.ConfigMap(data={key: value})
        config_map.metadata.name, config_map.metadata.namespace = name, self._namespace
        await self._client.resource(core.ConfigMap).create(config_map)

    async def _patch_labels(self) -> None:
        patch = {"metadata": {"labels": {"app": "y"}, "annotations": {"note": "changed"}}}
        await self._client.resource(core.Pod).patch("p", namespace=self._namespace, patch=patch, patch_type="merge")

    async def _open_gate(self, gate: str) -> None:
        pod = core.Pod()
        pod.CopyFrom(self._pods["p"])
        pod.status.conditions.add(type=gate, status="True")
        await self._client.resource(core.Pod).update_status(pod)

    async def _patch_image(self, image: str) -> None:
        image = image.replace("<hostIP>", "127.0.0.1")
        patch = {"spec": {"containers": [{"name": "c", "image": image}]}}
        await self._client.resource(core.Pod).patch("p", namespace=self._namespace, patch=patch, patch_type="strategic")

    async def _run_in(self, pod: str, container: str, command: str) -> None:
        status = next(one for one in self._pods[pod].status.containerStatuses if one.name == container)
        pid = self._pid(status.containerID.rpartition("/")[2])
        done = await asyncio.create_subprocess_exec(
            "nsenter", f"--target={pid}", "--all", "/bin/sh", "-c", command, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await done.communicate()
        self.outcome.outputs.append(output.decode())

    async def _sample(self, pod: str, container: str) -> None:
        status = next(one for one in self._pods[pod].status.containerStatuses if one.name == container)
        pid = self._pid(status.containerID.rpartition("/")[2])
        self.outcome.samples.append(host_view(pid, self._runtime.cgroup_parent))

    async def _read_events(self, case: dict[str, Any]) -> None:
        wanted = recorded_events(case)
        deadline = time.monotonic() + 5
        while True:
            listed = await self._client.resource(core.Event).list(namespace=self._namespace)
            self.outcome.events = {
                (event.involvedObject.name, event.type, event.reason, event.involvedObject.fieldPath)
                for event in listed.items
                if event.source.component == "kubelet"
            }
            if wanted <= self.outcome.events or time.monotonic() > deadline:
                return
            await asyncio.sleep(0.1)

    _actions: ClassVar[list[tuple[str, Callable[..., Awaitable[None]]]]] = [
        (r"create the manifests in order", _create),
        (r"wait until (\S+) is gone", _wait_gone),
        (r"wait until (\S+): (.+)", _wait_for),
        (r"wait ([\d.]+) s", _sleep),
        (r"delete pod (\S+)(?: with gracePeriodSeconds=(\d+))?", _delete),
        (r"read the logs, delete, wait until gone", _finish),
        (r"kill the first process of (\S+)/(\S+) from the host with signal (\d+)", _kill),
        (r"kill -(\d+) the sandbox \(pause\) process", _kill_sandbox),
        (r"patch activeDeadlineSeconds (\d+)", _deadline),
        (r"sample cgroup of (\S+)/(\S+)", _sample),
        (r"patch the image to (\S+)", _patch_image),
        (r"patch labels and annotations", _patch_labels),
        (r"patch status: condition (\S+) True", _open_gate),
        (r"GET http://<hostIP>:(\d+)(\S+) from the node", _get),
        (r"create configMap (\S+) with (\S+)=(\S+)", _create_config_map),
        (r"run in (\S+)/(\S+): (.+)", _run_in),
    ]


def host_view(pid: int, cgroup_root: str) -> dict[str, Any]:
    """Return what the host shows of a process: its cgroups' limits, its rights and ids (cgroup v1)."""
    cgroups = {line.split(":")[1]: line.split(":")[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()}
    own = cgroups["memory"]

    def limits(group: str) -> dict[str, str]:
        def read(controller: str, name: str) -> str:
            return Path(f"/sys/fs/cgroup/{controller}{group}/{name}").read_text().strip()

        memory = int(read("memory", "memory.limit_in_bytes"))
        return {
            "memory.limit_in_bytes": "unlimited" if memory > 1 << 60 else str(memory),
            "cpu.shares": read("cpu", "cpu.shares"),
            "cpu.cfs_quota_us": read("cpu", "cpu.cfs_quota_us"),
            "cpu.cfs_period_us": read("cpu", "cpu.cfs_period_us"),
        }

    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    names = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups")
    return {
        "oom_score_adj": int(Path(f"/proc/{pid}/oom_score_adj").read_text()),
        "path": re.sub(r"pod[0-9a-f-]{36}/[0-9a-f]{64}", "pod<uid>/<id>", own.replace(cgroup_root, "<cgroupRoot>", 1)),
        "container": limits(own),
        "pod": limits(own.rpartition("/")[0]),
        **{name: " ".join(status[name].split()) for name in names},
    }


def reached(status: core.PodStatus, what: str) -> bool:
    """Whether a pod is where a step waits for it to be."""
    containers = [*status.initContainerStatuses, *status.containerStatuses]
    conditions = {condition.type: condition.status for condition in status.conditions}
    if match := re.fullmatch(r"(\w+) is True", what):
        return conditions.get(match.group(1)) == "True"
    if what.startswith("phase "):
        return status.phase in what.removeprefix("phase ").split(" or ")
    if match := re.fullmatch(r"(\d+) restarts?", what):
        return sum(one.restartCount for one in containers) >= int(match.group(1))
    if match := re.fullmatch(r"(\w+) waits in (\w+)", what):
        return any(one.name == match.group(1) and one.state.waiting.reason == match.group(2) for one in containers)
    if match := re.fullmatch(r"(\w+) waits", what):
        return any(one.name == match.group(1) and one.state.waiting.message for one in containers)
    if match := re.fullmatch(r"(\w+) (?:runs|again)", what):
        again = what.endswith("again")
        if match.group(1) == "running":
            return any(one.restartCount > 0 and one.state.HasField("running") for one in containers)
        return any(
            one.name == match.group(1) and one.state.HasField("running") and (one.restartCount > 0 or not again)
            for one in containers
        )
    if what == "restarted once":
        return any(one.restartCount > 0 for one in containers)
    if what.startswith("running or "):
        return any(one.state.HasField("running") for one in containers)
    if what == "restarted once and running":
        return any(one.restartCount > 0 and one.state.HasField("running") for one in containers)
    if what == "Failed or running":
        return status.phase in ("Failed", "Running")
    if what == "ContainersReady":
        return conditions.get(what) == "True"
    return any(one.state.waiting.reason == what for one in containers)
