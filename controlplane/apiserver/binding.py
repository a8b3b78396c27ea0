"""Binding: the one place where a pod gets its node.

``spec.nodeName`` and the condition PodScheduled=True are stored in one compare-and-swap, together with the node's guard
key (see :mod:`.registry.companions`). A pod that has a node never gets another.

Checked binds onto one node would fail each other's comparison of the guard if they went side by side. So they take
turns: the first goes at once, and all that come meanwhile are one transaction. Should its comparison fail, each of
them is tried alone and has an outcome of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.capacity import Capacity
from controlplane.apiserver.registry import companions
from controlplane.apiserver.registry.listoptions import parse_version
from controlplane.apiserver.registry.writer import MODIFIED, Base
from controlplane.apiserver.store import Compare, CompareFailed, Put, Write
from wharfinger.api import errors, storage, times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.apiserver.registry.registry import Registry
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache, Store
    from wharfinger.api.types import core

_ATTEMPTS = 10
TOGETHER = 64
"""Most checked binds in a transaction."""


@dataclass(slots=True)
class Binding:
    """What is to be bound where, and under which conditions."""

    node: str
    uid: str = ""
    """Empty, or the pod must have it."""
    resource_version: str = ""
    """Empty, or the pod must still have it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Put onto the pod, over what it has."""
    checked: bool = False
    """Refuse when the pod does not fit on the node, counting everything placed there by now."""


def read_binding(message: core.Binding, name: str, *, preserves_uid: bool) -> Binding:
    """Read a Binding object; `name` is the pod's, from the address or from the object.

    Raises BadRequestError when the names differ, and a StatusError (500, as Kubernetes has it) for a target that is
    no node.
    """
    if message.metadata.name and message.metadata.name != name:
        raise errors.BadRequestError(
            f"name in URL does not match name in Binding object: {name} is not {message.metadata.name}"
        )
    target = message.target
    if target.kind not in ("", "Node"):
        raise errors.StatusError(f'target.kind: Unsupported value: "{target.kind}": supported values: "Node", <empty>')
    if not target.name:
        raise errors.StatusError("target.name: Required value: the name of the node")
    return Binding(
        node=target.name,
        uid=message.metadata.uid if preserves_uid else "",
        resource_version=message.metadata.resourceVersion,
        labels=dict(message.metadata.labels),
        annotations=dict(message.metadata.annotations),
    )


@dataclass(slots=True)
class _Waiting:
    """A checked bind that waits for the turn of its node."""

    request: Request
    binding: Binding
    outcome: asyncio.Future[int]

    def succeed(self, revision: int) -> None:
        if not self.outcome.done():
            self.outcome.set_result(revision)

    def fail(self, error: errors.StatusError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class Binder:
    """Binds pods."""

    def __init__(self, pods: Registry, store: Store, cache: Cache) -> None:
        self._pods = pods
        self._store = store
        self._cache = cache
        self._capacity = Capacity(cache)
        self._turns: dict[str, deque[_Waiting]] = {}
        """Node -> the checked binds that came while others were under way."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def bind(self, request: Request, binding: Binding) -> int:
        """Bind the pod that the request names; return its new resourceVersion (its present one for a dry run).

        Raises NotFoundError for an unknown pod, ConflictError when it has a node, is being deleted or has gates, when a
        precondition fails, when it does not fit (checked) or when the fence has fallen.
        """
        if not binding.checked or request.options.dry_run:
            return await self._bind(request, binding)
        waiting = self._turns.get(binding.node)
        if waiting is not None:
            outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(request, binding, outcome))
            return await outcome
        waiting = self._turns[binding.node] = deque()
        try:
            return await self._bind_alone(request, binding)
        finally:
            if waiting:  # a task of its own: callers may go away
                task = asyncio.get_running_loop().create_task(self._work_off(binding.node, waiting))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                del self._turns[binding.node]

    async def _bind_alone(self, request: Request, binding: Binding) -> int:
        revision = await self._bind(request, binding)
        await self._shown(revision)
        return revision

    async def _shown(self, revision: int) -> None:
        """Wait until the cache shows a bind, so that the next one compares the guard's new revision."""
        with contextlib.suppress(errors.TimeoutError_):  # then the next one fails and looks again
            await self._cache.wait_for(revision)

    async def _work_off(self, node: str, waiting: deque[_Waiting]) -> None:
        """Bind what waits for a node, and what comes meanwhile."""
        some: list[_Waiting] = []
        try:
            while waiting:
                some = [waiting.popleft() for _ in range(min(len(waiting), TOGETHER))]
                await self._bind_together(node, [one for one in some if not one.outcome.done()])
        finally:
            del self._turns[node]
            for one in (*some, *waiting):  # only when something unforeseen has ended this
                one.fail(errors.InternalError("the bind was given up"))

    async def _bind_together(self, node: str, some: Sequence[_Waiting]) -> None:
        ready = []
        for one in some:
            try:
                ready.append((one, *await self._prepared(one.request, one.binding)))
            except errors.StatusError as error:
                one.fail(error)
        # From here to the commit nothing is awaited: room and guard are of one moment.
        room = self._capacity.room(node)
        chosen: dict[str, _Waiting] = {}
        again: list[_Waiting] = []
        compares = [self._guarded(node)]
        puts: list[Put] = []
        for one, base, pod in ready:
            key = self._key(one.request)
            if key in chosen:
                again.append(one)  # somebody binds it twice: the second hears of the first
                continue
            why = room.take(pod)
            if why:
                one.fail(_does_not_fit(one.request, why))
                continue
            chosen[key] = one
            compares.append(Compare(key, base.revision))
            compares += [item for item in companions.fence_compares(one.request.options.fence) if item not in compares]
            puts.append(Put(key, storage.encode(pod)))
        if not chosen:
            return
        puts.append(companions.guard(node, ready[-1][2].metadata.uid))
        try:
            revision = (await self._store.commit(Write(compares, puts))).revision
        except (CompareFailed, errors.RequestTooLargeError):
            again = [*chosen.values(), *again]
        except errors.StatusError as error:
            for one in chosen.values():
                one.fail(error)
        else:
            for one in chosen.values():
                one.succeed(revision)
            await self._shown(revision)
        await self._bind_one_by_one(again)

    async def _bind_one_by_one(self, some: Sequence[_Waiting]) -> None:
        for one in some:
            try:
                revision = await self._bind_alone(one.request, one.binding)
            except errors.StatusError as error:
                one.fail(error)
            else:
                one.succeed(revision)

    def _key(self, request: Request) -> str:
        return self._pods.resource.key(request.namespace, request.name)

    async def _prepared(self, request: Request, binding: Binding, base: Base | None = None) -> tuple[Base, core.Pod]:
        """Return the pod as bound and what that starts from; a refusal by what the cache has is looked at again."""
        base = base or await self._pods.writer.base(request.namespace, request.name)
        try:
            return base, self._placed(request, binding, base)
        except errors.StatusError:
            if base.current:
                raise
        base = await self._pods.writer.base(request.namespace, request.name, current=True)
        return base, self._placed(request, binding, base)

    async def _bind(self, request: Request, binding: Binding) -> int:
        fence = request.options.fence
        key = self._key(request)
        known: Base | None = None
        for _ in range(_ATTEMPTS):
            base, pod = await self._prepared(request, binding, known)
            compares = [Compare(key, base.revision), *companions.fence_compares(fence)]
            if binding.checked:
                compares.append(self._checked(request, binding, pod))
            if request.options.dry_run:
                return base.revision
            write = Write(compares, [Put(key, storage.encode(pod)), companions.guard(binding.node, pod.metadata.uid)])
            try:
                return (await self._store.commit(write)).revision
            except CompareFailed as failed:
                companions.check_fence(fence, failed)
                guard = failed.current.get(companions.guard_key(binding.node))
                if guard is not None:
                    await self._cache.wait_for(guard.mod_revision)  # somebody was placed there: look again
                current = failed.current.get(key)
                known = Base(current.value, current.mod_revision, True) if current else Base(b"", 0, True)
        raise errors.conflict("pods/binding", request.name, MODIFIED)

    def _checked(self, request: Request, binding: Binding, pod: Any) -> Compare:
        """Return the condition under which a pod that fits still fits. Raises ConflictError when it does not."""
        why = self._capacity.refusal(pod, binding.node)
        if why:
            raise _does_not_fit(request, why)
        return self._guarded(binding.node)

    def _guarded(self, node: str) -> Compare:
        """Return the condition that nothing else is placed on a node meanwhile."""
        guard = self._cache.get(companions.guard_key(node))
        return Compare(companions.guard_key(node), guard.mod_revision if guard is not None else 0)

    def _placed(self, request: Request, binding: Binding, base: Base) -> Any:
        """Return the pod as bound, or raise."""
        name = request.name
        if not base.revision:
            raise errors.not_found("pods", name)
        pod = storage.decode(base.value)
        metadata, spec = pod.metadata, pod.spec  # type: ignore[attr-defined]
        if binding.resource_version and parse_version(binding.resource_version) != base.revision:
            raise errors.conflict("pods", name, MODIFIED)
        why = ""
        if binding.uid and binding.uid != metadata.uid:
            why = f"Precondition failed: UID in precondition: {binding.uid}, UID in object meta: {metadata.uid}"
        elif metadata.HasField("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif spec.nodeName:
            why = f'pod {name} is already assigned to node "{spec.nodeName}"'
        elif spec.schedulingGates:
            why = f"pod {name} has non-empty .spec.schedulingGates"
        if why:
            raise errors.conflict("pods/binding", name, why)
        spec.nodeName = binding.node
        metadata.labels.update(binding.labels)
        metadata.annotations.update(binding.annotations)
        _scheduled(pod)
        return pod


def _does_not_fit(request: Request, why: str) -> errors.ConflictError:
    return errors.conflict("pods/binding", request.name, f"pod {request.name} does not fit: {why}")


def _scheduled(pod: Any) -> None:
    """Set the condition PodScheduled to True."""
    condition = next((item for item in pod.status.conditions if item.type == "PodScheduled"), None)
    if condition is None:
        condition = pod.status.conditions.add(type="PodScheduled")
    condition.Clear()
    condition.type, condition.status = "PodScheduled", "True"
    condition.lastTransitionTime.CopyFrom(times.now())
