"""What an admission step is: it may complete an object, and it may refuse a request.

A step names the operations and kinds that it looks at; so a request passes only by the steps that concern it. Most
steps answer at once from the watch cache; one that must wait returns an awaitable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind

Operation = Literal["create", "update", "delete"]


class Step(Protocol):
    """One admission step, under the name that Kubernetes gives it."""

    name: ClassVar[str]

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Whether the step looks at such requests at all."""
        ...

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Complete `obj` in place, or raise a StatusError. `obj` is None for a delete, `old` is for a create."""
        ...
