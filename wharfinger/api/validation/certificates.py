"""Requests for certificates. Rules: "Certificates and Certificate Signing Requests" in Kubernetes' documentation."""

from __future__ import annotations

import re

from cryptography import x509

from wharfinger.api.types import certificates
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import one_of
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules
from wharfinger.api.validation.signers import validate_signer_name

USAGES = frozenset({
    "signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
    "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing",
    "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing",
    "microsoft sgc", "netscape sgc",
})  # fmt: skip
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_SHORTEST = 600
"""Seconds."""
_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----\r?\n")
_DECISIONS = ("Approved", "Denied")


def _create(request: certificates.CertificateSigningRequest, errors: Errors) -> None:
    metadata.validate_kind(request.metadata, errors, namespaced=False, name=names.path_segment)
    spec = request.spec
    if not _is_request(spec.request):
        errors.invalid("spec.request", f"{len(spec.request)} bytes", "must be a PEM-encoded CERTIFICATE REQUEST")
    if not spec.usages:
        errors.required("spec.usages", "usages must be provided")
    for index, usage in enumerate(spec.usages):
        one_of(errors, f"spec.usages[{index}]", usage, tuple(sorted(USAGES))) if usage not in USAGES else None
    for index, usage in enumerate(spec.usages):
        if usage in spec.usages[:index]:
            errors.duplicate(f"spec.usages[{index}]", usage)
    if spec.signerName == _LEGACY_SIGNER:
        errors.invalid("spec.signerName", spec.signerName, "the legacy signerName is not allowed via this API version")
    else:
        validate_signer_name(spec.signerName, errors, "spec.signerName")
    if spec.HasField("expirationSeconds") and spec.expirationSeconds < _SHORTEST:
        errors.invalid("spec.expirationSeconds", spec.expirationSeconds, f"may not be less than {_SHORTEST} seconds")
    _validate_conditions(request, errors)
    _validate_certificate(request, errors)


def _is_request(pem: bytes) -> bool:
    block = _BLOCK.search(pem)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        return False
    try:
        x509.load_pem_x509_csr(pem)
    except ValueError:
        return False
    return True


def _validate_conditions(request: certificates.CertificateSigningRequest, errors: Errors) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(request.status.conditions):
        path = f"status.conditions[{index}]"
        kind = condition.type
        if not kind:
            errors.required(f"{path}.type")
        if kind in seen:
            errors.duplicate(f"{path}.type", kind)
        seen.add(kind)
        if kind in ("Approved", "Denied", "Failed"):
            if not condition.status:
                errors.required(f"{path}.status")
            elif condition.status != "True":
                errors.not_supported(f"{path}.status", condition.status, ("True",))
        else:
            one_of(errors, f"{path}.status", condition.status, ("False", "True", "Unknown"), required=True)
    if seen.issuperset(_DECISIONS):
        errors.invalid("status.conditions", "Denied", "Approved and Denied conditions are mutually exclusive")


def _validate_certificate(request: certificates.CertificateSigningRequest, errors: Errors) -> None:
    pem = request.status.certificate
    if not pem:
        return
    blocks = _BLOCK.findall(pem)
    wrong = not blocks or any(kind != b"CERTIFICATE" for kind in blocks)
    if not wrong:
        try:
            wrong = not x509.load_pem_x509_certificates(pem)
        except ValueError:
            wrong = True
    if wrong:
        errors.invalid("status.certificate", "<certificate data>", "must contain PEM blocks of type CERTIFICATE only")


def _conditions(request: certificates.CertificateSigningRequest, kind: str) -> list[object]:
    return [condition for condition in request.status.conditions if condition.type == kind]


def _validate_kept(
    request: certificates.CertificateSigningRequest,
    old: certificates.CertificateSigningRequest,
    errors: Errors,
    *,
    may_decide: bool,
) -> None:
    """Judge changed conditions: none of the final ones goes away, and only the approval adds a decision."""
    for kind in (*_DECISIONS, "Failed"):
        now, before = _conditions(request, kind), _conditions(old, kind)
        if len(now) < len(before):
            errors.forbidden("status.conditions", f"updates may not remove a condition of type {kind!r}")
        elif len(now) > len(before) and kind in _DECISIONS and not may_decide:
            errors.forbidden("status.conditions", f"updates may not add a condition of type {kind!r}")
        elif len(now) == len(before) and kind in _DECISIONS and now != before and not may_decide:
            errors.forbidden("status.conditions", f"updates may not modify a condition of type {kind!r}")
    if old.status.certificate and request.status.certificate != old.status.certificate:
        errors.forbidden("status.certificate", "updates may not modify existing certificate content")


def _update(
    request: certificates.CertificateSigningRequest, old: certificates.CertificateSigningRequest, errors: Errors
) -> None:
    _create(request, errors)
    metadata.validate_kind_update(request.metadata, old.metadata, errors)
    if not semantic_equal(request.spec, old.spec):
        errors.invalid("spec", "changed", metadata.IMMUTABLE)
    _validate_kept(request, old, errors, may_decide=False)


def _update_status(
    request: certificates.CertificateSigningRequest, old: certificates.CertificateSigningRequest, errors: Errors
) -> None:
    _create(request, errors)
    metadata.validate_kind_update(request.metadata, old.metadata, errors)
    _validate_kept(request, old, errors, may_decide=False)


def _update_approval(
    request: certificates.CertificateSigningRequest, old: certificates.CertificateSigningRequest, errors: Errors
) -> None:
    _create(request, errors)
    metadata.validate_kind_update(request.metadata, old.metadata, errors)
    _validate_kept(request, old, errors, may_decide=True)


RULES = {
    certificates.CertificateSigningRequest: Rules(
        create=_create, update=_update, subresources={"status": _update_status, "approval": _update_approval}
    )
}
