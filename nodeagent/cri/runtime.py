"""The :class:`~nodeagent.runtime.Runtime` that containerd serves over CRI."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from nodeagent.cri import convert, streaming
from nodeagent.cri.connection import CALL_SECONDS, PULL_SECONDS, SANDBOX_SECONDS, Connection, call, translate
from nodeagent.cri.events import subscribe
from nodeagent.runtime import (
    POD_UID_LABEL,
    ContainerRecord,
    ContainerState,
    ExecResult,
    ImageRecord,
    PodRecord,
    RuntimeFailure,
    RuntimeNotFound,
    RuntimeStatus,
    RuntimeUnavailable,
    RuntimeVersion,
    SandboxRecord,
)
from wharfinger.proto.cri import runtime_v1_pb2 as cri

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from nodeagent.runtime import ContainerSpec, ContainerUse, PortStreams, ProcessStreams, SandboxSpec

log = logging.getLogger(__name__)

_LIST_SECONDS = 20.0


class CriRuntime:
    """Containerd behind its socket."""

    def __init__(self, endpoint: str) -> None:
        self._connection = Connection(endpoint)
        self._runtime = self._connection.runtime
        self._images = self._connection.images
        self._ended: dict[str, ContainerRecord] = {}
        """Ended containers in full, by id: they never change, so they are asked for once."""

    async def version(self) -> RuntimeVersion:
        """Ask for name and version."""
        answer = await call("version", self._runtime.Version(cri.VersionRequest(), timeout=10))
        return RuntimeVersion(answer.runtime_name, answer.runtime_version.removeprefix("v").split("~")[0])

    async def status(self) -> RuntimeStatus:
        """Ask for the conditions RuntimeReady and NetworkReady."""
        try:
            answer = await call("status", self._runtime.Status(cri.StatusRequest(), timeout=10))
        except RuntimeFailure as error:
            return RuntimeStatus(False, False, "ContainerRuntimeUnreachable", str(error))
        conditions = {condition.type: condition for condition in answer.status.conditions}
        for name in ("RuntimeReady", "NetworkReady"):
            condition = conditions.get(name)
            if condition is None or not condition.status:
                reason = condition.reason if condition else "Missing"
                message = condition.message if condition else f"the runtime reports no {name}"
                return RuntimeStatus(name == "NetworkReady", False, reason, message)
        return RuntimeStatus(True, True)

    async def list_pods(self) -> Mapping[str, PodRecord]:
        """Two lists, joined by pod; what carries no pod's label was made by somebody else and is left alone."""
        sandboxes, containers = await asyncio.gather(
            call("list_podsandbox", self._runtime.ListPodSandbox(cri.ListPodSandboxRequest(), timeout=_LIST_SECONDS)),
            call("list_containers", self._runtime.ListContainers(cri.ListContainersRequest(), timeout=_LIST_SECONDS)),
        )
        known = {item.id for item in containers.containers}
        for gone in self._ended.keys() - known:
            del self._ended[gone]
        by_pod: dict[str, tuple[list[SandboxRecord], list[ContainerRecord]]] = {}
        for item in sandboxes.items:
            by_pod.setdefault(item.labels.get(POD_UID_LABEL, ""), ([], []))[0].append(convert.sandbox_listed(item))
        for item in containers.containers:
            by_pod.setdefault(item.labels.get(POD_UID_LABEL, ""), ([], []))[1].append(convert.container_listed(item))
        return {uid: _pod(uid, *records) for uid, records in by_pod.items() if uid}

    async def inspect(self, uid: str) -> PodRecord:
        """Two filtered lists, then the state of each sandbox and container that is not known to have ended."""
        selector = {POD_UID_LABEL: uid}
        sandboxes, containers = await asyncio.gather(
            call(
                "list_podsandbox",
                self._runtime.ListPodSandbox(
                    cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=selector)),
                    timeout=_LIST_SECONDS,
                ),
            ),
            call(
                "list_containers",
                self._runtime.ListContainers(
                    cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=selector)),
                    timeout=_LIST_SECONDS,
                ),
            ),
        )
        found: list[SandboxRecord | ContainerRecord | None] = list(
            await asyncio.gather(
                *(self._sandbox(item.id) for item in sandboxes.items),
                *(self._container(item.id, item.pod_sandbox_id) for item in containers.containers),
            )
        )
        return _pod(
            uid,
            [record for record in found if isinstance(record, SandboxRecord)],
            [record for record in found if isinstance(record, ContainerRecord)],
        )

    async def _sandbox(self, sandbox_id: str) -> SandboxRecord | None:
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        try:
            answer = await call("podsandbox_status", self._runtime.PodSandboxStatus(request, timeout=_LIST_SECONDS))
        except RuntimeNotFound:
            return None
        return convert.sandbox_status(answer.status)

    async def _container(self, container_id: str, sandbox_id: str) -> ContainerRecord | None:
        if (ended := self._ended.get(container_id)) is not None:
            return ended
        request = cri.ContainerStatusRequest(container_id=container_id)
        try:
            answer = await call("container_status", self._runtime.ContainerStatus(request, timeout=_LIST_SECONDS))
        except RuntimeNotFound:
            return None
        record = convert.container_status(answer.status, sandbox_id)
        if record.state is ContainerState.EXITED:
            self._ended[container_id] = record
        return record

    async def usage(self) -> Sequence[ContainerUse]:
        """List the statistics of all containers that run."""
        request = cri.ListContainerStatsRequest()
        answer = await call("list_container_stats", self._runtime.ListContainerStats(request, timeout=_LIST_SECONDS))
        return [
            convert.container_use(item)
            for item in answer.stats
            if item.attributes.labels.get(POD_UID_LABEL) and item.cpu.HasField("usage_core_nano_seconds")
        ]

    async def run_sandbox(self, spec: SandboxSpec) -> str:
        """Create and start a sandbox."""
        request = cri.RunPodSandboxRequest(config=convert.sandbox_config(spec), runtime_handler=spec.runtime_handler)
        answer = await call("run_podsandbox", self._runtime.RunPodSandbox(request, timeout=SANDBOX_SECONDS))
        return str(answer.pod_sandbox_id)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox."""
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await _unless_gone("stop_podsandbox", self._runtime.StopPodSandbox(request, timeout=SANDBOX_SECONDS))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox."""
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await _unless_gone("remove_podsandbox", self._runtime.RemovePodSandbox(request, timeout=SANDBOX_SECONDS))

    async def create_container(self, sandbox_id: str, spec: ContainerSpec, sandbox: SandboxSpec) -> str:
        """Create a container."""
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox_id,
            config=convert.container_config(spec, sandbox),
            sandbox_config=convert.sandbox_config(sandbox),
        )
        answer = await call("create_container", self._runtime.CreateContainer(request, timeout=CALL_SECONDS))
        return str(answer.container_id)

    async def start_container(self, container_id: str) -> None:
        """Start a container."""
        request = cri.StartContainerRequest(container_id=container_id)
        await call("start_container", self._runtime.StartContainer(request, timeout=CALL_SECONDS))

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop a container; the deadline leaves room for the grace."""
        request = cri.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        await _unless_gone("stop_container", self._runtime.StopContainer(request, timeout=grace_seconds + CALL_SECONDS))

    async def remove_container(self, container_id: str) -> None:
        """Remove a container."""
        request = cri.RemoveContainerRequest(container_id=container_id)
        await _unless_gone("remove_container", self._runtime.RemoveContainer(request, timeout=CALL_SECONDS))
        self._ended.pop(container_id, None)

    async def exec(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run a command; containerd kills it after the timeout, ours is a little later."""
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=max(1, round(timeout)))
        try:
            answer = await self._runtime.ExecSync(request, timeout=timeout + 5)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED or "deadline exceeded" in (error.details() or ""):
                raise TimeoutError(f"command {list(command)} took longer than {timeout:g} s") from error
            raise translate(error) from error
        return ExecResult(answer.exit_code, answer.stdout, answer.stderr)

    async def open_exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> ProcessStreams:
        """Let the runtime prepare the command, then join it at the URL that it names."""
        request = cri.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr
        )
        answer = await call("exec", self._runtime.Exec(request, timeout=CALL_SECONDS))
        return await streaming.Process.open(answer.url, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)

    async def open_attach(
        self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> ProcessStreams:
        """As for a command."""
        request = cri.AttachRequest(container_id=container_id, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr)
        answer = await call("attach", self._runtime.Attach(request, timeout=CALL_SECONDS))
        return await streaming.Process.open(answer.url, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)

    async def open_port(self, sandbox_id: str, port: int) -> PortStreams:
        """As for a command."""
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=[port])
        answer = await call("port_forward", self._runtime.PortForward(request, timeout=CALL_SECONDS))
        return await streaming.Port.open(answer.url, port)

    async def reopen_log(self, container_id: str) -> None:
        """Reopen a log."""
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await call("reopen_container_log", self._runtime.ReopenContainerLog(request, timeout=_LIST_SECONDS))

    async def image(self, reference: str) -> ImageRecord | None:
        """Look an image up."""
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=reference))
        answer = await call("image_status", self._images.ImageStatus(request, timeout=_LIST_SECONDS))
        return convert.image_record(answer.image) if answer.image.id else None

    async def list_images(self) -> Sequence[ImageRecord]:
        """List images."""
        answer = await call("list_images", self._images.ListImages(cri.ListImagesRequest(), timeout=_LIST_SECONDS))
        return [convert.image_record(item) for item in answer.images]

    async def pull(self, reference: str, auth: Mapping[str, str] | None = None) -> str:
        """Pull an image."""
        request = cri.PullImageRequest(image=cri.ImageSpec(image=reference))
        if auth:
            request.auth.CopyFrom(cri.AuthConfig(**auth))
        answer = await call("pull_image", self._images.PullImage(request, timeout=PULL_SECONDS))
        return str(answer.image_ref)

    async def watch(self, changed: Callable[[str], None]) -> None:
        """Follow containerd's own events; containerd 1.6 has none in CRI."""
        while True:
            try:
                await subscribe(self._connection.channel, lambda: changed(""))
            except RuntimeUnavailable as error:
                log.debug("no runtime events for now", extra={"error": str(error)})
            except RuntimeFailure as error:
                log.info("the runtime serves no events; relisting alone must do", extra={"error": str(error)})
                return
            changed("")
            await asyncio.sleep(1)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


async def _unless_gone(operation: str, answer: Awaitable[object]) -> None:
    try:
        await call(operation, answer)
    except RuntimeNotFound:
        log.debug("already gone")


def _pod(uid: str, sandboxes: list[SandboxRecord], containers: list[ContainerRecord]) -> PodRecord:
    sandboxes.sort(key=lambda record: (-record.created_at, -record.attempt))
    containers.sort(key=lambda record: (-record.created_at, -record.attempt))
    first = sandboxes[0] if sandboxes else None
    return PodRecord(
        uid,
        name=first.pod_name if first else "",
        namespace=first.pod_namespace if first else "",
        sandboxes=tuple(sandboxes),
        containers=tuple(containers),
    )
