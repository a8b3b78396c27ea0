"""Signs what was approved, for Kubernetes' own signers, with the cluster's authority (``--cluster-signing-…-file``).

What a signer would never sign fails with a condition that says why, approved or not. The authority's files are read
anew for each certificate: they may be replaced while the daemon runs, and signing is rare.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

from controlplane.controllers import certificate_rules as rules
from controlplane.controllers.context import Context, work
from wharfinger.api import errors
from wharfinger.api.types import certificates

log = logging.getLogger(__name__)

WORKERS = 2


class CertificateSigningController:
    """See the module. Made only when there is an authority to sign with."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(self, context: Context) -> None:
        options = context.options
        self._cert = Path(options.cluster_signing_cert_file or "")
        self._key = Path(options.cluster_signing_key_file or "")
        self._longest = timedelta(seconds=options.cluster_signing_duration)
        self._requests = context.informers.of(certificates.CertificateSigningRequest)
        self._client = context.client.resource(certificates.CertificateSigningRequest)
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch and sync."""
        self._requests.add_handler(
            on_add=lambda item: self._queue.add(item.metadata.name),
            on_update=lambda _, item: self._queue.add(item.metadata.name),
        )
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    async def _sync(self, name: str) -> None:
        request = self._requests.get(name)
        if request is None or request.spec.signerName not in rules.SIGNERS:
            return
        if not rules.has(request, "Approved") or rules.has(request, "Denied", "Failed") or request.status.certificate:
            return
        new = certificates.CertificateSigningRequest()
        new.CopyFrom(request)
        try:
            asked = rules.read(request)
            why = rules.fault(request.spec.signerName, asked)
        except ValueError as error:
            why = str(error)
        if why:
            new.status.conditions.add(type="Failed", status="True", reason="SignerValidationFailure", message=why)
            log.info("a request for a certificate failed", extra={"csr": name, "reason": why})
        else:
            new.status.certificate = self._sign(request, asked)
            log.info(
                "a certificate was signed",
                extra={"csr": name, "signer": request.spec.signerName, "subject": asked.name},
            )
        try:
            await self._client.update_status(new)
        except errors.NotFoundError:
            return

    def _sign(self, request: certificates.CertificateSigningRequest, asked: rules.Asked) -> bytes:
        life = self._longest
        if request.spec.HasField("expirationSeconds"):
            life = min(life, timedelta(seconds=request.spec.expirationSeconds))
        assert asked.parsed is not None
        from wharfinger import pki  # imported at first use: what it needs costs 8 MB

        return pki.sign(
            pki.read_ca(self._cert, self._key), asked.parsed,
            client="client auth" in asked.usages, server="server auth" in asked.usages, lifetime=life,
        )  # fmt: skip
