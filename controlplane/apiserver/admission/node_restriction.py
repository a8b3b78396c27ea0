"""NodeRestriction: an agent writes only its own pods, whatever the watch cache knew when it was let in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind


class NodeRestriction(Step):
    """Checks what agents write."""

    name: ClassVar[str] = "NodeRestriction"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Changes and deletes of pods; new and changed nodes."""
        return (operation in ("update", "delete") and kind.group_resource == "pods") or (
            operation in ("create", "update") and kind.group_resource == "nodes"
        )

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse what is not the agent's own."""
        node = request.user.node_name
        if not node:
            return None
        if request.kind.resource == "nodes":
            if obj.metadata.name != node:
                raise _forbidden(request, obj.metadata.name, f'node "{node}" may only touch itself')
        elif old.spec.nodeName != node:
            raise _forbidden(request, old.metadata.name, f'the pod is not on node "{node}"')
        return None


def _forbidden(request: Request, name: str, why: str) -> ForbiddenError:
    resource = request.kind.group_resource
    return ForbiddenError(f'{resource} "{name}" is forbidden: {why}', name=name, kind=request.kind.resource)
