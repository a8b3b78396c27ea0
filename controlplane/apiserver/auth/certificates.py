"""Client certificates: the subject's common name is the user, its organisations are the groups.

The TLS layer has already proven that the certificate was signed by the cluster's CA and is valid now; here only its
subject is read. Reading one costs tens of microseconds, so the answer is kept for as long as the same certificate
comes again.
"""

from __future__ import annotations

from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from controlplane.apiserver.request import User
from wharfinger.api.errors import UnauthorizedError

AUTHENTICATED = "system:authenticated"


@lru_cache(maxsize=4096)
def user_of(pem: bytes) -> User:
    """Return the user that a PEM certificate names.

    Raises UnauthorizedError when it has no common name or cannot be read.
    """
    try:
        subject = x509.load_pem_x509_certificate(pem).subject
    except ValueError as error:
        raise UnauthorizedError(f"the client certificate cannot be read: {error}") from error
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise UnauthorizedError("the client certificate has no common name (CN), which would be the user's name")
    groups = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return User(name=str(names[0].value), groups=(*groups, AUTHENTICATED))
