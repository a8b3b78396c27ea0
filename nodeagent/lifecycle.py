"""A pod's life on the node as a pure function: what is wanted + what is there + the clock → what to do.

No I/O and no state of its own: the same input gives the same :class:`Plan`, whatever happened before, so a restarted
agent goes on where the old one stood, and tests replay years in milliseconds. The rules are kubelet's, as the
recorded cases in ``tests/node`` show them.

Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nodeagent.memory import Ending, PodMemory, Waiting
from nodeagent.podspec import container_hash, ephemeral_containers, grace_seconds, is_sidecar, restarts
from nodeagent.runtime import ContainerRecord, ContainerState, PodRecord, SandboxRecord
from wharfinger.api.types import core


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container in the pod's sandbox."""

    container: core.Container
    init: bool
    restart_count: int
    stale: ContainerRecord | None = None
    """Made by an agent that ended before it could start it: to be removed first."""
    ephemeral: bool = False
    """Added to the running pod to examine it."""
    target: str = ""
    """The name of the container whose processes it is to see, and …"""
    target_id: str = ""
    """… the runtime's id of that, if it runs."""

    @property
    def field_path(self) -> str:
        """Where it stands in the pod, as events name it."""
        if self.ephemeral:
            return f"spec.ephemeralContainers{{{self.container.name}}}"
        return f"spec.{'initContainers' if self.init else 'containers'}{{{self.container.name}}}"


@dataclass(frozen=True, slots=True)
class Kill:
    """End a running container."""

    record: ContainerRecord
    message: str
    grace_seconds: int
    probe: str = ""
    """The probe that failed, if one did."""


@dataclass(frozen=True, slots=True)
class Held:
    """A container that must wait before it is restarted."""

    container: core.Container
    init: bool
    until: float
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with an active pod, in this order: finish, reset, kill, sandbox, start."""

    finished: bool = False
    """All is done (or the pod's time is up): the pod is to be terminated."""
    ending: Ending | None = None
    """Why, when it is not by its containers' own end."""
    reset: str = ""
    """Stop everything in the pod first, for this reason."""
    sandbox: SandboxRecord | None = None
    """The one to use."""
    create_sandbox: int | None = None
    """Make a new one, with this attempt number."""
    kill: Sequence[Kill] = ()
    start: Sequence[Start] = ()
    held: Sequence[Held] = ()
    wake_at: float | None = None
    """When to look again even if nothing happens."""


def plan(pod: core.Pod, record: PodRecord, memory: PodMemory, now: float) -> Plan:
    """Decide what an active pod needs."""
    expired, deadline = _deadline(pod, memory, now)
    if expired:
        return Plan(
            finished=True,
            ending=Ending("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        )
    sandbox = record.sandboxes[0] if record.sandboxes else None
    reset = _sandbox_trouble(pod, record)
    usable = sandbox is not None and not reset
    chosen = _containers(pod, record, memory, now, sandbox.id if sandbox and usable else None)
    if chosen.finished:
        return chosen
    if not usable:
        started = any(record.history(container.name) for container in pod.spec.containers)
        if started and pod.spec.restartPolicy == "Never":
            # Nothing may be restarted; with its sandbox the pod has ended.
            return Plan(finished=not record.running, reset=reset)
        if not chosen.start and not chosen.held:
            return Plan(finished=not record.running, reset=reset)
        attempt = sandbox.attempt + 1 if sandbox else 0
        return replace(
            chosen, reset=reset, create_sandbox=attempt, kill=(), wake_at=_earliest(chosen.wake_at, deadline)
        )
    guests = _ephemeral(pod, record, memory, now)
    return replace(
        chosen,
        sandbox=sandbox,
        kill=(*chosen.kill, *guests.kill),
        start=(*guests.start, *chosen.start),
        wake_at=_earliest(chosen.wake_at, deadline),
    )


def _ephemeral(pod: core.Pod, record: PodRecord, memory: PodMemory, now: float) -> Plan:
    """Decide about the ephemeral containers: each is started once, whatever the others do."""
    if not pod.spec.ephemeralContainers:
        return Plan()
    chooser = _Chooser(pod, record, memory, now)
    # What the runtime has forgotten but the API knows of has had its time.
    begun = {status.name for status in memory.status.ephemeralContainerStatuses if status.containerID}
    for container in ephemeral_containers(pod):
        newest = record.latest(container.name)
        if newest is not None or container.name not in begun:
            chooser.keep(container, newest, init=False)
    targets = {one.ephemeralContainerCommon.name: one.targetContainerName for one in pod.spec.ephemeralContainers}
    running = {one.name: one.id for one in record.running}
    chosen = chooser.plan()
    starts = []
    for start in chosen.start:
        target = targets[start.container.name]
        starts.append(replace(start, ephemeral=True, target=target, target_id=running.get(target, "")))
    return replace(chosen, start=tuple(starts))


def _deadline(pod: core.Pod, memory: PodMemory, now: float) -> tuple[bool, float | None]:
    if not pod.spec.HasField("activeDeadlineSeconds") or not memory.status.HasField("startTime"):
        return False, None
    at = memory.status.startTime.seconds + pod.spec.activeDeadlineSeconds
    return now >= at, at


def _sandbox_trouble(pod: core.Pod, record: PodRecord) -> str:
    """Return why the pod needs a new sandbox although it has had one; empty for none or a good one."""
    if not record.sandboxes:
        return ""
    newest = record.sandboxes[0]
    if sum(sandbox.ready for sandbox in record.sandboxes) > 1:
        return "multiple sandboxes for the pod are ready"
    if not newest.ready:
        return "the pod's sandbox is not ready"
    if newest.host_network != pod.spec.hostNetwork:
        return "the pod's network namespace mode changed"
    if not newest.host_network and not newest.ips:
        return "the pod's sandbox has no IP address"
    return ""


def _containers(pod: core.Pod, record: PodRecord, memory: PodMemory, now: float, sandbox_id: str | None) -> Plan:
    """Decide about the containers, given the sandbox that they are to run in (None: a new one)."""
    chooser = _Chooser(pod, record, memory, now)
    inits = [(container, _within(record.latest(container.name), sandbox_id)) for container in pod.spec.initContainers]
    mains = [(container, record.latest(container.name)) for container in pod.spec.containers]
    begun = sandbox_id is not None and any(_within(newest, sandbox_id) is not None for _, newest in mains)
    wanted = [
        container
        for container, newest in mains
        if newest is None or newest.state is not ContainerState.EXITED or restarts(pod, container, newest, init=False)
    ]
    if not wanted:
        return Plan(finished=True)
    reached = max((index for index, (_, newest) in enumerate(inits) if newest is not None), default=-1)
    for index, (container, newest) in enumerate(inits):
        passed = begun or index < reached  # something after it has run, so it had been passed
        if is_sidecar(container):
            if not chooser.keep(container, newest, init=True) and not passed:
                return chooser.plan()
        elif newest is None:
            if not passed:
                chooser.start(container, record.latest(container.name), init=True)
                return chooser.plan()
        elif newest.state is ContainerState.EXITED and newest.exit_code == 0:
            continue
        elif newest.state is ContainerState.EXITED and not restarts(pod, container, newest, init=True):
            if not passed:
                return Plan(finished=True)
        elif not passed:
            chooser.keep(container, newest, init=True)
            return chooser.plan()
    for container, newest in mains:
        if sandbox_id is None and newest is not None and newest.state is not ContainerState.EXITED:
            chooser.start(container, newest, init=False)
        else:
            chooser.keep(container, newest, init=False)
    return chooser.plan()


def _within(record: ContainerRecord | None, sandbox_id: str | None) -> ContainerRecord | None:
    return record if record is not None and record.sandbox_id == sandbox_id else None


class _Chooser:
    """Collects what to do with one container after the other."""

    def __init__(self, pod: core.Pod, record: PodRecord, memory: PodMemory, now: float) -> None:
        self._pod, self._record, self._memory, self._now = pod, record, memory, now
        self._start: list[Start] = []
        self._kill: list[Kill] = []
        self._held: list[Held] = []

    def plan(self) -> Plan:
        wake = min((held.until for held in self._held), default=None)
        return Plan(kill=tuple(self._kill), start=tuple(self._start), held=tuple(self._held), wake_at=wake)

    def keep(self, container: core.Container, newest: ContainerRecord | None, *, init: bool) -> bool:
        """Let a container run; return whether it does, and has started as far as probes say."""
        if newest is None or newest.state is not ContainerState.RUNNING:
            if newest is not None and newest.state is ContainerState.UNKNOWN:
                self._kill.append(
                    Kill(newest, f"Container {container.name} is in unknown state", grace_seconds(self._pod))
                )
            elif restarts(self._pod, container, newest, init=init):
                self.start(container, newest or self._record.latest(container.name), init=init)
            return False
        if newest.hash and newest.hash != container_hash(container):
            message = f"Container {container.name} definition changed, will be restarted"
            self._kill.append(Kill(newest, message, grace_seconds(self._pod)))
            return False
        if (unhealthy := self._memory.unhealthy.get(newest.id)) is not None:
            grace = _probe_grace(self._pod, container, unhealthy.probe)
            message = f"Container {container.name} failed {unhealthy.probe} probe"
            ending = "" if self._pod.spec.restartPolicy == "Never" else ", will be restarted"
            self._kill.append(Kill(newest, message + ending, grace, unhealthy.probe))
            return False
        return self._memory.started.get(newest.id, not container.HasField("startupProbe"))

    def start(self, container: core.Container, newest: ContainerRecord | None, *, init: bool) -> None:
        """Start a container, unless it has to wait for its back-off."""
        if newest is not None and newest.state is ContainerState.CREATED:
            self._start.append(Start(container, init, newest.restart_count, stale=newest))
            return
        if newest is not None and newest.state is ContainerState.EXITED:
            ended = newest.finished_at / 1e9
            ready_at = self._memory.backoff.ready_at(backoff_key(container), ended)
            if ready_at > self._now:
                seconds = self._memory.backoff.delay(backoff_key(container))
                pod = self._pod.metadata
                message = (
                    f"back-off {_duration(seconds)} restarting failed container={container.name} "
                    f"pod={pod.name}_{pod.namespace}({pod.uid})"
                )
                self._held.append(Held(container, init, ready_at, Waiting("CrashLoopBackOff", message)))
                return
        self._start.append(Start(container, init, self._next_count(container.name, newest)))

    def _next_count(self, name: str, newest: ContainerRecord | None) -> int:
        if newest is not None:
            return newest.restart_count + 1
        # Its records may be gone, but the API knows that it has run.
        for known in (*self._memory.status.containerStatuses, *self._memory.status.initContainerStatuses):
            if known.name == name and known.containerID:
                return int(known.restartCount) + 1
        return 0


def backoff_key(container: core.Container) -> str:
    """Return the key of a container's restarts: a changed image starts anew."""
    return f"{container.name}_{container_hash(container)}"


def _probe_grace(pod: core.Pod, container: core.Container, probe: str) -> int:
    spec = container.startupProbe if probe == "startup" else container.livenessProbe
    if spec.HasField("terminationGracePeriodSeconds"):
        return max(1, spec.terminationGracePeriodSeconds)
    return grace_seconds(pod)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class TerminationPlan:
    """What to do with a pod that is to end."""

    kill: Sequence[Kill] = ()
    stop_sandboxes: Sequence[SandboxRecord] = ()
    done: bool = False
    """Nothing of it runs any more."""


def plan_termination(pod: core.Pod, record: PodRecord) -> TerminationPlan:
    """Decide what a terminating pod needs: ordinary containers end first, then sidecars, the last one first."""
    running = {container.name: container for container in record.running}
    grace = grace_seconds(pod)
    sidecars = [container.name for container in pod.spec.initContainers if is_sidecar(container)]
    if running:
        first = [found for name, found in running.items() if name not in sidecars]
        if not first:
            first = [running[next(name for name in reversed(sidecars) if name in running)]]
        return TerminationPlan(kill=[Kill(found, f"Stopping container {found.name}", grace) for found in first])
    if open_sandboxes := [sandbox for sandbox in record.sandboxes if sandbox.ready]:
        return TerminationPlan(stop_sandboxes=open_sandboxes)
    return TerminationPlan(done=True)
