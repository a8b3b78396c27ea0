"""Signing certificates: an authority's own, those made here with their keys, and those that a request asks for."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from wharfinger.pki.pairs import CA, Pair, PKIError, alternative_names, identity, now

BACKDATE = timedelta(days=1)
CA_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)


@dataclass(frozen=True)
class Request:
    """What a certificate is to say; compared with an existing one to decide whether that is kept."""

    name: str
    groups: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    client: bool = False
    server: bool = False
    lifetime: timedelta = LIFETIME
    renew_before: timedelta | None = None
    """With less than this left a certificate is issued anew; None: with less than a fifth of its life."""

    def difference(self, certificate: x509.Certificate) -> str:
        """Say what `certificate` has otherwise than asked; empty when nothing."""
        name, groups = identity(certificate)
        if name != self.name:
            return f"names {name!r} instead of {self.name!r}"
        if groups != sorted(self.groups):
            return f"groups are {groups} instead of {sorted(self.groups)}"
        dns, ips = alternative_names(certificate)
        missing = sorted((set(self.dns) - set(dns)) | (set(_canonical(self.ips)) - set(ips)))
        if missing:
            return f"does not name {', '.join(missing)}"
        usages = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        if not set(self.usages()) <= usages:
            return "is for another use"
        return ""

    def usages(self) -> list[x509.ObjectIdentifier]:
        """Return the extended key usages."""
        usages = []
        if self.client:
            usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        if self.server:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        return usages


def self_signed(name: str, lifetime: timedelta) -> Pair:
    """Make an authority's key and certificate, whose common name is `name`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key.public_key(), lifetime=lifetime, backdate=BACKDATE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(_pem(builder.sign(key, hashes.SHA256())), key_pem(key))


def issue(ca: CA, request: Request) -> Pair:
    """Make a key and a certificate signed by `ca`. Raises PKIError for a name that cannot stand in one."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Groups first, as Go's and kubeadm's subjects have them: /O=system:masters/CN=kubernetes-admin.
    try:
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in sorted(request.groups)]
            + [x509.NameAttribute(NameOID.COMMON_NAME, request.name)]
        )
    except ValueError as error:
        raise PKIError(f"{request.name!r} with groups {list(request.groups)} cannot be a subject: {error}") from error
    try:
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in request.dns]
    except ValueError as error:
        raise PKIError(f"a DNS name of {list(request.dns)} is not ASCII: {error}") from error
    names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in _canonical(request.ips)]
    lifetime = min(request.lifetime, ca.certificate.not_valid_after_utc - now())
    builder = _builder(subject, ca.certificate.subject, key.public_key(), lifetime=lifetime, backdate=BACKDATE)
    return Pair(
        _signed(
            ca,
            builder,
            usages=request.usages(),
            names=x509.SubjectAlternativeName(names) if names else None,
        ),
        key_pem(key),
    )


def issue_client(ca: CA, name: str, groups: Iterable[str] = (), *, lifetime: timedelta = LIFETIME) -> Pair:
    """Make a client certificate: user `name` in `groups`."""
    return issue(ca, Request(name, tuple(groups), client=True, lifetime=lifetime))


def issue_server(
    ca: CA,
    name: str,
    dns: Iterable[str] = (),
    ips: Iterable[str] = (),
    *,
    client: bool = False,
    lifetime: timedelta = LIFETIME,
) -> Pair:
    """Make a serving certificate for the DNS names and addresses given; `client` also lets it authenticate (peers)."""
    return issue(ca, Request(name, (), tuple(dns), tuple(ips), client=client, server=True, lifetime=lifetime))


def sign(ca: CA, asked: x509.CertificateSigningRequest, *, client: bool, server: bool, lifetime: timedelta) -> bytes:
    """Sign a request that somebody has checked: its subject, DNS names and addresses, for the uses given. PEM.

    It is valid from a quarter of its life ago (a day at most): clocks differ, and who renews at a share of the whole
    life must not find that share over.
    """
    lifetime = min(lifetime, ca.certificate.not_valid_after_utc - now())
    public_key: Any = asked.public_key()
    builder = _builder(
        asked.subject,
        ca.certificate.subject,
        public_key,
        lifetime=lifetime,
        backdate=min(BACKDATE, lifetime / 4),
    )
    try:
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    return _signed(
        ca,
        builder,
        usages=Request("", client=client, server=server).usages(),
        names=names,
        key_encipherment=isinstance(public_key, rsa.RSAPublicKey),
    )


def _signed(
    ca: CA,
    builder: x509.CertificateBuilder,
    *,
    usages: list[x509.ObjectIdentifier],
    names: x509.SubjectAlternativeName | None,
    key_encipherment: bool = False,
) -> bytes:
    """Add what the certificate of a user or server says, and sign it. PEM."""
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(key_encipherment=key_encipherment), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_authority_key_identifier(ca.certificate), critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _pem(builder.sign(ca.private_key, hashes.SHA256()))


def _usage(*, authority: bool = False, key_encipherment: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=authority, crl_sign=authority, key_encipherment=key_encipherment,
        content_commitment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: Any, *, lifetime: timedelta, backdate: timedelta
) -> x509.CertificateBuilder:
    moment = now().replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - backdate)
        .not_valid_after(moment + lifetime)
    )


def _authority_key_identifier(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        public_key = certificate.public_key()
        assert isinstance(public_key, ec.EllipticCurvePublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _canonical(ips: Iterable[str]) -> list[str]:
    result = []
    for ip in ips:
        try:
            result.append(str(ipaddress.ip_address(ip)))
        except ValueError as error:
            raise PKIError(f"{ip!r} is not an IP address; DNS names go into dns") from error
    return result


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as unencrypted PKCS #8, PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
