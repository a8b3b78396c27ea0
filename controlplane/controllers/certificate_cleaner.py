"""Deletes requests for certificates that are over, and bootstrap tokens whose time has come.

Ages as in Kubernetes: a request that was issued, approved or denied goes after an hour, one that nobody decided after a
day, and one whose certificate has expired at once.
"""

from __future__ import annotations

import asyncio
import logging
import time

from controlplane.controllers.context import Context, work
from wharfinger import bootstraptokens
from wharfinger.api import errors
from wharfinger.api.types import certificates, core
from wharfinger.daemon import validity

log = logging.getLogger(__name__)

LOOK_SECONDS = 600.0
DECIDED_SECONDS = 3600.0
PENDING_SECONDS = 86_400.0


def is_over(request: certificates.CertificateSigningRequest, now: float) -> str:
    """Say why a request can go; empty when it stays."""
    if request.status.certificate:
        try:
            issued = validity.read(request.status.certificate)
        except ValueError:
            issued = None
        if issued is not None and issued.ends.timestamp() <= now:
            return "its certificate has expired"
    for kind, what in (("Denied", "denied"), ("Failed", "failed"), ("Approved", "approved")):
        for condition in request.status.conditions:
            if condition.type == kind and now - condition.lastUpdateTime.seconds > DECIDED_SECONDS:
                return f"it was {what} an hour ago"
    if not request.status.conditions and now - request.metadata.creationTimestamp.seconds > PENDING_SECONDS:
        return "nobody decided on it for a day"
    return ""


class CertificateCleaner:
    """Deletes requests."""

    name = "certificatesigningrequest-cleaner-controller"

    def __init__(self, context: Context) -> None:
        self._requests = context.informers.of(certificates.CertificateSigningRequest)
        self._client = context.client.resource(certificates.CertificateSigningRequest)

    async def run(self) -> None:
        """Look every ten minutes."""
        while True:
            for request in list(self._requests.items()):
                why = is_over(request, time.time())
                if why:
                    await self._delete(request, why)
            await asyncio.sleep(LOOK_SECONDS)

    async def _delete(self, request: certificates.CertificateSigningRequest, why: str) -> None:
        name = request.metadata.name
        try:
            await self._client.delete(name, uid=request.metadata.uid)
        except errors.NotFoundError:
            return
        except errors.StatusError as error:
            log.warning("a request for a certificate could not be deleted", extra={"csr": name, "error": error.message})
            return
        log.info("a request for a certificate was deleted", extra={"csr": name, "reason": why})


class TokenCleaner:
    """Deletes bootstrap tokens when they expire."""

    name = "token-cleaner-controller"

    def __init__(self, context: Context) -> None:
        self._secrets = context.informers.of(
            core.Secret, namespace=bootstraptokens.NAMESPACE, field_selector=f"type={bootstraptokens.TYPE}"
        )
        self._client = context.client.resource(core.Secret)
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch, and wait for each token's end."""
        self._secrets.add_handler(on_add=self._seen, on_update=lambda _, item: self._seen(item))
        await work(self._queue, self._sync, workers=1, name=self.name)

    def _seen(self, secret: core.Secret) -> None:
        self._queue.add(f"{secret.metadata.namespace}/{secret.metadata.name}")

    async def _sync(self, key: str) -> None:
        secret = self._secrets.get(key)
        if secret is None:
            return
        now = time.time()
        if bootstraptokens.expired(secret.data, now):
            try:
                await self._client.delete(
                    secret.metadata.name, namespace=secret.metadata.namespace, uid=secret.metadata.uid
                )
            except errors.NotFoundError:
                return
            log.info("an expired bootstrap token was deleted", extra={"secret": secret.metadata.name})
            return
        end = bootstraptokens.end_of(secret.data)
        if end is not None:
            self._queue.add_after(key, end - now + 0.5)
