"""RuntimeClass: what running under a pod's class costs, and where it can run, is put into the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.strategies.base import same
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PREFIX = "/registry/runtimeclasses/"


class RuntimeClass(Step):
    """Sets overhead, node selector and tolerations of new pods from their class."""

    name: ClassVar[str] = "RuntimeClass"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods."""
        return operation == "create" and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Complete or refuse."""
        name = obj.spec.runtimeClassName
        if not name:
            if obj.spec.overhead:
                raise _forbidden(
                    obj, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                )
            return None
        entry = self._cache.get(_PREFIX + name)
        if entry is None:
            return self._look_again(obj, name)
        self._apply(obj, entry.decoded)
        return None

    async def _look_again(self, pod: Any, name: str) -> None:
        await self._cache.fresh()
        entry = self._cache.get(_PREFIX + name)
        if entry is None:
            raise _forbidden(pod, f'pod rejected: RuntimeClass "{name}" not found')
        self._apply(pod, entry.decoded)

    def _apply(self, pod: Any, runtime: Any) -> None:
        spec = pod.spec
        fixed = runtime.overhead.podFixed if runtime.HasField("overhead") else {}
        if spec.overhead and (
            set(spec.overhead) != set(fixed) or any(not same(spec.overhead[key], fixed[key]) for key in fixed)
        ):
            raise _forbidden(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        for key in fixed:
            spec.overhead[key].CopyFrom(fixed[key])
        if not runtime.HasField("scheduling"):
            return
        for key, value in runtime.scheduling.nodeSelector.items():
            if spec.nodeSelector.get(key, value) != value:
                raise _forbidden(pod, f"pod rejected: conflict: RuntimeClass's nodeSelector demands {key}={value}")
            spec.nodeSelector[key] = value
        for toleration in runtime.scheduling.tolerations:
            if not any(same(toleration, present) for present in spec.tolerations):
                spec.tolerations.add().CopyFrom(toleration)


def _forbidden(pod: Any, why: str) -> ForbiddenError:
    name = pod.metadata.name
    return ForbiddenError(f'pods "{name}" is forbidden: {why}', name=name, kind="pods")
