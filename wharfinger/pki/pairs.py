"""A certificate with its key, in memory and on disk, and what a certificate says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from wharfinger import wholefile


class PKIError(Exception):
    """Raised when files of an authority cannot be used as they are; says which file, and what to do."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    cert: bytes
    key: bytes

    @cached_property
    def certificate(self) -> x509.Certificate:
        """The certificate, parsed."""
        return x509.load_pem_x509_certificate(self.cert)

    @cached_property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """The private key, parsed; PKIError when it is not an elliptic-curve key."""
        key = serialization.load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise PKIError(f"the key is of type {type(key).__name__}; only elliptic-curve keys are made here")
        return key


@dataclass(frozen=True)
class CA(Pair):
    """An authority: its certificate and key, and where they lie."""

    path: Path
    """The certificate's file, to hand to daemons as their trust root."""


def write_pair(directory: Path | str, stem: str, pair: Pair) -> tuple[Path, Path]:
    """Write ``<stem>.crt`` and ``<stem>.key`` (0600), each atomically; returns both paths."""
    folder = Path(directory)
    cert_path, key_path = folder / f"{stem}.crt", folder / f"{stem}.key"
    wholefile.write(key_path, pair.key)
    wholefile.write(cert_path, pair.cert, mode=0o644)
    return cert_path, key_path


def read_pair(directory: Path | str, stem: str) -> Pair:
    """Read what :func:`write_pair` wrote; OSError when a file is missing."""
    folder = Path(directory)
    return Pair((folder / f"{stem}.crt").read_bytes(), (folder / f"{stem}.key").read_bytes())


def load_ca(directory: Path | str, *, stem: str = "ca") -> CA:
    """Read an authority; PKIError when a file is missing, unreadable, mismatched or expired."""
    cert_path, key_path = Path(directory) / f"{stem}.crt", Path(directory) / f"{stem}.key"
    for path in (cert_path, key_path):
        if not path.is_file():
            raise PKIError(f"the authority is incomplete: {path} is missing; restore it, or move its other half away")
    ca = read_ca(cert_path, key_path)
    if now() >= ca.certificate.not_valid_after_utc:
        raise PKIError(f"{cert_path} expired on {ca.certificate.not_valid_after_utc:%Y-%m-%d}; move the pair away")
    return ca


def read_ca(cert_path: Path, key_path: Path) -> CA:
    """Read an authority from two files. Raises OSError, or PKIError when they are no pair."""
    ca = CA(cert_path.read_bytes(), key_path.read_bytes(), cert_path)
    try:
        matching = ca.certificate.public_key() == ca.private_key.public_key()
    except ValueError as error:
        raise PKIError(f"{cert_path} or {key_path} cannot be read: {error}") from error
    if not matching:
        raise PKIError(f"{key_path} is not the key of {cert_path}; restore the pair, or move both files away")
    return ca


def identity(certificate: x509.Certificate) -> tuple[str, list[str]]:
    """Return the user (common name) and its groups (organisations, sorted) that a client certificate stands for."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (str(names[0].value) if names else "", sorted(str(group.value) for group in groups))


def alternative_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """Return the DNS names and the addresses that a serving certificate is for."""
    try:
        value = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], []
    return value.get_values_for_type(x509.DNSName), [str(ip) for ip in value.get_values_for_type(x509.IPAddress)]


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether `authority` signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def now() -> datetime:
    """Return the time, as certificates tell it."""
    return datetime.now(UTC)
