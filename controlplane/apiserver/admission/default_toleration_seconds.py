"""DefaultTolerationSeconds: a new pod stays for a while on a node that is not ready or cannot be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_KEYS = (NOT_READY, UNREACHABLE)


class DefaultTolerationSeconds(Step):
    """Adds the tolerations that a pod does not bring itself."""

    name: ClassVar[str] = "DefaultTolerationSeconds"

    def __init__(self, not_ready: int = 300, unreachable: int = 300) -> None:
        self._seconds = {NOT_READY: not_ready, UNREACHABLE: unreachable}

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods."""
        return operation == "create" and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Add what is missing."""
        tolerations = obj.spec.tolerations
        missing = set(_KEYS)
        for toleration in tolerations:
            if toleration.effect in ("", "NoExecute"):
                if toleration.key:
                    missing.discard(toleration.key)
                else:
                    missing.clear()
        for key in _KEYS:
            if key in missing:
                tolerations.add(key=key, operator="Exists", effect="NoExecute", tolerationSeconds=self._seconds[key])
        return None
