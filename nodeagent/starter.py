"""Brings a pod's parts to life: volumes, sandbox, containers. Each step tells the API by events what it does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from nodeagent import payload, volumes
from nodeagent.cgroups import make_pod_cgroup, remove_pod_cgroup
from nodeagent.containers import Surroundings, container_spec
from nodeagent.context import NodeContext
from nodeagent.env import ConfigError, environment
from nodeagent.hooks import HookError, run_hook
from nodeagent.images import ImageProblem
from nodeagent.lifecycle import Start
from nodeagent.pullsecrets import logins_of
from nodeagent.resources import pod_cgroup_resources
from nodeagent.runtime import (
    ContainerRecord,
    Mount,
    PodRecord,
    RuntimeFailure,
    RuntimeUnavailable,
    SandboxRecord,
    SandboxSpec,
)
from nodeagent.sandboxes import hostname, pod_cgroup, pod_domain, pod_log_dir, sandbox_spec
from nodeagent.volumes import PodPaths, VolumeError
from wharfinger.api.types import core

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 10.0
"""Between attempts to start a container that cannot be configured or created, or whose image is missing."""


class NotStarted(Exception):  # noqa: N818  (an outcome, not a bug)
    """Raised when a container was not started; reason and message are those of its waiting state."""

    def __init__(self, reason: str, message: str, *, retry_at: float = 0.0, created: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_at = retry_at
        self.created = created
        """Whether the runtime has a record of it: its back-off decides when to try again."""


class Interrupted(NotStarted):
    """Raised when the pod is to end while something was awaited."""


class Starter:
    """See the module."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    def paths(self, pod: core.Pod) -> PodPaths:
        """Return where the pod's files lie."""
        return PodPaths.of(self._context.root_dir, pod.metadata.uid)

    async def volumes(self, pod: core.Pod, status: core.PodStatus) -> Mapping[str, Path]:
        """Set the pod's volumes up, or bring them up to date. Raises VolumeError."""
        context = self._context
        if not context.files:
            return {volume.name: Path("/") for volume in pod.spec.volumes}
        inputs = payload.Inputs(pod, status, context.source, context.allocatable)
        return await volumes.set_up(pod, self.paths(pod), inputs)

    async def sandbox(self, pod: core.Pod, attempt: int) -> tuple[SandboxRecord, PodRecord]:
        """Make the pod's sandbox; return it and what there is of the pod now. Raises RuntimeFailure."""
        spec = sandbox_spec(pod, attempt, self._context.sandboxes)
        if self._context.files:
            pod_log_dir(self._context.sandboxes, pod).mkdir(parents=True, exist_ok=True)
            make_pod_cgroup(spec.cgroup_parent, pod_cgroup_resources(pod), pids=self._context.pod_pids_limit)
        async with self._context.starts:
            sandbox_id = await self._context.runtime.run_sandbox(spec)
        record = await self._context.runtime.inspect(pod.metadata.uid)
        for sandbox in record.sandboxes:
            if sandbox.id == sandbox_id:
                return sandbox, record
        raise RuntimeFailure(f"the sandbox {sandbox_id} was made, but the runtime does not know it")

    async def container(
        self,
        pod: core.Pod,
        start: Start,
        sandbox: SandboxRecord,
        ready: Mapping[str, Path],
        status: core.PodStatus,
        stop: asyncio.Event,
    ) -> None:
        """Start a container. Raises NotStarted, RuntimeUnavailable."""
        context, container = self._context, start.container

        def say(type_: str, reason: str, message: str) -> None:
            context.events.event(pod, type_, reason, message, field_path=start.field_path)

        if start.target and not start.target_id:
            text = f'the container "{start.target}", whose processes it is to see, does not run'
            say("Warning", "Failed", f"Error: {text}")
            raise NotStarted("CreateContainerConfigError", text, retry_at=context.clock() + RETRY_SECONDS)
        if start.stale is not None:
            await context.runtime.remove_container(start.stale.id)
        retry_at = context.clock() + RETRY_SECONDS
        logins, missing = await logins_of(pod, context.source)
        if missing:
            text = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); images are pulled without them"
            context.events.event(pod, "Warning", "FailedToRetrieveImagePullSecret", text)
        try:
            image = await _unless(
                stop,
                context.images.ensure(
                    container.image, container.imagePullPolicy, pod_uid=pod.metadata.uid, say=say, logins=logins
                ),
            )
        except ImageProblem as error:
            say("Warning", "Failed", f"Error: {error.waiting.reason}")
            again = context.images.retry_at(pod.metadata.uid, container.image)
            raise NotStarted(error.waiting.reason, error.waiting.message, retry_at=again or retry_at) from error
        sandbox_config = sandbox_spec(pod, sandbox.attempt, context.sandboxes)
        try:
            values = await environment(
                pod,
                container,
                status=status,
                source=context.source,
                allocatable=context.allocatable,
                services=context.services,
            )
            surroundings = Surroundings(
                image=image,
                environment=values,
                mounts=self._mounts(pod, container, ready, values, sandbox, sandbox_config),
                termination_file=self._termination_file(pod, start),
                memory_capacity=context.memory_capacity,
                seccomp_root=context.sandboxes.seccomp_root,
            )
            spec = container_spec(pod, container, start.restart_count, surroundings, pid_target=start.target_id)
        except (ConfigError, VolumeError, OSError) as error:
            say("Warning", "Failed", f"Error: {error}")
            raise NotStarted("CreateContainerConfigError", str(error), retry_at=retry_at) from error
        async with context.starts:
            try:
                container_id = await context.runtime.create_container(sandbox.id, spec, sandbox_config)
            except RuntimeUnavailable:
                raise
            except RuntimeFailure as error:
                say("Warning", "Failed", f"Error: {error}")
                raise NotStarted("CreateContainerError", str(error), retry_at=retry_at) from error
            say("Normal", "Created", f"Container created: {container.name}")
            try:
                await context.runtime.start_container(container_id)
            except RuntimeUnavailable:
                raise
            except RuntimeFailure as error:
                say("Warning", "Failed", f"Error: {error}")
                raise NotStarted("RunContainerError", str(error), created=True) from error
        say("Normal", "Started", f"Container started: {container.name}")
        if container.lifecycle.HasField("postStart"):
            await self._post_start(pod, start, container_id)

    async def _post_start(self, pod: core.Pod, start: Start, container_id: str) -> None:
        container = start.container
        try:
            await run_hook(self._context, pod, container, container.lifecycle.postStart, container_id)
        except HookError as error:
            events = self._context.events
            events.event(pod, "Warning", "FailedPostStartHook", str(error), field_path=start.field_path)
            events.event(pod, "Normal", "Killing", "FailedPostStartHook", field_path=start.field_path)
            await self._context.runtime.stop_container(container_id, 2)
            raise NotStarted("PostStartHookError", str(error), created=True) from error

    def _mounts(
        self,
        pod: core.Pod,
        container: core.Container,
        ready: Mapping[str, Path],
        values: Mapping[str, str],
        sandbox: SandboxRecord,
        config: SandboxSpec,
    ) -> list[Mount]:
        if not self._context.files:
            return []
        result = volumes.mounts(pod, container, ready, values, self.paths(pod))
        if not pod.spec.hostNetwork and all(mount.container_path != "/etc/hosts" for mount in result):
            hosts = self.paths(pod).etc_hosts
            if not hosts.exists():
                domain = pod_domain(pod, self._context.sandboxes)
                name = hostname(pod, self._context.sandboxes).split(".")[0]
                volumes.write_hosts(pod, hosts, ips=sandbox.ips, hostname=name, domain=domain)
            result.append(Mount("/etc/hosts", str(hosts)))
        return result

    def _termination_file(self, pod: core.Pod, start: Start) -> Path:
        path = self.paths(pod).termination_file(start.container.name, start.restart_count)
        if self._context.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            path.chmod(0o666)  # the container may run as anybody
        return path

    # -- cleaning up

    async def clean_up(self, pod: core.Pod) -> None:
        """Remove the pod's files and cgroup; not its logs. Raises VolumeError, OSError."""
        if self._context.files:
            await asyncio.to_thread(volumes.tear_down, self.paths(pod))
            await asyncio.to_thread(remove_pod_cgroup, pod_cgroup(self._context.sandboxes, pod))

    def remove_log(self, record: ContainerRecord) -> None:
        """Remove the log of one run of a container, and what rotation left of it."""
        if record.log_path and self._context.files:
            path = Path(record.log_path)
            for file in path.parent.glob(f"{path.name}*"):
                with contextlib.suppress(OSError):
                    file.unlink()

    def remove_logs(self, pod: core.Pod) -> None:
        """Remove all logs of the pod."""
        if self._context.files:
            shutil.rmtree(pod_log_dir(self._context.sandboxes, pod), ignore_errors=True)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, or raise Interrupted as soon as `stop` is set."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Interrupted("ContainerCreating", "")
        return task.result()
    finally:
        stopped.cancel()
        task.cancel()
