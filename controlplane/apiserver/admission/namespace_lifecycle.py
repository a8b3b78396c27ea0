"""NamespaceLifecycle: nothing is created where no namespace is, or where one is ending; some namespaces stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from wharfinger.api import errors
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_PREFIX = "/registry/namespaces/"


class NamespaceTerminatingError(ForbiddenError):
    """Raised when something is to be created in a namespace that is ending; its cause is no field's fault."""

    def to_status(self) -> Any:
        """Return the Status, with the cause that controllers look for."""
        status = super().to_status()
        status.details.causes.add(
            reason="NamespaceTerminating",
            message="namespace is being terminated",
            field="metadata.namespace",
        )
        return status


class NamespaceLifecycle(Step):
    """Checks the namespace of creates, and deletes of namespaces."""

    name: ClassVar[str] = "NamespaceLifecycle"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Creates in namespaces; deletes of namespaces."""
        return (operation == "create" and kind.namespaced) or (
            operation == "delete" and kind.group_resource == "namespaces"
        )

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse with 404 or 403. A namespace that the cache does not know is looked for once more, freshly."""
        if request.verb in ("delete", "deletecollection"):
            if request.kind.resource == "namespaces" and request.name in IMMORTAL:
                raise ForbiddenError(
                    f'namespaces "{request.name}" is forbidden: this namespace may not be deleted',
                    name=request.name,
                    kind="namespaces",
                )
            return None
        entry = self._cache.get(_PREFIX + request.namespace)
        if entry is None:
            return self._look_again(request, obj)
        self._check(entry.decoded, request, obj)
        return None

    async def _look_again(self, request: Request, obj: Any) -> None:
        await self._cache.fresh()
        entry = self._cache.get(_PREFIX + request.namespace)
        if entry is None:
            raise errors.not_found("namespaces", request.namespace)
        self._check(entry.decoded, request, obj)

    def _check(self, namespace: Any, request: Request, obj: Any) -> None:
        if namespace.status.phase != "Terminating" and not namespace.metadata.HasField("deletionTimestamp"):
            return
        kind = request.kind
        name = obj.metadata.name if obj is not None else request.name
        raise NamespaceTerminatingError(
            f'{kind.group_resource} "{name}" is forbidden: unable to create new content in namespace '
            f"{request.namespace} because it is being terminated",
            name=name,
            kind=kind.resource,
            group=kind.group,
        )
