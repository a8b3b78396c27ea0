"""PersistentVolumeClaimResize: a claim grows only when it is bound and its class allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from wharfinger.api import quantity
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_CLASSES = "/registry/storageclasses/"


class PersistentVolumeClaimResize(Step):
    """Checks claims that are made larger."""

    name: ClassVar[str] = "PersistentVolumeClaimResize"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Changed claims."""
        return operation == "update" and kind.group_resource == "persistentvolumeclaims"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse with 403."""
        if request.subresource or not _size(old) < _size(obj):
            return None
        if old.status.phase != "Bound":
            raise _forbidden(obj, "Only bound persistent volume claims can be expanded")
        entry = self._cache.get(_CLASSES + obj.spec.storageClassName) if obj.spec.storageClassName else None
        if entry is None or not entry.decoded.allowVolumeExpansion:
            raise _forbidden(
                obj,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
                "must support resize",
            )
        return None


def _size(claim: Any) -> quantity.Quantity:
    requests = claim.spec.resources.requests
    return quantity.parse(requests["storage"].string if "storage" in requests else "0")


def _forbidden(claim: Any, why: str) -> ForbiddenError:
    name = claim.metadata.name
    text = f'persistentvolumeclaims "{name}" is forbidden: {why}'
    return ForbiddenError(text, name=name, kind="persistentvolumeclaims")
