"""Client certificates: the subject's common name is the user, its organisations are the groups.

The TLS layer has already proven that the certificate was signed by the cluster's CA and was valid when the connection
began; here its subject is read, and its end, since connections may outlive it. Reading one costs tens of microseconds,
so what was read is kept for as long as the same certificate comes again.
"""

from __future__ import annotations

import time
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from controlplane.apiserver.request import User
from wharfinger.api.errors import UnauthorizedError

AUTHENTICATED = "system:authenticated"


def user_of(pem: bytes) -> User:
    """Return the user that a PEM certificate names.

    Raises UnauthorizedError when it has no common name, cannot be read, or has expired since its connection began.
    """
    user, end = _read(pem)
    if time.time() > end:
        raise UnauthorizedError("the client certificate has expired")
    return user


@lru_cache(maxsize=4096)
def _read(pem: bytes) -> tuple[User, float]:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        subject = certificate.subject
    except ValueError as error:
        raise UnauthorizedError(f"the client certificate cannot be read: {error}") from error
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise UnauthorizedError("the client certificate has no common name (CN), which would be the user's name")
    groups = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    user = User(name=str(names[0].value), groups=(*groups, AUTHENTICATED))
    return user, certificate.not_valid_after_utc.timestamp()
