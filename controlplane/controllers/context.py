"""What a controller is given for one term of leadership, and how it works off its queue.

Everything in a :class:`Context` belongs to one term: the client carries the term's fence in every write, and the
informers start empty, so nothing that an earlier leader saw is believed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from controlplane.controllers import metrics
from controlplane.controllers.objects import controller_of
from controlplane.controllers.options import Options
from wharfinger.api import errors, kinds
from wharfinger.api.types import core
from wharfinger.client import Client, EventRecorder, Informer, NamedRecorder, WorkQueue

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

NODE_INDEX = "node"
CONTROLLER_INDEX = "controller"


class Controller(Protocol):
    """One controller. It is made anew for each term; :meth:`run` is cancelled when the term ends."""

    name: str

    async def run(self) -> None:
        """Work until cancelled."""


def lean_pod(pod: core.Pod) -> core.Pod:
    """Return what controllers need of a pod: metadata, status, where it is and what it tolerates.

    The copy is what saves the memory: a message keeps the bytes of fields that were cleared.
    """
    lean = core.Pod(metadata=pod.metadata, status=pod.status)
    lean.metadata.ClearField("managedFields")
    spec = pod.spec
    if spec.nodeName:
        lean.spec.nodeName = spec.nodeName
    lean.spec.tolerations.extend(spec.tolerations)
    compact = core.Pod()
    compact.ParseFromString(lean.SerializeToString())
    return compact


def controller_index(obj: Any) -> list[str]:
    """Return the uid of the object's controller; ``orphans/<namespace>`` when it has none."""
    reference = controller_of(obj)
    return [reference.uid] if reference is not None else [f"orphans/{obj.metadata.namespace}"]


class SharedInformers:
    """One informer a kind, shared by all controllers of a term."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[tuple[str, str, str], Informer[Any]] = {}

    def of(self, message: type[M], *, namespace: str = "", field_selector: str = "") -> Informer[M]:
        """Return the informer of a kind; made at first use, started by :meth:`start`."""
        key = (message.DESCRIPTOR.full_name, namespace, field_selector)
        if key not in self._informers:
            transform = lean_pod if message is core.Pod else None
            informer: Informer[Any] = Informer(
                self._client.resource(message),
                namespace=namespace,
                field_selector=field_selector,
                transform=transform,
            )
            if message is core.Pod:
                informer.add_index(NODE_INDEX, lambda pod: [pod.spec.nodeName] if pod.spec.nodeName else [])
            if kinds.of(message).namespaced:
                informer.add_index(CONTROLLER_INDEX, controller_index)
            self._informers[key] = informer
        return self._informers[key]

    async def start(self) -> None:
        """Start all informers and wait until each has its first list."""
        for informer in self._informers.values():
            await informer.start()
        for informer in self._informers.values():
            await informer.wait_synced()

    async def stop(self) -> None:
        """Stop all informers."""
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))


@dataclass(slots=True)
class Context:
    """See the module."""

    client: Client
    """Fenced by the term."""
    informers: SharedInformers
    recorder: EventRecorder | NamedRecorder
    options: Options
    clock: Callable[[], float] = time.monotonic
    queues: list[WorkQueue[Any]] = field(default_factory=list)

    def queue(self, name: str, *, base: float = 0.05, maximum: float = 60.0) -> WorkQueue[Any]:
        """Make a work queue whose timers end with the term; `name` labels its metrics."""
        queue: WorkQueue[Any] = WorkQueue(base=base, maximum=maximum)
        metrics.watch_queue(name, queue)
        self.queues.append(queue)
        return queue

    def close(self) -> None:
        """Drop the timers of all queues."""
        for queue in self.queues:
            queue.close()


async def work(queue: WorkQueue[K], sync: Callable[[K], Awaitable[None]], *, workers: int, name: str) -> None:
    """Work off a queue with some workers until cancelled; a key that fails is tried again after its back-off."""

    async def worker() -> None:
        while True:
            key = await queue.get()
            began = time.perf_counter()
            try:
                await sync(key)
                queue.forget(key)
            except errors.StatusError as error:
                delay = queue.retry(key)
                metrics.RETRIES.labels(name).inc()
                level = logging.DEBUG if isinstance(error, errors.ConflictError) else logging.WARNING
                log.log(level, "sync failed", extra=_fields(name, key, delay) | {"error": str(error)})
            except Exception:
                delay = queue.retry(key)
                metrics.RETRIES.labels(name).inc()
                log.exception("sync failed on a fault of ours", extra=_fields(name, key, delay))
            finally:
                metrics.WORK_SECONDS.labels(name).observe(time.perf_counter() - began)
                queue.done(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker(), name=f"{name} worker")


def _fields(name: str, key: Hashable, delay: float) -> dict[str, Any]:
    return {"controller": name, "key": str(key), "retry_seconds": round(delay, 3)}


def namespace_ends(error: errors.StatusError) -> bool:
    """Whether a create was refused because its namespace is being deleted."""
    return any(str(cause.reason) == "NamespaceTerminating" for cause in error.causes)


async def create_unless_ending(create: Awaitable[object]) -> None:
    """Await a create in a namespace; that it is there already, or that the namespace goes, is no error."""
    try:
        await create
    except (errors.AlreadyExistsError, errors.NotFoundError):
        return
    except errors.ForbiddenError as error:
        if not namespace_ends(error):
            raise


async def for_each(items: Iterable[T], act: Callable[[T], Awaitable[None]], *, limit: int) -> list[errors.StatusError]:
    """Act on items, at most `limit` at a time; return the API errors of those that failed."""
    room = asyncio.Semaphore(limit)
    failures: list[errors.StatusError] = []

    async def one(item: T) -> None:
        async with room:
            try:
                await act(item)
            except errors.StatusError as error:
                failures.append(error)

    await asyncio.gather(*(one(item) for item in items))
    return failures
