"""TaintNodesByCondition: a new node takes no pods until the node controller has seen that it is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.admission.default_toleration_seconds import NOT_READY

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind


class TaintNodesByCondition(Step):
    """Adds the not-ready taint to new nodes."""

    name: ClassVar[str] = "TaintNodesByCondition"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New nodes."""
        return operation == "create" and kind.group_resource == "nodes"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Add the taint unless it is there."""
        if not any(taint.key == NOT_READY and taint.effect == "NoSchedule" for taint in obj.spec.taints):
            obj.spec.taints.add(key=NOT_READY, effect="NoSchedule")
        return None
