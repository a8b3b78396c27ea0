"""One pod's worker: looks, decides, acts, and looks again until there is nothing left to do.

It is level-triggered: whoever calls :meth:`PodWorker.poke` only says that something may have changed. What is to be
done follows from what is wanted (the API's pod) and what is there (the runtime's records), decided by the pure
functions of :mod:`nodeagent.lifecycle`; what is told to the API follows from the same by :mod:`nodeagent.podstatus`.
A worker without work costs no task and no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from nodeagent import lifecycle, podstatus
from nodeagent.context import NodeContext
from nodeagent.killer import Killer
from nodeagent.lifecycle import Held, Plan
from nodeagent.memory import Ending, PodMemory, Stage, Waiting
from nodeagent.metrics import POD_START_SECONDS
from nodeagent.podspec import is_deleting, pod_key
from nodeagent.probes import Prober
from nodeagent.runtime import ContainerState, PodRecord, RuntimeFailure, RuntimeUnavailable
from nodeagent.starter import NotStarted, Starter
from nodeagent.volumes import VolumeError, changes
from wharfinger.api.types import core

log = logging.getLogger(__name__)

RUNTIME_RETRY_SECONDS = 1.0
RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""After a volume, sandbox or unexpected failure."""
VOLUME_SECONDS = 60.0
"""Between looks for changed content of volumes; kubelet's syncFrequency."""
KEEP_ENDED = 1
"""How many ended runs of a container are kept for its logs, as kubelet does."""


class PodWorker:
    """See the module."""

    def __init__(self, context: NodeContext, pod: core.Pod, *, rejected: Ending | None = None) -> None:
        self._context = context
        self._pod = pod
        self.uid = pod.metadata.uid
        self.memory = PodMemory(status=pod.status)
        self._frozen = pod.status.phase in ("Failed", "Succeeded")
        """The API has the pod's last status: it is not computed again."""
        if rejected is not None:
            self.memory.stage, self.memory.ending = Stage.TERMINATED, rejected
        elif self._frozen:
            self.memory.stage = Stage.TERMINATING  # what may still run of it is ended
        self._seen_at = context.clock() if pod.status.phase == "Pending" else None
        self._gone = False
        self.finished = False
        """Nothing is left of the pod, neither here nor in the API."""
        self._dirty = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stop = asyncio.Event()
        self._failures = 0
        self._cleaned = False
        self._adopted = False
        self._said_held: set[str] = set()
        self._volumes_due = 0.0
        self._volumes_version = ""
        self._said_ending: tuple[int, int] | None = None
        self._killer = Killer(context, self.poke)
        self._starter = Starter(context)
        self._prober = Prober(context, self.memory, self.poke)

    @property
    def pod(self) -> core.Pod:
        """The pod as the API has it, or had it last."""
        return self._pod

    @property
    def counts(self) -> bool:
        """Whether the pod takes up room on the node, as far as the API is concerned."""
        return self.memory.stage is not Stage.TERMINATED and not self._gone

    # -- told by others

    def update(self, pod: core.Pod) -> None:
        """The API has a new version of the pod."""
        self._pod = pod
        self._context.statuses.observe(pod)
        if is_deleting(pod):
            self._stop.set()
        self.poke()

    def remove(self) -> None:
        """The API has the pod no more."""
        self._gone = True
        self._stop.set()
        self._context.statuses.forget(self.uid)
        self.poke()

    def poke(self) -> None:
        """Something may have changed: look."""
        self._dirty = True
        if self._task is None and not self.finished:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"pod {self.uid}")

    async def close(self) -> None:
        """Let go of the pod; what runs goes on running."""
        self.finished = True
        tasks = [task for task in (self._task,) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        self._prober.close()
        await self._killer.close()

    # -- the loop

    async def _run(self) -> None:
        try:
            while self._dirty and not self.finished:
                self._dirty = False
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                wake = await self._guarded()
                if wake is not None and not self._dirty:
                    delay = max(0.01, wake - self._context.clock())
                    self._timer = asyncio.get_running_loop().call_later(delay, self.poke)
        finally:
            self._task = None

    async def _guarded(self) -> float | None:
        """Look and act once; return when to do so again at the latest."""
        now = self._context.clock()
        try:
            wake = await self._sync()
        except RuntimeUnavailable as error:
            log.debug("runtime away", extra={"pod": pod_key(self._pod), "error": str(error)})
            return now + RUNTIME_RETRY_SECONDS
        except RuntimeFailure as error:
            log.warning("the runtime failed a call", extra={"pod": pod_key(self._pod), "error": str(error)})
            return self._retry()
        except Exception:  # one pod's trouble must not end the others'; it is logged whole and tried again
            log.exception("pod not synchronised", extra={"pod": pod_key(self._pod)})
            return self._retry()
        return wake

    def _retry(self) -> float:
        delay = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        return self._context.clock() + delay

    async def _sync(self) -> float | None:
        record = await self._context.runtime.inspect(self.uid)
        if self.memory.stage is Stage.ACTIVE and (self._gone or is_deleting(self._pod)):
            self.memory.stage = Stage.TERMINATING
        if self.memory.stage is Stage.ACTIVE:
            return await self._active(record)
        if self.memory.stage is Stage.TERMINATING:
            return await self._terminating(record)
        return await self._terminated(record)

    def _publish(self, record: PodRecord, *, finish: bool = False) -> None:
        if self._gone:
            return
        if not self._frozen:
            now = self._context.clock()
            self.memory.status = podstatus.compute(self._pod, record, self.memory, self._context.view, now)
            if self.memory.status.phase == "Running" and self._seen_at is not None:
                POD_START_SECONDS.observe(now - self._seen_at)
                self._seen_at = None
        self._context.statuses.write(self._pod, self.memory.status, finish=finish)

    # -- active

    async def _active(self, record: PodRecord) -> float | None:
        context, memory = self._context, self.memory
        if not self._adopted:
            self._adopted = True
            self._prober.adopt(self._pod.status, record)
        self._prober.follow(self._pod, record)
        if context.fenced(self._pod):
            self._publish(record)
            return None  # it is poked when the fence opens
        plan = lifecycle.plan(self._pod, record, memory, context.clock())
        self._note_held(plan.held, record)
        if plan.finished:
            memory.ending = plan.ending
            if plan.ending is not None:
                context.events.event(self._pod, "Normal", plan.ending.reason, plan.ending.message)
            memory.stage = Stage.TERMINATING
        self._publish(record)
        if plan.finished:
            self._dirty = True
            return None
        if plan.reset and (record.running or any(sandbox.ready for sandbox in record.sandboxes)):
            if plan.create_sandbox is not None:
                text = "Pod sandbox changed, it will be killed and re-created."
                context.events.event(self._pod, "Normal", "SandboxChanged", text)
            await self._reset(record, plan.reset)
            return None
        for kill in plan.kill:
            self._killer.kill(self._pod, kill)
        if plan.create_sandbox is None and not plan.start:
            await self._prune(record)
            return await self._refresh_volumes(plan.wake_at)
        return await self._start(plan, record)

    def _note_held(self, held: Iterable[Held], record: PodRecord) -> None:
        for one in held:
            self.memory.waiting[one.container.name] = one.waiting
            newest = record.latest(one.container.name)
            mark = newest.id if newest else one.container.name
            if mark not in self._said_held:
                self._said_held.add(mark)
                path = f"spec.{'initContainers' if one.init else 'containers'}{{{one.container.name}}}"
                text = f"Back-off restarting failed container {one.container.name} in pod {self._pod.metadata.name}"
                self._context.events.event(self._pod, "Warning", "BackOff", text, field_path=path)

    async def _reset(self, record: PodRecord, why: str) -> None:
        """End all that runs in the pod, so that it can begin anew."""
        log.info("pod is set up anew", extra={"pod": pod_key(self._pod), "reason": why})
        running = record.running
        for container in running:
            message = f"Stopping container {container.name}"
            self._killer.kill(self._pod, lifecycle.Kill(container, message, 1))
        if running:
            await self._killer.settle()
        for sandbox in record.sandboxes:
            if sandbox.ready:
                await self._context.runtime.stop_sandbox(sandbox.id)
        self._dirty = True

    async def _start(self, plan: Plan, record: PodRecord) -> float | None:
        memory, now = self.memory, self._context.clock()
        try:
            ready = await self._starter.volumes(self._pod, memory.status)
            sandbox = plan.sandbox
            if plan.create_sandbox is not None:
                for old in record.sandboxes[:1]:
                    await self._context.runtime.stop_sandbox(old.id)  # releases the network of one that died
                sandbox, record = await self._starter.sandbox(self._pod, plan.create_sandbox)
                self._publish(record)
        except VolumeError as error:
            self._context.events.event(self._pod, "Warning", "FailedMount", str(error))
            return self._retry()
        except RuntimeUnavailable:
            raise
        except RuntimeFailure as error:
            text = f"Failed to create pod sandbox: {error}"
            self._context.events.event(self._pod, "Warning", "FailedCreatePodSandBox", text)
            return self._retry()
        assert sandbox is not None
        self._failures = 0
        wake = plan.wake_at
        for start in plan.start:
            if self._stop.is_set() or self._context.fenced(self._pod):
                break
            created = True
            try:
                await self._starter.container(self._pod, start, sandbox, ready, memory.status, self._stop)
                memory.waiting.pop(start.container.name, None)
            except NotStarted as error:
                memory.waiting[start.container.name] = Waiting(error.reason, error.message)
                created = error.created
                if not created:
                    wake = min(wake, error.retry_at) if wake is not None else error.retry_at
            newest = record.latest(start.container.name)
            if created and newest is not None and newest.state is ContainerState.EXITED:
                key = lifecycle.backoff_key(start.container)
                memory.backoff.attempt(key, failed_at=newest.finished_at / 1e9, now=now)
            self._dirty = self._dirty or created
        if self._stop.is_set():
            self._dirty = True
        elif not self._dirty:
            self._publish(record)
        return wake

    async def _refresh_volumes(self, wake: float | None) -> float | None:
        """Bring changed config maps, secrets and labels into a running pod's volumes; return when to look again."""
        if not self._context.files or not changes(self._pod):
            return wake
        now, version = self._context.clock(), self._pod.metadata.resourceVersion
        if now >= self._volumes_due or version != self._volumes_version:
            self._volumes_due, self._volumes_version = now + VOLUME_SECONDS, version
            try:
                await self._starter.volumes(self._pod, self.memory.status)
            except VolumeError as error:
                self._context.events.event(self._pod, "Warning", "FailedMount", str(error))
        return min(wake, self._volumes_due) if wake is not None else self._volumes_due

    async def _prune(self, record: PodRecord) -> None:
        """Remove ended runs that nobody asks for any more."""
        for container in (*self._pod.spec.initContainers, *self._pod.spec.containers):
            ended = [one for one in record.history(container.name)[1:] if one.state is ContainerState.EXITED]
            for old in ended[KEEP_ENDED:]:
                await self._context.runtime.remove_container(old.id)
                self._starter.remove_log(old)

    # -- the end

    async def _terminating(self, record: PodRecord) -> float | None:
        context = self._context
        plan = lifecycle.plan_termination(self._pod, record)
        self._prober.stopping(record)
        said = (self._pod.metadata.generation, self._pod.metadata.deletionGracePeriodSeconds)
        if not plan.done and said != self._said_ending:
            # As a kubelet does: once when the end begins, and not again before all of it has ended.
            self._said_ending = said
            self._publish(record)
        for kill in plan.kill:
            self._killer.kill(self._pod, kill)
        for sandbox in plan.stop_sandboxes:
            await context.runtime.stop_sandbox(sandbox.id)
            self._dirty = True
        if plan.done:
            self.memory.stage = Stage.TERMINATED
            if not self._gone and not self._frozen:  # now, while the containers' last words are still on the node
                now = context.clock()
                self.memory.status = podstatus.compute(self._pod, record, self.memory, context.view, now)
            self._dirty = True
        return None

    async def _terminated(self, record: PodRecord) -> float | None:
        self._prober.close()
        if not self._cleaned:
            for sandbox in record.sandboxes:
                await self._context.runtime.stop_sandbox(sandbox.id)  # releases the network of one that ended by itself
            try:
                await self._starter.clean_up(self._pod)
            except (VolumeError, OSError) as error:
                log.warning("pod's files not removed yet", extra={"pod": pod_key(self._pod), "error": str(error)})
                return self._retry()
            self._cleaned = True
        if not self._gone:
            self._publish(record, finish=is_deleting(self._pod))
            self._frozen = True
            return None
        for container in record.containers:
            await self._context.runtime.remove_container(container.id)
        for sandbox in record.sandboxes:
            await self._context.runtime.remove_sandbox(sandbox.id)
        self._starter.remove_logs(self._pod)
        self._context.images.forget(self.uid)
        self.finished = True
        return None
