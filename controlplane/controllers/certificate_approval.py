"""Approves what nodes ask for themselves: their client certificates and serving certificates.

Whether somebody may have a node's certificate is a right like any other (``nodeclient`` for hosts that join,
``selfnodeclient`` for nodes that renew), so the apiserver is asked by an access review. A serving certificate is
approved when a node asks for its own names; Kubernetes leaves that to the administrator. Everything else waits for a
person.
"""

from __future__ import annotations

import logging
import time

from controlplane.controllers import certificate_rules as rules
from controlplane.controllers.context import Context, work
from wharfinger.api import errors
from wharfinger.api.types import authorization, certificates, core

log = logging.getLogger(__name__)

WORKERS = 2
RETRY_SECONDS = (1.0, 60.0)
"""A node's addresses may come after its request: look again, the older the request the later."""


class CertificateApprovalController:
    """See the module."""

    name = "certificatesigningrequest-approving-controller"

    def __init__(self, context: Context) -> None:
        self._requests = context.informers.of(certificates.CertificateSigningRequest)
        self._nodes = context.informers.of(core.Node)
        self._client = context.client.resource(certificates.CertificateSigningRequest)
        self._reviews = context.client.resource(authorization.SubjectAccessReview)
        self._queue = context.queue(self.name)
        self._control_plane = context.client.config.hosts

    async def run(self) -> None:
        """Watch and sync."""
        self._requests.add_handler(on_add=lambda item: self._queue.add(item.metadata.name))
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    async def _sync(self, name: str) -> None:
        request = self._requests.get(name)
        signer = request.spec.signerName if request is not None else ""
        if request is None or signer not in (rules.KUBELET_CLIENT, rules.KUBELET_SERVING):
            return
        if rules.has(request, "Approved", "Denied", "Failed") or request.status.certificate:
            return
        try:
            asked = rules.read(request)
        except ValueError as error:
            log.info("a request for a certificate cannot be read", extra={"csr": name, "error": str(error)})
            return
        if why := rules.fault(signer, asked):
            log.info("a request for a certificate is left to a person", extra={"csr": name, "reason": why})
            return
        if signer == rules.KUBELET_CLIENT:
            reason = await self._client_reason(request, asked)
        else:
            reason = self._serving_reason(request, asked)
        if reason:
            await self._approve(request, reason)

    async def _client_reason(self, request: certificates.CertificateSigningRequest, asked: rules.Asked) -> str:
        rights = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
        if request.spec.username == asked.name:
            rights.insert(
                0, ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
            )
        for subresource, reason in rights:
            if await self._may(request, subresource):
                return reason
        log.info(
            "a request for a node's certificate is left to a person: its asker has no right to it",
            extra={"csr": request.metadata.name, "user": request.spec.username},
        )
        return ""

    async def _may(self, request: certificates.CertificateSigningRequest, subresource: str) -> bool:
        review = authorization.SubjectAccessReview()
        spec = review.spec
        spec.user, spec.uid = request.spec.username, request.spec.uid
        spec.groups.extend(request.spec.groups)
        for key in request.spec.extra:
            spec.extra[key].items.extend(request.spec.extra[key].items)
        about = spec.resourceAttributes
        about.group, about.resource, about.verb = "certificates.k8s.io", "certificatesigningrequests", "create"
        about.version, about.subresource = "*", subresource
        return (await self._reviews.create(review)).status.allowed

    def _serving_reason(self, request: certificates.CertificateSigningRequest, asked: rules.Asked) -> str:
        if request.spec.username != asked.name or rules.NODES not in request.spec.groups:
            why = "only the node itself may ask for it"
        else:
            why = rules.foreign_names(
                asked, self._nodes.get(asked.node), self._nodes.items(), control_plane=self._control_plane
            )
            if why:
                age = time.time() - request.metadata.creationTimestamp.seconds
                self._queue.add_after(request.metadata.name, min(max(age, RETRY_SECONDS[0]), RETRY_SECONDS[1]))
        if not why:
            return "Auto approving kubelet serving certificate: its names are the node's own."
        log.info("a serving certificate is not approved", extra={"csr": request.metadata.name, "reason": why})
        return ""

    async def _approve(self, request: certificates.CertificateSigningRequest, message: str) -> None:
        new = certificates.CertificateSigningRequest()
        new.CopyFrom(request)
        new.status.conditions.add(type="Approved", status="True", reason="AutoApproved", message=message)
        try:
            await self._client.update(new, subresource="approval")
        except errors.NotFoundError:
            return
        log.info(
            "a request for a certificate was approved",
            extra={"csr": request.metadata.name, "user": request.spec.username, "signer": request.spec.signerName},
        )
