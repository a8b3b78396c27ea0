"""Keeping files as they should be: what is there and good stays, anything else is issued anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from wharfinger import wholefile
from wharfinger.pki.files import locked
from wharfinger.pki.issuing import CA_LIFETIME, LIFETIME, Request, issue, key_pem, self_signed
from wharfinger.pki.pairs import CA, Pair, PKIError, load_ca, now, signed_by, write_pair


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


def ensure_ca(directory: Path | str, name: str, *, stem: str = "ca", lifetime: timedelta = CA_LIFETIME) -> CA:
    """Load the authority ``<directory>/<stem>.crt|.key``, or make one whose common name is `name`.

    An existing authority is used whatever its name is. Raises PKIError when its files are incomplete, do not belong
    together, or are expired: replacing an authority silently would cut off everyone who trusts it.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    cert_path, key_path = folder / f"{stem}.crt", folder / f"{stem}.key"
    with locked(folder):
        if cert_path.exists() or key_path.exists():
            return load_ca(folder, stem=stem)
        pair = self_signed(name, lifetime)
        write_pair(folder, stem, pair)
    return CA(pair.cert, pair.key, cert_path)


def ensure(ca: CA, directory: Path | str, stem: str, request: Request) -> Made:
    """Keep ``<stem>.crt|.key`` in `directory` if they still say what `request` asks, else issue and write them."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    cert_path, key_path = folder / f"{stem}.crt", folder / f"{stem}.key"
    with locked(cert_path.parent):
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
    with locked(folder):
        if (folder / f"{stem}.key").exists():
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        wholefile.write(folder / f"{stem}.key", key_pem(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        wholefile.write(folder / f"{stem}.pub", public, mode=0o644)
    return True


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
    left = certificate.not_valid_after_utc - now()
    whole = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    # A fifth of its life before the end, so that a yearly certificate of a cluster that is restarted now and then
    # never runs out; one that is capped by its authority's own end cannot be made longer by issuing it again.
    margin = whole / 5 if request.renew_before is None else request.renew_before
    if left < margin and certificate.not_valid_after_utc + timedelta(minutes=1) < _latest_end(ca, request):
        return f"expires in {max(left.days, 0)} days", pair
    return request.difference(certificate), pair


def _latest_end(ca: CA, request: Request) -> datetime:
    return min(now() + request.lifetime, ca.certificate.not_valid_after_utc)
