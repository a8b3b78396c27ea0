"""What the API is told of a pod, computed from what is there. Pure.

Container states come from the runtime's records, the reasons of waiting ones from the last attempt to start them, and
what the runtime has forgotten from the status of before. The states, reasons and conditions are those that a kubelet
reports for the same situation; see ``tests/node/test_golden.py`` for the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nodeagent import conditions
from nodeagent.memory import PodMemory, Stage
from nodeagent.podspec import ephemeral_containers, is_deleting, is_sidecar, restarts, restarts_after
from nodeagent.resources import pod_resources
from nodeagent.runtime import ContainerRecord, ContainerState, PodRecord
from nodeagent.termination import termination_message
from wharfinger.api.types import core, meta

UNKNOWN_EXIT_CODE = 137
GONE_MESSAGE = "The container could not be located when the pod was terminated"
_LOST_MESSAGE = "The container could not be located when the agent looked; its state is unknown"


@dataclass(frozen=True, slots=True)
class NodeView:
    """What a pod's status says of its node."""

    host_ips: tuple[str, ...]
    runtime: str = "containerd"
    """The scheme of container ids."""


def compute(pod: core.Pod, record: PodRecord, memory: PodMemory, node: NodeView, now: float) -> core.PodStatus:
    """Return the pod's status now; `memory.status` is the one of before."""
    old = memory.status
    status = core.PodStatus(observedGeneration=pod.metadata.generation)
    if memory.ending is not None and memory.ending.rejected:
        status.phase, status.reason, status.message = "Failed", memory.ending.reason, memory.ending.message
        status.startTime.CopyFrom(old.startTime if old.HasField("startTime") else meta.Time(seconds=int(now)))
        if pod.status.qosClass:
            status.qosClass = pod.status.qosClass
        return status
    _addresses(status, pod, record, old, node)
    status.startTime.CopyFrom(old.startTime if old.HasField("startTime") else meta.Time(seconds=int(now)))
    stopping = is_deleting(pod) or memory.stage is not Stage.ACTIVE
    view = _View(pod, record, memory, node, stopping)
    status.initContainerStatuses.extend(
        view.container(container, old.initContainerStatuses, init=True) for container in pod.spec.initContainers
    )
    status.containerStatuses.extend(
        view.container(container, old.containerStatuses, init=False) for container in pod.spec.containers
    )
    for container in ephemeral_containers(pod):
        guest = view.container(container, old.ephemeralContainerStatuses, init=False)
        guest.ready = False  # readiness and start are of no concern to them
        guest.ClearField("started")
        status.ephemeralContainerStatuses.append(guest)
    phase = _phase(pod, status, ended=memory.stage is Stage.TERMINATED)
    ended = memory.stage is Stage.TERMINATED
    reported = phase
    if memory.ending is not None:
        phase = "Failed"
    if ended:
        reported = phase if phase in ("Failed", "Succeeded") else "Failed"
    elif reported in ("Failed", "Succeeded"):
        # A pod is not reported as ended while something of it may still run.
        reported = old.phase or "Pending"
    status.phase = reported
    if memory.ending is not None and ended:
        status.reason, status.message = memory.ending.reason, memory.ending.message
    if pod.status.qosClass or old.qosClass:
        status.qosClass = pod.status.qosClass or old.qosClass
    if pod.status.nominatedNodeName:
        status.nominatedNodeName = pod.status.nominatedNodeName
    conditions.fill(
        status,
        pod=pod,
        old=old,
        phase=phase,
        sandbox_ready=_sandbox_ready(record),
        now=now,
    )
    if ended:
        _give_up_waiting(pod, status)
    pod_resources(pod, status)
    return status


def _sandbox_ready(record: PodRecord) -> bool:
    newest = record.sandboxes[0] if record.sandboxes else None
    return newest is not None and newest.ready and (newest.host_network or bool(newest.ips))


def _addresses(status: core.PodStatus, pod: core.Pod, record: PodRecord, old: core.PodStatus, node: NodeView) -> None:
    if node.host_ips:
        status.hostIP = node.host_ips[0]
        status.hostIPs.extend(core.HostIP(ip=ip) for ip in node.host_ips)
    newest = record.sandboxes[0] if record.sandboxes else None
    if pod.spec.hostNetwork:
        ips = list(node.host_ips) if newest is not None else []
    elif newest is not None and newest.ready and newest.ips:
        ips = list(newest.ips)
    else:
        ips = [known.ip for known in old.podIPs]  # an ended pod keeps the address it had
    if ips:
        status.podIP = ips[0]
        status.podIPs.extend(core.PodIP(ip=ip) for ip in ips)


class _View:
    """Computes one container's status after the other."""

    def __init__(self, pod: core.Pod, record: PodRecord, memory: PodMemory, node: NodeView, stopping: bool) -> None:
        self._pod, self._record, self._memory, self._node, self._stopping = pod, record, memory, node, stopping
        self._default_reason = "PodInitializing" if pod.spec.initContainers else "ContainerCreating"

    def container(
        self, container: core.Container, known: Iterable[core.ContainerStatus], *, init: bool
    ) -> core.ContainerStatus:
        old = next((status for status in known if status.name == container.name), None)
        status = core.ContainerStatus(
            name=container.name, image=container.image, ready=False, restartCount=0, started=False
        )
        status.state.SetInParent()
        status.lastState.SetInParent()
        history = self._record.history(container.name)
        if history:
            self._from_records(status, container, history, old, init=init)
        elif old is not None and old.containerID:
            self._from_memory(status, old)
        else:
            status.state.waiting.reason = self._default_reason
            if old is not None:
                status.lastState.CopyFrom(old.lastState)
                status.restartCount = old.restartCount
        self._apply_waiting(status, container, history[0] if history else None, init=init)
        _mounts(status, container)
        return status

    def _from_records(
        self,
        status: core.ContainerStatus,
        container: core.Container,
        history: list[ContainerRecord],
        old: core.ContainerStatus | None,
        *,
        init: bool,
    ) -> None:
        newest = history[0]
        ident = self._id(newest)
        status.restartCount = newest.restart_count
        status.image = newest.image if newest.image and not newest.image.startswith("sha256:") else container.image
        status.imageID = newest.image_id
        status.containerID = ident
        _resources(status, container)
        previous = next((record for record in history[1:] if record.state is ContainerState.EXITED), None)
        if previous is not None:
            self._terminated(status.lastState, previous, old)
        elif old is not None and old.containerID == ident:
            status.lastState.CopyFrom(old.lastState)
        elif old is not None and old.state.HasField("terminated"):
            status.lastState.CopyFrom(old.state)
        elif old is not None and old.lastState.HasField("terminated"):
            status.lastState.CopyFrom(old.lastState)  # the runtime has forgotten the run before, the API has not
        elif old is not None and old.state.HasField("running"):
            _lost(status.lastState)
        if newest.state is ContainerState.RUNNING:
            status.state.running.startedAt.CopyFrom(_time(newest.started_at))
            sidecar = is_sidecar(container)
            started = self._memory.started.get(newest.id, not container.HasField("startupProbe"))
            if init and not sidecar:
                status.started = True
            else:
                status.started = started
                ready = self._memory.ready.get(newest.id, not container.HasField("readinessProbe"))
                status.ready = started and ready
        elif newest.state is ContainerState.EXITED:
            self._terminated(status.state, newest, old)
            status.ready = init and not is_sidecar(container) and newest.exit_code == 0
        else:
            status.state.waiting.reason = self._default_reason
            if newest.state is ContainerState.CREATED:
                status.ClearField("containerID")
                status.ClearField("imageID")
                status.ClearField("resources")
                status.ClearField("allocatedResources")

    def _from_memory(self, status: core.ContainerStatus, old: core.ContainerStatus) -> None:
        """The runtime has forgotten a container that the API knows of."""
        if old.state.HasField("terminated"):
            status.CopyFrom(old)
            status.ClearField("volumeMounts")
            return
        status.restartCount, status.image, status.imageID = old.restartCount, old.image, old.imageID
        status.containerID = old.containerID
        if old.state.HasField("running"):
            status.state.waiting.reason = self._default_reason
            _lost(status.lastState)
        else:
            status.state.CopyFrom(old.state)
            status.lastState.CopyFrom(old.lastState)

    def _apply_waiting(
        self, status: core.ContainerStatus, container: core.Container, newest: ContainerRecord | None, *, init: bool
    ) -> None:
        waiting = self._memory.waiting.get(container.name)
        if waiting is None or self._stopping or not restarts(self._pod, container, newest, init=init):
            return
        if status.state.HasField("terminated"):
            status.lastState.CopyFrom(status.state)
        status.state.Clear()
        status.state.waiting.reason = waiting.reason
        if waiting.message:
            status.state.waiting.message = waiting.message

    def _terminated(
        self, state: core.ContainerState, record: ContainerRecord, old: core.ContainerStatus | None
    ) -> None:
        for known in (old.state.terminated, old.lastState.terminated) if old is not None else ():
            if known.containerID == self._id(record):
                state.terminated.CopyFrom(known)  # its message may be gone from the node by now
                return
        ended = state.terminated
        ended.exitCode = record.exit_code
        ended.reason = record.reason or ("Completed" if record.exit_code == 0 else "Error")
        if message := termination_message(record):
            ended.message = message
        ended.startedAt.CopyFrom(_time(record.started_at))
        ended.finishedAt.CopyFrom(_time(record.finished_at))
        ended.containerID = self._id(record)

    def _id(self, record: ContainerRecord) -> str:
        return f"{self._node.runtime}://{record.id}"


def _lost(state: core.ContainerState) -> None:
    ended = state.terminated
    ended.exitCode, ended.reason, ended.message = UNKNOWN_EXIT_CODE, "ContainerStatusUnknown", _LOST_MESSAGE


def _time(nanoseconds: int) -> meta.Time:
    return meta.Time(seconds=nanoseconds // 1_000_000_000)


def _resources(status: core.ContainerStatus, container: core.Container) -> None:
    for name, amount in container.resources.requests.items():
        status.allocatedResources[name].CopyFrom(amount)
    status.resources.SetInParent()
    for name, amount in container.resources.requests.items():
        status.resources.requests[name].CopyFrom(amount)
    for name, amount in container.resources.limits.items():
        status.resources.limits[name].CopyFrom(amount)


def _mounts(status: core.ContainerStatus, container: core.Container) -> None:
    for mount in container.volumeMounts:
        shown = status.volumeMounts.add(name=mount.name, mountPath=mount.mountPath)
        if mount.readOnly:
            shown.readOnly, shown.recursiveReadOnly = True, "Disabled"


def _phase(pod: core.Pod, status: core.PodStatus, *, ended: bool) -> str:
    """Return the phase that the containers make; `ended`: nothing runs and nothing will."""
    pending = sidecars_pending = failed = 0
    for container, init in zip(pod.spec.initContainers, status.initContainerStatuses, strict=True):
        state = init.state
        if is_sidecar(container):
            sidecars_pending += state.HasField("waiting") and not init.lastState.HasField("terminated")
            sidecars_pending += state.HasField("running") and not init.started
        elif not state.HasField("terminated"):
            pending += 1
        elif state.terminated.exitCode != 0:
            pending += restarts_after(pod, container, state.terminated.exitCode, init=True)
            failed += not restarts_after(pod, container, state.terminated.exitCode, init=True)
    running = waiting = stopped = succeeded = again = 0
    for container, main in zip(pod.spec.containers, status.containerStatuses, strict=True):
        if main.state.HasField("running"):
            running += 1
        elif main.state.HasField("terminated"):
            stopped += 1
            succeeded += main.state.terminated.exitCode == 0
            again += restarts_after(pod, container, main.state.terminated.exitCode, init=False)
        elif main.lastState.HasField("terminated"):
            stopped += 1
            again += 1
        else:
            waiting += 1
    if failed:
        return "Failed"
    if pending or (sidecars_pending and not running and not stopped) or waiting:
        return "Pending"
    sidecars = any(init.state.HasField("running") for init in status.initContainerStatuses)
    if running or (not ended and (again or sidecars)):
        return "Running"
    return "Succeeded" if stopped == succeeded else "Failed"


def _give_up_waiting(pod: core.Pod, status: core.PodStatus) -> None:
    """Turn containers that would wait for ever into ended ones.

    Not those behind an init container that never ended well: they keep the reason why they never ran.
    """
    blocked = False
    for container, init in zip(pod.spec.initContainers, status.initContainerStatuses, strict=True):
        if init.state.HasField("waiting") and not blocked:
            _unknown(init)
        blocked = blocked or not (is_sidecar(container) or init.state.terminated.exitCode == 0)
    for main in status.containerStatuses:
        if main.state.HasField("waiting") and not blocked:
            _unknown(main)


def _unknown(status: core.ContainerStatus) -> None:
    if status.lastState.HasField("terminated") and status.containerID:
        status.state.CopyFrom(status.lastState)
        return
    status.state.Clear()
    ended = status.state.terminated
    ended.exitCode, ended.reason, ended.message = UNKNOWN_EXIT_CODE, "ContainerStatusUnknown", GONE_MESSAGE
    ended.startedAt.SetInParent()
    ended.finishedAt.SetInParent()
