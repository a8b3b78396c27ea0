"""A container runtime that only remembers: hollow nodes, and tests on a virtual clock.

It behaves as containerd does towards the agent (states, attempts, exit codes, errors for what it does not know), but
starts no process. A container runs until it is stopped, unless the pod's annotation ``wharfinger.dev/hollow-run``
says ``<seconds>`` or ``<seconds>:<exit code>``.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.runtime import (
    CONTAINER_NAME_LABEL,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerUse,
    ExecResult,
    ImageRecord,
    PodRecord,
    PortStreams,
    ProcessStreams,
    RuntimeFailure,
    RuntimeNotFound,
    RuntimeStatus,
    RuntimeUnsupported,
    RuntimeVersion,
    SandboxRecord,
    SandboxSpec,
)

RUN_ANNOTATION = "wharfinger.dev/hollow-run"
SIGTERM_EXIT, SIGKILL_EXIT = 143, 137

_addresses = itertools.count(1)
"""Of all hollow nodes of the process: pod addresses must not repeat."""


@dataclass(slots=True)
class _Pod:
    sandboxes: list[SandboxRecord] = field(default_factory=list)
    containers: list[ContainerRecord] = field(default_factory=list)
    annotations: Mapping[str, str] = field(default_factory=dict)


class HollowRuntime:
    """See the module. `images` None: every image is there."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        images: Sequence[ImageRecord] | None = None,
        ignores_term: bool = False,
    ) -> None:
        self._clock = clock
        self._images = images
        self._pods: dict[str, _Pod] = {}
        self._owner: dict[str, str] = {}
        """Pod uid by sandbox or container id."""
        self._changed: Callable[[str], None] = lambda uid: None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.calls: list[tuple[str, str]] = []
        """What was asked that changes something: verb and name; kept only for tests that set `record_calls`."""
        self.record_calls = False
        self._ignores_term = ignores_term

    def _now(self) -> int:
        return int(self._clock() * 1e9)

    def _note(self, verb: str, what: str) -> None:
        if self.record_calls:
            self.calls.append((verb, what))

    async def version(self) -> RuntimeVersion:
        """Say that it is hollow."""
        return RuntimeVersion("hollow", "1")

    async def status(self) -> RuntimeStatus:
        """Always ready."""
        return RuntimeStatus(True, True)

    async def list_pods(self) -> Mapping[str, PodRecord]:
        """Return all."""
        return {uid: self._record(uid) for uid in self._pods}

    async def inspect(self, uid: str) -> PodRecord:
        """Return one."""
        return self._record(uid)

    def _record(self, uid: str) -> PodRecord:
        pod = self._pods.get(uid)
        if pod is None:
            return PodRecord(uid)
        first = pod.sandboxes[-1] if pod.sandboxes else None
        return PodRecord(
            uid,
            name=first.pod_name if first else "",
            namespace=first.pod_namespace if first else "",
            sandboxes=tuple(reversed(pod.sandboxes)),
            containers=tuple(reversed(pod.containers)),
        )

    async def usage(self) -> Sequence[ContainerUse]:
        """Nothing: what does not run uses nothing that could be measured."""
        return ()

    async def run_sandbox(self, spec: SandboxSpec) -> str:
        """Remember a sandbox and give it an address."""
        self._note("run_sandbox", spec.name)
        pod = self._pods.setdefault(spec.uid, _Pod())
        if any(sandbox.attempt == spec.attempt for sandbox in pod.sandboxes):
            raise RuntimeFailure(f"a sandbox of {spec.namespace}/{spec.name} with attempt {spec.attempt} exists")
        number = next(_addresses)
        address = f"10.{128 + (number >> 16) % 64}.{number >> 8 & 255}.{number & 255}"
        sandbox = SandboxRecord(
            id=secrets.token_hex(32),
            pod_uid=spec.uid,
            pod_name=spec.name,
            pod_namespace=spec.namespace,
            attempt=spec.attempt,
            ready=True,
            created_at=self._now(),
            ips=() if spec.host_network else (address,),
            host_network=spec.host_network,
        )
        pod.sandboxes.append(sandbox)
        pod.annotations = dict(spec.annotations)
        self._owner[sandbox.id] = spec.uid
        return sandbox.id

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """End all in it."""
        pod = self._pods.get(self._owner.get(sandbox_id, ""))
        if pod is None:
            return
        self._note("stop_sandbox", sandbox_id)
        for record in pod.containers:
            if record.sandbox_id == sandbox_id:
                self.end(record.id, SIGKILL_EXIT)
        pod.sandboxes = [replace(one, ready=False) if one.id == sandbox_id else one for one in pod.sandboxes]

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Forget it with its containers."""
        uid = self._owner.pop(sandbox_id, "")
        pod = self._pods.get(uid)
        if pod is None:
            return
        for record in [record for record in pod.containers if record.sandbox_id == sandbox_id]:
            await self.remove_container(record.id)
        pod.sandboxes = [sandbox for sandbox in pod.sandboxes if sandbox.id != sandbox_id]
        if not pod.sandboxes:
            del self._pods[uid]

    async def create_container(self, sandbox_id: str, spec: ContainerSpec, sandbox: SandboxSpec) -> str:
        """Remember a container."""
        self._note("create_container", spec.name)
        uid = self._owner.get(sandbox_id)
        if uid is None:
            raise RuntimeNotFound(f"no sandbox {sandbox_id}")
        pod = self._pods[uid]
        if any((record.name, record.attempt) == (spec.name, spec.attempt) for record in pod.containers):
            raise RuntimeFailure(f"a container {spec.name} with attempt {spec.attempt} exists")
        record = ContainerRecord(
            id=secrets.token_hex(32),
            sandbox_id=sandbox_id,
            pod_uid=uid,
            name=spec.labels.get(CONTAINER_NAME_LABEL, spec.name),
            attempt=spec.attempt,
            state=ContainerState.CREATED,
            created_at=self._now(),
            image=spec.user_image,
            image_id=spec.image,
            annotations=dict(spec.annotations),
        )
        pod.containers.append(record)
        self._owner[record.id] = uid
        return record.id

    async def start_container(self, container_id: str) -> None:
        """Let it run."""
        record = self._find(container_id)
        if record is None:
            raise RuntimeNotFound(f"no container {container_id}")
        self._note("start_container", record.name)
        self._replace(replace(record, state=ContainerState.RUNNING, started_at=self._now()))
        seconds, _, code = self._pods[record.pod_uid].annotations.get(RUN_ANNOTATION, "").partition(":")
        if seconds:
            loop = asyncio.get_running_loop()
            self._timers[container_id] = loop.call_later(float(seconds), self.end, container_id, int(code or 0))

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """End it: with SIGTERM's exit code, or after the grace with SIGKILL's when it ignores SIGTERM."""
        if self._find(container_id) is None:
            return
        self._note("stop_container", container_id)
        if self._ignores_term:
            await asyncio.sleep(grace_seconds)
        self.end(container_id, SIGKILL_EXIT if self._ignores_term else SIGTERM_EXIT)

    async def remove_container(self, container_id: str) -> None:
        """Forget it."""
        self.end(container_id, SIGKILL_EXIT)
        pod = self._pods.get(self._owner.pop(container_id, ""))
        if pod is not None:
            pod.containers = [record for record in pod.containers if record.id != container_id]

    async def exec(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Pretend that the command succeeded."""
        record = self._find(container_id)
        if record is None or record.state is not ContainerState.RUNNING:
            raise RuntimeNotFound(f"no running container {container_id}")
        return ExecResult(0)

    async def open_exec(self, container_id: str, command: Sequence[str], **streams: bool) -> ProcessStreams:
        """Refuse: nothing runs here."""
        raise RuntimeUnsupported("nothing runs on a hollow node, so no command can")

    async def open_attach(self, container_id: str, **streams: bool) -> ProcessStreams:
        """Refuse: nothing runs here."""
        raise RuntimeUnsupported("nothing runs on a hollow node that could be attached to")

    async def open_port(self, sandbox_id: str, port: int) -> PortStreams:
        """Refuse: nothing listens here."""
        raise RuntimeUnsupported("nothing listens on a hollow node")

    async def reopen_log(self, container_id: str) -> None:
        """There are no logs."""

    async def image(self, reference: str) -> ImageRecord | None:
        """Return an image of that name."""
        if self._images is None:
            return ImageRecord(id=f"sha256:{reference}", tags=(reference,))
        return next((image for image in self._images if reference in (image.id, *image.tags, *image.digests)), None)

    async def list_images(self) -> Sequence[ImageRecord]:
        """Return those that were given."""
        return self._images or ()

    async def pull(self, reference: str, auth: Mapping[str, str] | None = None) -> str:
        """Succeed when the image is there."""
        found = await self.image(reference)
        if found is None:
            raise RuntimeNotFound(f"{reference}: not found")
        return found.id

    async def watch(self, changed: Callable[[str], None]) -> None:
        """Tell of every end of a container."""
        self._changed = changed
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Stop the clocks of containers."""
        for timer in self._timers.values():
            timer.cancel()

    def end(self, container_id: str, exit_code: int, reason: str = "") -> None:
        """Let a container end; does nothing when it does not run."""
        record = self._find(container_id)
        if record is None or record.state is not ContainerState.RUNNING:
            return
        if (timer := self._timers.pop(container_id, None)) is not None:
            timer.cancel()
        reason = reason or ("Completed" if exit_code == 0 else "Error")
        self._replace(
            replace(
                record,
                state=ContainerState.EXITED,
                finished_at=self._now(),
                exit_code=exit_code,
                reason=reason,
            )
        )
        self._changed(record.pod_uid)

    def _find(self, container_id: str) -> ContainerRecord | None:
        pod = self._pods.get(self._owner.get(container_id, ""))
        return next((record for record in pod.containers if record.id == container_id), None) if pod else None

    def _replace(self, record: ContainerRecord) -> None:
        pod = self._pods[record.pod_uid]
        pod.containers = [record if one.id == record.id else one for one in pod.containers]
