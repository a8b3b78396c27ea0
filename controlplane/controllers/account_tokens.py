"""Fills Secrets of type ``kubernetes.io/service-account-token``: the older way to a token, one without an end.

Such a Secret is made by hand, for programs outside the cluster that cannot ask for a new token now and then. Its token
is good while the Secret and the account exist; when the account goes, the Secret follows.
"""

from __future__ import annotations

import logging
from pathlib import Path

from controlplane.controllers.context import Context, work
from wharfinger.api import errors
from wharfinger.api.accounttokens import ACCOUNT, ACCOUNT_UID, TYPE
from wharfinger.api.types import core
from wharfinger.signingkeys import legacy_token, load_key

log = logging.getLogger(__name__)

WORKERS = 2


class AccountTokenController:
    """See the module. Made only when there is a key to sign with; ValueError or OSError when it cannot be read."""

    name = "serviceaccount-token-controller"

    def __init__(self, context: Context) -> None:
        options = context.options
        self._key = load_key(Path(options.service_account_private_key_file or ""), private=True)
        self._authority = Path(options.root_ca_file).read_bytes() if options.root_ca_file else b""
        self._accounts = context.informers.of(core.ServiceAccount)
        self._secrets = context.informers.of(core.Secret, field_selector=f"type={TYPE}")
        self._client = context.client.resource(core.Secret)
        self._account_client = context.client.resource(core.ServiceAccount)
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch and sync."""
        self._secrets.add_handler(on_add=self._changed, on_update=lambda _, item: self._changed(item))
        self._secrets.add_index("account", lambda item: [_account(item)])
        self._accounts.add_handler(on_delete=self._account_gone)
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _changed(self, secret: core.Secret) -> None:
        self._queue.add(f"{secret.metadata.namespace}/{secret.metadata.name}")

    def _account_gone(self, account: core.ServiceAccount) -> None:
        for secret in self._secrets.by_index("account", f"{account.metadata.namespace}/{account.metadata.name}"):
            self._changed(secret)

    async def _sync(self, key: str) -> None:
        secret = self._secrets.get(key)
        if secret is None or secret.metadata.HasField("deletionTimestamp"):
            return
        account = await self._account_of(secret)
        uid = secret.metadata.annotations.get(ACCOUNT_UID, "")
        if account is None or uid not in ("", account.metadata.uid):
            await self._delete(secret)
            return
        new = core.Secret()
        new.CopyFrom(secret)
        new.metadata.annotations[ACCOUNT_UID] = account.metadata.uid
        namespace = secret.metadata.namespace
        if self._authority:
            new.data["ca.crt"] = self._authority
        new.data["namespace"] = namespace.encode()
        if not new.data.get("token"):
            new.data["token"] = legacy_token(
                self._key, namespace=namespace, account=account.metadata.name, uid=account.metadata.uid,
                secret=secret.metadata.name,
            ).encode()  # fmt: skip
        if new != secret:
            try:
                await self._client.update(new)
            except errors.NotFoundError:
                return

    async def _account_of(self, secret: core.Secret) -> core.ServiceAccount | None:
        """Return the account, asked of the server when it is not known: a Secret is not deleted on a guess."""
        found = self._accounts.get(_account(secret))
        if found is not None:
            return found
        name = secret.metadata.annotations.get(ACCOUNT, "")
        try:
            return await self._account_client.get(name, namespace=secret.metadata.namespace)
        except errors.NotFoundError:
            return None

    async def _delete(self, secret: core.Secret) -> None:
        try:
            await self._client.delete(
                secret.metadata.name, namespace=secret.metadata.namespace, uid=secret.metadata.uid,
                resource_version=secret.metadata.resourceVersion,
            )  # fmt: skip
        except errors.NotFoundError:
            return
        log.info(
            "a token of an account that is gone was deleted",
            extra={"secret": f"{secret.metadata.namespace}/{secret.metadata.name}"},
        )


def _account(secret: core.Secret) -> str:
    return f"{secret.metadata.namespace}/{secret.metadata.annotations.get(ACCOUNT, '')}"
