"""The keys that tokens of service accounts are signed with: read by the apiserver and by the token controller."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Key:
    """A key that tokens are or were signed with."""

    id: str
    algorithm: str
    """As in a token's header: ``ES256`` or ``RS256``."""
    public: Any
    private: Any = field(default=None, repr=False)
    """None: tokens of it are accepted, and no more are made."""


def load_key(path: Path, *, private: bool) -> Key:
    """Read a key file (PEM): an elliptic curve's (P-256) or RSA, as kube-apiserver takes them.

    Raises OSError, and ValueError when it is none, or is public where a private one is needed.
    """
    return _key(path.read_bytes(), str(path), private=private)


def load_keys(path: Path) -> list[Key]:
    """Read all keys of a file, which may hold several one after the other. Raises OSError, ValueError."""
    data = path.read_bytes()
    blocks = _BLOCK.findall(data) or [data]
    return [_key(block, str(path), private=False) for block in blocks]


_BLOCK = re.compile(rb"-----BEGIN [A-Z ]*KEY-----[^-]+-----END [A-Z ]*KEY-----")


def _key(data: bytes, source: str, *, private: bool) -> Key:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        secret: Any = serialization.load_pem_private_key(data, password=None)
        public: Any = secret.public_key()
    except (ValueError, TypeError):
        secret = None
        try:
            public = serialization.load_pem_public_key(data)
        except ValueError as error:
            raise ValueError(f"{source} holds neither a private nor a public key in PEM: {error}") from error
    if private and secret is None:
        raise ValueError(f"{source} holds a public key; signing needs the private one")
    if isinstance(public, rsa.RSAPublicKey):
        algorithm = "RS256"
    elif isinstance(public, ec.EllipticCurvePublicKey) and public.curve.name == "secp256r1":
        algorithm = "ES256"
    else:
        raise ValueError(f"{source}: keys must be RSA or of the curve P-256")
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    name = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    return Key(name, algorithm, public, secret)


LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_CLAIM = "kubernetes.io/serviceaccount/"
"""Begins the names of claims in tokens that stand in Secrets."""


def legacy_token(key: Key, *, namespace: str, account: str, uid: str, secret: str) -> str:
    """Return the token that a Secret of type ``kubernetes.io/service-account-token`` holds: one without an end."""
    import jwt

    claims = {
        "iss": LEGACY_ISSUER,
        "sub": f"system:serviceaccount:{namespace}:{account}",
        f"{LEGACY_CLAIM}namespace": namespace,
        f"{LEGACY_CLAIM}secret.name": secret,
        f"{LEGACY_CLAIM}service-account.name": account,
        f"{LEGACY_CLAIM}service-account.uid": uid,
    }
    return jwt.encode(claims, key.private, algorithm=key.algorithm, headers={"kid": key.id})
