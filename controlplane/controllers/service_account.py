"""Gives every namespace its account ``default``, and gives it back when somebody deletes it.

Pods that name no account run as this one. Source: "Service Accounts" in Kubernetes' documentation.
"""

from __future__ import annotations

from controlplane.controllers.context import Context, create_unless_ending, work
from controlplane.controllers.objects import deleting
from wharfinger.api.types import core

ACCOUNT = "default"
WORKERS = 2


class ServiceAccountController:
    """See the module."""

    name = "serviceaccount"

    def __init__(self, context: Context) -> None:
        self._namespaces = context.informers.of(core.Namespace)
        self._accounts = context.informers.of(core.ServiceAccount)
        self._client = context.client.resource(core.ServiceAccount)
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch and sync."""
        self._namespaces.add_handler(
            on_add=lambda item: self._queue.add(item.metadata.name),
            on_update=lambda _, item: self._queue.add(item.metadata.name),
        )
        self._accounts.add_handler(on_delete=self._gone)
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _gone(self, account: core.ServiceAccount) -> None:
        if account.metadata.name == ACCOUNT:
            self._queue.add(account.metadata.namespace)

    async def _sync(self, name: str) -> None:
        namespace = self._namespaces.get(name)
        if namespace is None or deleting(namespace) or self._accounts.get(f"{name}/{ACCOUNT}") is not None:
            return
        account = core.ServiceAccount()
        account.metadata.name, account.metadata.namespace = ACCOUNT, name
        await create_unless_ending(self._client.create(account))
