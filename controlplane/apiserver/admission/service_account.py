"""ServiceAccount: a pod that names no account runs as ``default``.

Kubernetes also mounts the account's token and refuses unknown accounts; both need the token service and the controller
that makes the accounts, so neither happens yet: no volume is injected, and any account's name is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind


class ServiceAccount(Step):
    """Fills in the account's name."""

    name: ClassVar[str] = "ServiceAccount"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods."""
        return operation == "create" and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Set the name, and the older field that carries the same."""
        spec = obj.spec
        spec.serviceAccountName = spec.serviceAccountName or spec.serviceAccount or "default"
        spec.serviceAccount = spec.serviceAccountName
        return None
