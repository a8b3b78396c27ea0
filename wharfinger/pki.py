"""A small certificate authority on disk: everything TLS that a cluster needs before it runs.

Identity in Kubernetes' API is a client certificate's subject: the common name is the user, each organisation a group.
This module makes such certificates, serving certificates with their names and addresses, and kubeconfig files.

Three decisions:

* **Files are the state.** A pair is ``<stem>.crt`` (0644) and ``<stem>.key`` (0600), PEM, the layout of kubeadm, so an
  operator can look at it with openssl and replace any part of it by the certificates of a real authority.
* **``ensure_*`` is idempotent.** A certificate that says what is asked, is signed by this authority and lives long
  enough is kept; anything else is issued anew. An *authority* is never replaced: that would cut off everyone who
  trusts it, so a broken or expired one is an error with a remedy.
* **Clocks differ.** Certificates are valid from a day before their making, so that hosts whose clocks are hours behind,
  or set to another zone's time, accept them at once.

Keys are ECDSA P-256: small, fast in handshakes, and understood by etcd, Go's TLS and gRPC.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import ipaddress
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATE = timedelta(days=1)
CA_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)
GRPC_EXTENSION = "wharfinger.dev/grpc"
"""Name of the kubeconfig cluster extension that lists the gRPC endpoints."""


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


@dataclass(frozen=True)
class Made:
    """What an ``ensure_*`` call came to."""

    cert_path: Path
    key_path: Path
    pair: Pair
    reason: str
    """Empty when the files were kept; otherwise why they were written ("new", "expires in 3 days", …)."""

    @property
    def kept(self) -> bool:
        """Whether the files were there and good."""
        return not self.reason


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
        if not set(self._usages()) <= usages:
            return "is for another use"
        return ""

    def _usages(self) -> list[x509.ObjectIdentifier]:
        usages = []
        if self.client:
            usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        if self.server:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        return usages


# --- authorities -----------------------------------------------------------------------------------------------------


def ensure_ca(directory: Path | str, name: str, *, stem: str = "ca", lifetime: timedelta = CA_LIFETIME) -> CA:
    """Load the authority ``<directory>/<stem>.crt|.key``, or make one whose common name is `name`.

    An existing authority is used whatever its name is. Raises PKIError when its files are incomplete, do not belong
    together, or are expired: replacing an authority silently would cut off everyone who trusts it.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    cert_path, key_path = folder / f"{stem}.crt", folder / f"{stem}.key"
    with _locked(folder):
        if cert_path.exists() or key_path.exists():
            return load_ca(folder, stem=stem)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            _builder(subject, subject, key.public_key(), lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        pair = Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))
        write_pair(folder, stem, pair)
    return CA(pair.cert, pair.key, cert_path)


def load_ca(directory: Path | str, *, stem: str = "ca") -> CA:
    """Read an authority; PKIError when a file is missing, unreadable, mismatched or expired."""
    cert_path, key_path = Path(directory) / f"{stem}.crt", Path(directory) / f"{stem}.key"
    for path in (cert_path, key_path):
        if not path.is_file():
            raise PKIError(f"the authority is incomplete: {path} is missing; restore it, or move its other half away")
    ca = read_ca(cert_path, key_path)
    if _now() >= ca.certificate.not_valid_after_utc:
        raise PKIError(f"{cert_path} expired on {ca.certificate.not_valid_after_utc:%Y-%m-%d}; move the pair away")
    return ca


# --- certificates ----------------------------------------------------------------------------------------------------


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
    lifetime = min(request.lifetime, ca.certificate.not_valid_after_utc - _now())
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=False, crl_sign=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _builder(subject, ca.certificate.subject, key.public_key(), lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(request._usages()), critical=False)
        .add_extension(_authority_key_identifier(ca.certificate), critical=False)
    )
    names: list[x509.GeneralName] = []
    try:
        names += [x509.DNSName(name) for name in request.dns]
    except ValueError as error:
        raise PKIError(f"a DNS name of {list(request.dns)} is not ASCII: {error}") from error
    names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in _canonical(request.ips)]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(_pem(builder.sign(ca.private_key, hashes.SHA256())), _key_pem(key))


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


def sign(ca: CA, asked: x509.CertificateSigningRequest, *, client: bool, server: bool, lifetime: timedelta) -> bytes:
    """Sign a request that somebody has checked: its subject, DNS names and addresses, for the uses given. PEM.

    It is valid from a quarter of its life ago (a day at most): clocks differ, and who renews at a share of the whole
    life must not find that share over.
    """
    lifetime = min(lifetime, ca.certificate.not_valid_after_utc - _now())
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=False, crl_sign=False, content_commitment=False,
        key_encipherment=isinstance(asked.public_key(), rsa.RSAPublicKey),
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    now = _now().replace(microsecond=0)
    public_key: Any = asked.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(ca.certificate.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(BACKDATE, lifetime / 4))
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(Request("", client=client, server=server)._usages()), critical=False)
        .add_extension(_authority_key_identifier(ca.certificate), critical=False)
    )
    try:
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _pem(builder.sign(ca.private_key, hashes.SHA256()))


def ensure(ca: CA, directory: Path | str, stem: str, request: Request) -> Made:
    """Keep ``<stem>.crt|.key`` in `directory` if they still say what `request` asks, else issue and write them."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    cert_path, key_path = folder / f"{stem}.crt", folder / f"{stem}.key"
    with _locked(cert_path.parent):
        reason, existing = _judge(ca, cert_path, key_path, request)
        if existing is not None and not reason:
            return Made(cert_path, key_path, existing, "")
        pair = issue(ca, request)
        write_pair(folder, stem, pair)
    return Made(cert_path, key_path, pair, reason)


def ensure_client(
    ca: CA,
    directory: Path | str,
    stem: str,
    *,
    name: str,
    groups: Iterable[str] = (),
    lifetime: timedelta = LIFETIME,
    renew_before: timedelta | None = None,
) -> Made:
    """Keep or make a client certificate on disk; see :func:`ensure`."""
    request = Request(name, tuple(groups), client=True, lifetime=lifetime, renew_before=renew_before)
    return ensure(ca, directory, stem, request)


def ensure_server(
    ca: CA,
    directory: Path | str,
    stem: str,
    *,
    name: str,
    dns: Iterable[str] = (),
    ips: Iterable[str] = (),
    groups: Iterable[str] = (),
    client: bool = False,
    lifetime: timedelta = LIFETIME,
    renew_before: timedelta | None = None,
) -> Made:
    """Keep or make a serving certificate on disk; see :func:`ensure`."""
    request = Request(
        name, tuple(groups), tuple(dns), tuple(ips), client=client, server=True, lifetime=lifetime,
        renew_before=renew_before,
    )  # fmt: skip
    return ensure(ca, directory, stem, request)


def ensure_signing_key(directory: Path | str, stem: str = "sa") -> bool:
    """Keep or make the key that signs tokens of service accounts, ``<stem>.key`` (0600), and its public half
    ``<stem>.pub``; returns whether it was made.

    An existing one is never replaced: all tokens that it has signed would be worth nothing.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if (folder / f"{stem}.key").exists():
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / f"{stem}.key", _key_pem(key), 0o600)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write(folder / f"{stem}.pub", public, 0o644)
    return True


def write_pair(directory: Path | str, stem: str, pair: Pair) -> tuple[Path, Path]:
    """Write ``<stem>.crt`` and ``<stem>.key`` (0600), each atomically; returns both paths."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    cert_path, key_path = folder / f"{stem}.crt", folder / f"{stem}.key"
    _write(key_path, pair.key, 0o600)
    _write(cert_path, pair.cert, 0o644)
    return cert_path, key_path


def read_pair(directory: Path | str, stem: str) -> Pair:
    """Read what :func:`write_pair` wrote; OSError when a file is missing."""
    folder = Path(directory)
    return Pair((folder / f"{stem}.crt").read_bytes(), (folder / f"{stem}.key").read_bytes())


# --- reading certificates --------------------------------------------------------------------------------------------


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


# --- kubeconfig ------------------------------------------------------------------------------------------------------


def kubeconfig(
    *,
    server: str,
    grpc_endpoints: Sequence[str] = (),
    grpc_token_endpoints: Sequence[str] = (),
    ca: bytes | Path | None = None,
    cert: bytes | Path | None = None,
    key: bytes | Path | None = None,
    token: str = "",
    user: str = "admin",
    cluster: str = "wharfinger",
    context: str = "",
    namespace: str = "",
) -> dict[str, Any]:
    """Return a kubeconfig as a dict; PEM bytes are embedded, a Path is written as a file reference.

    `server` is the HTTPS address for kubectl and the client libraries; `grpc_endpoints` (``host:port``) the native
    API for ``wharf`` and the daemons with a certificate, `grpc_token_endpoints` for those with a token.
    `context` defaults to ``user@cluster``.
    """
    at: dict[str, Any] = {"server": server}
    _reference(at, "certificate-authority", ca)
    extension = {
        name: list(addresses)
        for name, addresses in (("endpoints", grpc_endpoints), ("tokenEndpoints", grpc_token_endpoints))
        if addresses
    }
    if extension:
        at["extensions"] = [{"name": GRPC_EXTENSION, "extension": extension}]
    who: dict[str, Any] = {}
    _reference(who, "client-certificate", cert)
    _reference(who, "client-key", key)
    if token:
        who["token"] = token
    place = {"cluster": cluster, "user": user}
    if namespace:
        place["namespace"] = namespace
    name = context or f"{user}@{cluster}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": at}],
        "users": [{"name": user, "user": who}],
        "contexts": [{"name": name, "context": place}],
        "current-context": name,
    }


def write_kubeconfig(
    path: Path | str,
    *,
    server: str,
    grpc_endpoints: Sequence[str] = (),
    grpc_token_endpoints: Sequence[str] = (),
    ca: bytes | Path | None = None,
    cert: bytes | Path | None = None,
    key: bytes | Path | None = None,
    token: str = "",
    user: str = "admin",
    cluster: str = "wharfinger",
    context: str = "",
    namespace: str = "",
) -> Path:
    """Write :func:`kubeconfig` to `path` (0600, atomically, replacing what is there)."""
    config = kubeconfig(
        server=server, grpc_endpoints=grpc_endpoints, grpc_token_endpoints=grpc_token_endpoints, ca=ca, cert=cert,
        key=key, token=token, user=user,
        cluster=cluster, context=context, namespace=namespace,
    )  # fmt: skip
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _write(target, yaml.safe_dump(config, sort_keys=False).encode(), 0o600)
    return target


# --- the small parts -------------------------------------------------------------------------------------------------


def _reference(entry: dict[str, Any], name: str, value: bytes | Path | None) -> None:
    if isinstance(value, Path):
        entry[name] = str(value.resolve())
    elif value:
        entry[f"{name}-data"] = base64.b64encode(value).decode()


def _now() -> datetime:
    return datetime.now(UTC)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = _now().replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + lifetime)
    )


def _authority_key_identifier(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        public_key = certificate.public_key()
        assert isinstance(public_key, ec.EllipticCurvePublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _judge(ca: CA, cert_path: Path, key_path: Path, request: Request) -> tuple[str, Pair | None]:
    """Say why existing files cannot be kept (empty: they can), and return them if they can be read."""
    if not cert_path.exists() or not key_path.exists():
        return "new", None
    pair = Pair(cert_path.read_bytes(), key_path.read_bytes())
    try:
        certificate = pair.certificate
        if certificate.public_key() != pair.private_key.public_key():
            return "certificate and key do not belong together", None
    except (ValueError, PKIError):
        return "unreadable", None
    if not signed_by(certificate, ca.certificate):
        return "was signed by another authority", None
    left = certificate.not_valid_after_utc - _now()
    whole = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    # A fifth of its life before the end, so that a yearly certificate of a cluster that is restarted now and then
    # never runs out; one that is capped by its authority's own end cannot be made longer by issuing it again.
    margin = whole / 5 if request.renew_before is None else request.renew_before
    if left < margin and certificate.not_valid_after_utc + timedelta(minutes=1) < _latest_end(ca, request):
        return f"expires in {max(left.days, 0)} days", pair
    return request.difference(certificate), pair


def _latest_end(ca: CA, request: Request) -> datetime:
    return min(_now() + request.lifetime, ca.certificate.not_valid_after_utc)


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


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file in one step, never with more rights than `mode`, not even for a moment."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder, so that two processes that start at once do not make two authorities."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
