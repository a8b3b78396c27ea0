"""Readiness, liveness and startup probes: one task a probe of a running container; verdicts go to the pod's memory.

Liveness and readiness wait for the startup probe. A verdict changes only after so many like results in a row as the
thresholds say. https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from nodeagent.context import NodeContext
from nodeagent.memory import PodMemory, Unhealthy
from nodeagent.network import grpc_health, http_status, reason, resolve_port, rooted, tcp_open
from nodeagent.podspec import all_containers, is_sidecar
from nodeagent.runtime import ContainerState, PodRecord, RuntimeFailure, RuntimeUnavailable
from wharfinger import hostport
from wharfinger.api.types import core

log = logging.getLogger(__name__)

KINDS = ("startup", "readiness", "liveness")
MAX_OUTPUT = 10_240
FIRST_SECONDS = 0.5
"""What a container has at least before it is probed for the first time."""


@dataclass(frozen=True, slots=True)
class _Target:
    pod: core.Pod
    container: core.Container
    container_id: str
    started_at: float
    field_path: str
    host: str


class Prober:
    """The probes of one pod."""

    def __init__(self, context: NodeContext, memory: PodMemory, changed: Callable[[], None]) -> None:
        self._context = context
        self._memory = memory
        self._changed = changed
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def adopt(self, status: core.PodStatus, record: PodRecord) -> None:
        """Believe what the API was told of containers that still run: a restarted agent makes no ready pod unready."""
        running = {one.id for one in record.running}
        for known in (*status.initContainerStatuses, *status.containerStatuses):
            ident = known.containerID.rpartition("/")[2]
            if ident in running:
                self._memory.ready.setdefault(ident, known.ready)
                self._memory.started.setdefault(ident, known.started)

    def follow(self, pod: core.Pod, record: PodRecord) -> None:
        """Probe what runs, and nothing else."""
        wanted: set[tuple[str, str]] = set()
        for path, container in all_containers(pod):
            newest = record.latest(container.name)
            ordinary = path.startswith("spec.containers") or is_sidecar(container)
            if newest is None or newest.state is not ContainerState.RUNNING or not ordinary:
                continue
            sandbox = next((one for one in record.sandboxes if one.id == newest.sandbox_id), None)
            own = sandbox.ips if sandbox is not None and sandbox.ips else self._context.view.host_ips
            host = own[0] if own else "127.0.0.1"
            target = _Target(pod, container, newest.id, newest.started_at / 1e9, path, host)
            for kind in KINDS:
                if not container.HasField(f"{kind}Probe"):
                    continue
                if kind == "startup" and self._memory.started.get(newest.id, False):
                    continue
                key = (newest.id, kind)
                wanted.add(key)
                if key not in self._tasks:
                    task = asyncio.get_running_loop().create_task(self._probe(kind, target), name=f"probe {key}")
                    task.add_done_callback(_report)
                    self._tasks[key] = task
        for key in [key for key in self._tasks if key not in wanted]:
            self._tasks.pop(key).cancel()
        running = {one.id for one in record.running}
        for table in (self._memory.ready, self._memory.started, self._memory.unhealthy):
            for ident in [ident for ident in table if ident not in running]:
                del table[ident]

    def stopping(self, record: PodRecord) -> None:
        """The pod ends: only readiness is still of interest, and only of what runs."""
        running = {one.id for one in record.running}
        for key in [key for key in self._tasks if key[1] != "readiness" or key[0] not in running]:
            self._tasks.pop(key).cancel()

    def close(self) -> None:
        """Stop all probes."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _probe(self, kind: str, target: _Target) -> None:
        spec: core.Probe = getattr(target.container, f"{kind}Probe")
        memory, clock = self._memory, self._context.clock
        period = spec.periodSeconds or 10
        due = target.started_at + max(spec.initialDelaySeconds, FIRST_SECONDS)
        if clock() < due:
            await asyncio.sleep(due - clock())
        elif clock() - target.started_at > period:
            await asyncio.sleep(random.random() * period)  # adopted after a restart: not all at once
        row, last = 0, None
        while True:
            if kind != "startup" and not memory.started.get(target.container_id, not _has_startup(target)):
                await asyncio.sleep(min(period, 1))
                continue
            outcome = await self._once(spec, target)
            if outcome is None:  # the runtime is away: no verdict
                await asyncio.sleep(period)
                continue
            success, text = outcome
            if not success:
                message = f"{kind.capitalize()} probe failed: {text}"
                self._context.events.event(target.pod, "Warning", "Unhealthy", message, field_path=target.field_path)
            row = row + 1 if success == last else 1
            last = success
            threshold = (spec.successThreshold if success else spec.failureThreshold) or (1 if success else 3)
            if row >= threshold:
                self._verdict(kind, target, success, text)
                if kind == "startup" and success:
                    return
                if kind != "readiness" and not success:
                    return  # it will be restarted
            await asyncio.sleep(period)

    def _verdict(self, kind: str, target: _Target, success: bool, text: str) -> None:
        ident, memory = target.container_id, self._memory
        if kind == "readiness":
            changed = memory.ready.get(ident, False) != success
            memory.ready[ident] = success
        elif kind == "startup" and success:
            changed = not memory.started.get(ident, False)
            memory.started[ident] = True
        elif not success:
            changed = True
            memory.unhealthy[ident] = Unhealthy(kind, text)
        else:
            changed = False
        if changed:
            self._changed()

    async def _once(self, spec: core.Probe, target: _Target) -> tuple[bool, str] | None:
        timeout = float(spec.timeoutSeconds or 1)
        handler = spec.handler
        what = ""
        try:
            if handler.HasField("exec"):
                command = list(handler.exec.command)
                result = await self._context.runtime.exec(target.container_id, command, timeout)
                output = (result.stdout + result.stderr)[:MAX_OUTPUT].decode(errors="replace")
                return result.exit_code == 0, output
            if handler.HasField("httpGet"):
                get = handler.httpGet
                host, port = get.host or target.host, resolve_port(get.port, target.container)
                what = f'Get "{(get.scheme or "HTTP").lower()}://{hostport.join(host, port)}{rooted(get.path)}": '
                status = await http_status(
                    host,
                    port,
                    get.path,
                    tls=get.scheme == "HTTPS",
                    headers={header.name: header.value for header in get.httpHeaders},
                    timeout=timeout,
                )
                return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"
            if handler.HasField("tcpSocket"):
                socket = handler.tcpSocket
                host, port = socket.host or target.host, resolve_port(socket.port, target.container)
                what = f"dial tcp {hostport.join(host, port)}: "
                await tcp_open(host, port, timeout)
                return True, ""
            if handler.HasField("grpc"):
                what = f"gRPC health check of {hostport.join(target.host, handler.grpc.port)}: "
                word = await grpc_health(target.host, handler.grpc.port, handler.grpc.service, timeout=timeout)
                return word == "SERVING", f'service unhealthy (responded with "{word}")'
        except RuntimeUnavailable:
            return None
        except TimeoutError:
            return False, f"{what}no answer within {timeout:g}s"
        except RuntimeFailure as error:
            return (False, str(error)) if await self._still_runs(target) else None
        except (OSError, ValueError) as error:
            return False, what + reason(error)
        except Exception as error:  # a probe that ends would never find anything wrong again
            log.exception("a probe failed on a fault of ours", extra={"container": target.container.name})
            return False, f"{type(error).__name__}: {error}"
        return False, "the probe names nothing to do: exec, httpGet, tcpSocket or grpc"

    async def _still_runs(self, target: _Target) -> bool:
        """Whether a failed command says something about the container, and not only that it has just ended."""
        try:
            record = await self._context.runtime.inspect(target.pod.metadata.uid)
        except RuntimeFailure:
            return False
        return any(one.id == target.container_id for one in record.running)


def _has_startup(target: _Target) -> bool:
    return target.container.HasField("startupProbe")


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a probe ended", exc_info=error, extra={"task": task.get_name()})
