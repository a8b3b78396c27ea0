"""Binding: the one place where a pod gets its node.

``spec.nodeName`` and the condition PodScheduled=True are stored in one compare-and-swap, together with the node's guard
key (see :mod:`.registry.companions`). A pod that has a node never gets another.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from controlplane.apiserver.capacity import Capacity
from controlplane.apiserver.registry import companions
from controlplane.apiserver.registry.listoptions import parse_version
from controlplane.apiserver.registry.writer import MODIFIED, Base
from controlplane.apiserver.store import Compare, CompareFailed, Put, Write
from wharfinger.api import errors, storage, times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.registry.registry import Registry
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache, Store
    from wharfinger.api.types import core

_ATTEMPTS = 10


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


class Binder:
    """Binds pods."""

    def __init__(self, pods: Registry, store: Store, cache: Cache) -> None:
        self._pods = pods
        self._store = store
        self._cache = cache
        self._capacity = Capacity(cache)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Checked binds onto one node go one after the other: side by side all but one would have to look again."""

    async def bind(self, request: Request, binding: Binding) -> int:
        """Bind the pod that the request names; return its new resourceVersion (its present one for a dry run).

        Raises NotFoundError for an unknown pod, ConflictError when it has a node, is being deleted or has gates, when a
        precondition fails, when it does not fit (checked) or when the fence has fallen.
        """
        if not binding.checked:
            return await self._bind(request, binding)
        turn = self._turns.get(binding.node)
        if turn is None:
            turn = self._turns[binding.node] = asyncio.Lock()
        async with turn:
            revision = await self._bind(request, binding)
            with contextlib.suppress(errors.TimeoutError_):  # bound all the same: the next one compares the guard
                await self._cache.wait_for(revision)
        return revision

    async def _bind(self, request: Request, binding: Binding) -> int:
        fence = request.options.fence
        key = self._pods.resource.key(request.namespace, request.name)
        base = await self._pods.writer.base(request.namespace, request.name)
        for _ in range(_ATTEMPTS):
            try:
                pod = self._placed(request, binding, base)
            except errors.StatusError:
                if base.current:
                    raise
                base = await self._pods.writer.base(request.namespace, request.name, current=True)
                continue
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
                base = Base(current.value, current.mod_revision, True) if current else Base(b"", 0, True)
        raise errors.conflict("pods/binding", request.name, MODIFIED)

    def _checked(self, request: Request, binding: Binding, pod: Any) -> Compare:
        """Return the condition under which a pod that fits still fits. Raises ConflictError when it does not."""
        guard = self._cache.get(companions.guard_key(binding.node))
        why = self._capacity.refusal(pod, binding.node)
        if why:
            raise errors.conflict("pods/binding", request.name, f"pod {request.name} does not fit: {why}")
        return Compare(companions.guard_key(binding.node), guard.mod_revision if guard is not None else 0)

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


def _scheduled(pod: Any) -> None:
    """Set the condition PodScheduled to True."""
    condition = next((item for item in pod.status.conditions if item.type == "PodScheduled"), None)
    if condition is None:
        condition = pod.status.conditions.add(type="PodScheduled")
    condition.Clear()
    condition.type, condition.status = "PodScheduled", "True"
    condition.lastTransitionTime.CopyFrom(times.now())
