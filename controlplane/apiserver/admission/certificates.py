"""CertificateApproval, CertificateSigning, CertificateSubjectRestriction: who may have certificates made.

Changing the conditions of a request for a certificate is not enough to approve it: one needs the verb ``approve`` on
the *signer* that is asked for, and ``sign`` to put the certificate in. And nobody gets a certificate for
``system:masters`` by asking the signer of the apiserver's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cryptography import x509
from cryptography.x509.oid import NameOID

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.auth.authorizer import MASTERS
from controlplane.apiserver.strategies.base import all_same
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind

_GROUP, _REQUESTS = "certificates.k8s.io", "certificatesigningrequests"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


def allowed_on_signer(authorizers: Authorizers, request: Request, verb: str, signer: str) -> bool:
    """Whether the user may do something with a signer, by its name or by ``domain/*``."""
    domain = signer.partition("/")[0]
    return any(
        authorizers.decide(Attributes(request.user, verb, _GROUP, "signers", name=name)).allowed
        for name in (signer, f"{domain}/*")
    )


class _OfRequests(Step):
    def __init__(self, authorizers: Authorizers) -> None:
        self._authorizers = authorizers

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Requests for certificates that are changed."""
        return operation == "update" and (kind.group, kind.resource) == (_GROUP, _REQUESTS)

    def _require(self, request: Request, verb: str, old: Any) -> None:
        signer = old.spec.signerName
        if not allowed_on_signer(self._authorizers, request, verb, signer):
            done = "approve" if verb == "approve" else "sign"
            raise _forbidden(old.metadata.name, f'user not permitted to {done} requests with signerName "{signer}"')


class CertificateApproval(_OfRequests):
    """Checks who approves and denies."""

    name: ClassVar[str] = "CertificateApproval"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse to those who may not ``approve`` for the signer."""
        if request.subresource == "approval":
            self._require(request, "approve", old)
        return None


class CertificateSigning(_OfRequests):
    """Checks who puts certificates in."""

    name: ClassVar[str] = "CertificateSigning"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse to those who may not ``sign`` for the signer; other parts of the status are anybody's."""
        if request.subresource == "status":
            same = obj.status.certificate == old.status.certificate
            if not (same and all_same(obj.status.conditions, old.status.conditions)):
                self._require(request, "sign", old)
        return None


class CertificateSubjectRestriction(Step):
    """Checks what certificates are asked for."""

    name: ClassVar[str] = "CertificateSubjectRestriction"

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New requests for certificates."""
        return operation == "create" and (kind.group, kind.resource) == (_GROUP, _REQUESTS)

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse certificates of masters. What cannot be read is left to validation."""
        if obj.spec.signerName != CLIENT_SIGNER:
            return None
        try:
            subject = x509.load_pem_x509_csr(obj.spec.request).subject
        except ValueError:
            return None
        groups = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        if MASTERS in groups:
            raise _forbidden(obj.metadata.name, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")
        return None


def _forbidden(name: str, why: str) -> ForbiddenError:
    return ForbiddenError(f'{_REQUESTS}.{_GROUP} "{name}" is forbidden: {why}', name=name, kind=_REQUESTS, group=_GROUP)
