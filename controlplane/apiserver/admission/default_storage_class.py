"""DefaultStorageClass: a claim that names no class gets the default one; an empty name is a choice and stays.

Of several defaults the youngest counts, and of equally old ones the first by name, as in Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PREFIX = "/registry/storageclasses/"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_BETA = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass(Step):
    """Fills in the class of new claims."""

    name: ClassVar[str] = "DefaultStorageClass"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New claims."""
        return operation == "create" and kind.group_resource == "persistentvolumeclaims"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Set the class when none is named and there is a default."""
        if obj.spec.HasField("storageClassName") or _BETA in obj.metadata.annotations:
            return None
        classes = [
            entry.decoded.metadata
            for entry in self._cache.list(_PREFIX).entries
            if any(entry.decoded.metadata.annotations.get(name) == "true" for name in _DEFAULT)
        ]
        if classes:
            classes.sort(key=lambda metadata: (-metadata.creationTimestamp.seconds, metadata.name))
            obj.spec.storageClassName = classes[0].name
        return None
