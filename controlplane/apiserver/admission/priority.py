"""Priority: the name of a pod's PriorityClass becomes a number; without a name the default class, or 0, holds.

Pods may not choose the number themselves. There is at most one default class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PREFIX = "/registry/priorityclasses/"
_PREEMPT = "PreemptLowerPriority"


class Priority(Step):
    """Resolves the class of new pods, and keeps the default class unique."""

    name: ClassVar[str] = "Priority"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._changed = True
        self._known_default: Any = None
        cache.listen(_PREFIX, self._note)

    def _note(self, _: str) -> None:
        self._changed = True

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods; new and changed classes."""
        return (operation == "create" and kind.group_resource == "pods") or (
            operation in ("create", "update") and kind.resource == "priorityclasses"
        )

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Complete or refuse."""
        if request.kind.resource == "priorityclasses":
            if obj.globalDefault:
                self._check_default(obj)
            return None
        name = obj.spec.priorityClassName
        if not name:
            chosen = self._default()
            if chosen is None:
                self._set(obj, 0, _PREEMPT)
            else:
                obj.spec.priorityClassName = chosen.metadata.name
                self._set(obj, chosen.value, chosen.preemptionPolicy)
            return None
        entry = self._cache.get(_PREFIX + name)
        if entry is None:
            return self._look_again(obj, name)
        self._set(obj, entry.decoded.value, entry.decoded.preemptionPolicy)
        return None

    async def _look_again(self, pod: Any, name: str) -> None:
        await self._cache.fresh()
        entry = self._cache.get(_PREFIX + name)
        if entry is None:
            raise _forbidden(pod, f"no PriorityClass with name {name} was found")
        self._set(pod, entry.decoded.value, entry.decoded.preemptionPolicy)

    def _default(self) -> Any:
        """Return the default class: of several (made at once) the one with the lowest value, as in Kubernetes."""
        if self._changed:
            self._changed = False
            entries = self._cache.list(_PREFIX).entries
            defaults = [entry.decoded for entry in entries if entry.decoded.globalDefault]
            self._known_default = min(defaults, key=lambda item: item.value, default=None)
        return self._known_default

    def _set(self, pod: Any, value: int, policy: str) -> None:
        spec = pod.spec
        policy = policy or _PREEMPT
        if spec.HasField("priority") and spec.priority != value:
            raise _forbidden(
                pod,
                f"the integer value of priority ({spec.priority}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        if spec.HasField("preemptionPolicy") and spec.preemptionPolicy != policy:
            raise _forbidden(
                pod,
                f"the string value of PreemptionPolicy ({spec.preemptionPolicy}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )
        spec.priority = value
        spec.preemptionPolicy = policy

    def _check_default(self, obj: Any) -> None:
        current = self._default()
        if current is not None and current.metadata.name != obj.metadata.name:
            raise ForbiddenError(
                f'priorityclasses.scheduling.k8s.io "{obj.metadata.name}" is forbidden: PriorityClass '
                f"{current.metadata.name} is already marked as default; only one can be",
                name=obj.metadata.name,
                kind="priorityclasses",
                group="scheduling.k8s.io",
            )


def _forbidden(pod: Any, why: str) -> ForbiddenError:
    name = pod.metadata.name
    return ForbiddenError(f'pods "{name}" is forbidden: {why}', name=name, kind="pods")
