"""ServiceAccount: a pod runs as an account of its namespace, ``default`` when it names none.

Kubernetes also mounts the account's token. That needs the token service, so it does not happen yet: no volume is
injected. The account ``default`` counts as there, because the controller that makes it is not there yet either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.auth.nodegraph import MIRROR
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PREFIX = "/registry/serviceaccounts/"
_DEFAULT = "default"


class ServiceAccount(Step):
    """Fills in the account's name, and refuses accounts that do not exist."""

    name: ClassVar[str] = "ServiceAccount"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods."""
        return operation == "create" and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Set the name, and the older field that carries the same."""
        spec = obj.spec
        if MIRROR in obj.metadata.annotations:
            return None  # made by its node, which may give it no account
        account = spec.serviceAccountName or spec.serviceAccount or _DEFAULT
        spec.serviceAccountName = spec.serviceAccount = account
        if account == _DEFAULT or self._cache.get(f"{_PREFIX}{request.namespace}/{account}") is not None:
            return None
        return self._look_again(request.namespace, account, obj.metadata.name)

    async def _look_again(self, namespace: str, account: str, pod: str) -> None:
        await self._cache.fresh()
        if self._cache.get(f"{_PREFIX}{namespace}/{account}") is None:
            raise ForbiddenError(
                f'pods "{pod}" is forbidden: error looking up service account {namespace}/{account}: '
                f'serviceaccount "{account}" not found',
                name=pod,
                kind="pods",
            )
