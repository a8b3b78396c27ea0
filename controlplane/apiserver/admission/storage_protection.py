"""StorageObjectInUseProtection: claims and volumes in use outlive their deletion until nobody uses them.

The finalizer that does it is put on here, and taken off by a controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind

FINALIZERS = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}


class StorageProtection(Step):
    """Puts the finalizer on new claims and volumes."""

    name: ClassVar[str] = "StorageObjectInUseProtection"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New claims and volumes."""
        return operation == "create" and kind.group_resource in FINALIZERS

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Add the finalizer unless it is there."""
        finalizer = FINALIZERS[request.kind.group_resource]
        if finalizer not in obj.metadata.finalizers:
            obj.metadata.finalizers.append(finalizer)
        return None
