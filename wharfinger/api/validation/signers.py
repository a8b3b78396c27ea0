"""Names of certificate signers: ``domain/path``."""

from __future__ import annotations

from wharfinger.api.validation import names
from wharfinger.api.validation.errors import Errors

_LONGEST_DOMAIN = 253
_LONGEST = 571
"""Bytes: a domain of 253, '/', and a label, '.' and DNS name after it."""


def validate_signer_name(name: str, errors: Errors, path: str) -> None:
    """Judge the name of a signer: a domain of at least two labels, '/', and labels joined by dots."""
    if not name:
        errors.required(path)
        return
    segments = name.split("/")
    if len(segments) != 2:
        errors.invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    domain, signer = segments
    if len(domain) > _LONGEST_DOMAIN:
        errors.too_long(path, _LONGEST_DOMAIN)
    labels = domain.split(".")
    for label in labels:
        complaints = names.dns1123_label(label)
        if complaints:
            errors.complaints(path, domain, complaints)
            break
    if len(labels) < 2:
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    for label in signer.split("."):
        complaints = names.dns1123_subdomain(label)
        if complaints:
            errors.complaints(path, signer, complaints)
            break
    if len(name) > _LONGEST:
        errors.too_long(path, _LONGEST)
