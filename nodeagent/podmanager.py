"""All pods of a node: takes in what the API wants, starts a worker for each pod, and sees what the runtime does.

The runtime is looked over as a whole ("relist") at a steady pace and whenever it hints at a change; a worker is poked
only when something about its pod looks different. What runs without a pod in the API is ended once the API has said
(by a complete list) that there is none; as long as the API is away, everything goes on running.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from pathlib import Path

from nodeagent import admission
from nodeagent.context import NodeContext
from nodeagent.metrics import RELIST_SECONDS as RELIST_SECONDS_TAKEN
from nodeagent.podspec import pod_key
from nodeagent.podworker import PodWorker
from nodeagent.runtime import PodRecord, RuntimeFailure
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.daemon import spawn

log = logging.getLogger(__name__)

RELIST_SECONDS = 5.0
ECHO_SECONDS = 0.4
"""Between looks after a hint, and while the runtime does not answer."""
ECHOES = 2
BURIED_SECONDS = 30.0
HINT_SECONDS = 0.02
"""How long hints are gathered before the runtime is looked over."""

Fingerprint = tuple[object, ...]


class PodManager:
    """See the module."""

    def __init__(
        self,
        context: NodeContext,
        node: Callable[[], core.Node],
        *,
        relist_seconds: float = RELIST_SECONDS,
        runtime_changed: Callable[[], None] = lambda: None,
        fresh_node: Callable[[], Awaitable[core.Node]] | None = None,
    ) -> None:
        """`node` returns the Node as it was read last, `fresh_node` reads it anew, which is done before a pod is
        refused; `runtime_changed` is told when the runtime goes or comes.
        """
        self._context = context
        self._node = node
        self._fresh_node = fresh_node
        self._judged_again: dict[str, core.Pod] = {}
        """Pods that would be refused, while the node is read once more."""
        self._relist_seconds = relist_seconds
        self._runtime_changed = runtime_changed
        self._workers: dict[str, PodWorker] = {}
        self._seen: dict[str, Fingerprint] = {}
        self._last: dict[str, PodRecord] = {}
        self._buried: dict[str, float] = {}
        """Pods that were ended and removed just now: an answer that was on its way may still show them."""
        self._hint = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False
        self.runtime_trouble = ""
        """Why the last look at the runtime failed; empty when it did not."""

    @property
    def workers(self) -> Iterable[PodWorker]:
        """The workers of all pods that the node knows."""
        return self._workers.values()

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """Find a pod's worker by name: the newest one, should an older pod of that name still be ending."""
        found = [
            w for w in self._workers.values() if (w.pod.metadata.namespace, w.pod.metadata.name) == (namespace, name)
        ]
        return max(found, key=lambda worker: worker.pod.metadata.creationTimestamp.seconds, default=None)

    def pod_of(self, uid: str) -> core.Pod | None:
        """Return a pod as the API had it last; None when it has, or had, none."""
        worker = self._workers.get(uid)
        return worker.pod if worker is not None else None

    def poke(self, uid: str) -> None:
        """Have a pod looked at."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.poke()

    async def start(self, pods: Callable[[], Iterable[core.Pod]]) -> None:
        """Begin with all pods that the API has for this node; adopts what runs of them and ends what is not theirs."""
        running = await self._first_look()
        self._started = True
        for pod in sorted(pods(), key=lambda pod: (pod.metadata.creationTimestamp.seconds, pod_key(pod))):
            self._add(pod, adopted=pod.metadata.uid in running)
        self._take_in(running)
        if self._context.files:
            folder = self._context.sandboxes.pod_logs_dir
            await asyncio.to_thread(remove_orphaned_logs, folder, frozenset(self._workers) | running.keys())
        self._tasks += [
            spawn(self._relist(), name=f"relist {self._context.node_name}"),
            spawn(self._context.runtime.watch(self._hinted), name=f"runtime events {self._context.node_name}"),
        ]

    async def close(self) -> None:
        """Let go of all pods; what runs goes on running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))

    @property
    def seen(self) -> Mapping[str, PodRecord]:
        """What the runtime had when it was looked over last."""
        return self._last

    # -- from the API

    def changed(self, pod: core.Pod) -> None:
        """The API has a pod for this node, new or changed."""
        if not self._started:
            return
        worker = self._workers.get(pod.metadata.uid)
        if pod.metadata.uid in self._judged_again:
            self._judged_again[pod.metadata.uid] = pod
        elif worker is None:
            self._add(pod, adopted=False)
        else:
            worker.update(pod)

    def removed(self, pod: core.Pod) -> None:
        """The API has a pod no more."""
        self._judged_again.pop(pod.metadata.uid, None)
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.remove()
            self._hinted(pod.metadata.uid)

    async def _judge_again(self, uid: str, fresh_node: Callable[[], Awaitable[core.Node]]) -> None:
        """Look at the node in the API before a pod is refused for good: its labels may have changed a moment ago."""
        try:
            await fresh_node()
        except errors.StatusError as error:
            log.debug("the node cannot be read again", extra={"error": error.message})
        self._tasks = [task for task in self._tasks if not task.done()]
        pod = self._judged_again.pop(uid, None)
        if pod is not None:
            self._add(pod, adopted=False, judged=True)

    def _add(self, pod: core.Pod, *, adopted: bool, judged: bool = False) -> None:
        refusal = None
        ended = pod.status.phase in ("Failed", "Succeeded")
        if not adopted and not ended and not pod.metadata.HasField("deletionTimestamp"):
            others = [worker.pod for worker in self._workers.values() if worker.counts]
            refusal = admission.admit(pod, self._node(), others, allowed_sysctls=self._context.allowed_sysctls)
            if refusal is not None and self._fresh_node is not None and not judged:
                self._judged_again[pod.metadata.uid] = pod
                self._tasks.append(spawn(self._judge_again(pod.metadata.uid, self._fresh_node), name="second look"))
                return
        if refusal is not None:
            log.info("pod refused", extra={"pod": pod_key(pod), "reason": refusal.reason, "why": refusal.message})
            self._context.events.event(
                pod, "Warning", refusal.reason, refusal.message.removeprefix("Pod was rejected: ")
            )
        worker = PodWorker(self._context, pod, rejected=refusal)
        self._workers[pod.metadata.uid] = worker
        worker.poke()

    # -- from the runtime

    def _hinted(self, uid: str) -> None:
        self._hint.set()

    async def _first_look(self) -> dict[str, PodRecord]:
        """Look the runtime over, as soon as it can be: without it nobody knows what runs."""
        while True:
            try:
                return dict(await self._context.runtime.list_pods())
            except RuntimeFailure as error:
                if not self.runtime_trouble:
                    log.warning("waiting for the container runtime", extra={"error": str(error)})
                self.runtime_trouble = str(error)
                await asyncio.sleep(0.5)

    async def _relist(self) -> None:
        echoes = 0
        while True:
            try:
                pace = ECHO_SECONDS if echoes or self.runtime_trouble else self._relist_seconds
                async with asyncio.timeout(pace):
                    await self._hint.wait()
                await asyncio.sleep(HINT_SECONDS)
                echoes = ECHOES  # the hint may come before the runtime's own books are up to date
            except TimeoutError:
                echoes = max(0, echoes - 1)
            self._hint.clear()
            try:
                with RELIST_SECONDS_TAKEN.time():
                    found = dict(await self._context.runtime.list_pods())
                self._take_in(found)
                if self.runtime_trouble:
                    log.info("container runtime is back")
                    self.runtime_trouble = ""
                    self._runtime_changed()
            except RuntimeFailure as error:
                fresh, self.runtime_trouble = not self.runtime_trouble, str(error)
                if fresh:
                    log.warning("container runtime cannot be asked", extra={"error": str(error)})
                    self._runtime_changed()
            except Exception:  # an agent that no longer looks would let pods die unseen; the next look may do better
                log.exception("looking the runtime over failed on a fault of ours")

    def _take_in(self, running: dict[str, PodRecord]) -> None:
        self._last = running
        now = asyncio.get_running_loop().time()
        for uid in [uid for uid, worker in self._workers.items() if worker.finished]:
            del self._workers[uid]
            self._seen.pop(uid, None)
            self._buried[uid] = now
        for uid in [uid for uid, since in self._buried.items() if now - since > BURIED_SECONDS]:
            del self._buried[uid]
        for uid in self._seen.keys() | running.keys():
            record = running.get(uid)
            mark = _fingerprint(record)
            if self._seen.get(uid) == mark:
                continue
            self._seen[uid] = mark
            worker = self._workers.get(uid)
            if worker is not None:
                worker.poke()
            elif record is not None and uid not in self._buried:
                self._end_orphan(record)
            else:
                del self._seen[uid]

    def _end_orphan(self, record: PodRecord) -> None:
        log.info(
            "ending what runs without a pod", extra={"pod": f"{record.namespace}/{record.name}", "uid": record.uid}
        )
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace, pod.metadata.uid = record.name, record.namespace, record.uid
        pod.spec.terminationGracePeriodSeconds = 1
        pod.spec.nodeName = self._context.node_name
        worker = PodWorker(self._context, pod)
        self._workers[record.uid] = worker
        worker.remove()


def remove_orphaned_logs(folder: Path, known: Set[str]) -> None:
    """Remove the logs of pods that are gone: an agent that was killed while it removed a pod may have left them."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        parts = path.name.split("_")  # namespace, name, uid: none of them has the character in it
        if len(parts) == 3 and parts[2] not in known and path.is_dir() and not path.is_symlink():
            log.info("removing the logs of a pod that is gone", extra={"folder": str(path)})
            shutil.rmtree(path, ignore_errors=True)


def _fingerprint(record: PodRecord | None) -> Fingerprint:
    if record is None:
        return ()
    return (
        tuple((sandbox.id, sandbox.ready) for sandbox in record.sandboxes),
        tuple((container.id, container.state) for container in record.containers),
    )
