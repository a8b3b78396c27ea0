"""The node's own certificates: asked of the cluster, kept in one file each, and renewed before they end.

A host joins with a bootstrap token (``--bootstrap-kubeconfig``), by which it may ask for nothing but a certificate. The
key is made here and never leaves the host. Certificate and key stand in one file, so that a rename replaces both at
once: whoever reads it sees the old pair or the new one. Renewal comes at a random point between 70 % and 90 % of a
certificate's life, so that nodes which joined together do not renew together.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger import wholefile
from wharfinger.api import errors
from wharfinger.api.types import certificates
from wharfinger.client import Client
from wharfinger.daemon import validity

if TYPE_CHECKING:  # imported where it is used: 8 MB that most agents need for a moment in months, or never
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

log = logging.getLogger(__name__)

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
CLIENT_FILE, SERVING_FILE = "kubelet-client-current.pem", "kubelet-server-current.pem"
"""As kubelet names them."""
RENEW_BETWEEN = (0.7, 0.9)
WAIT_SECONDS = 900.0
"""A request that nobody has decided on for so long is made anew."""
_ASK_AGAIN = (0.2, 0.5, 1.0, 2.0, 5.0)
_RETRY_SECONDS = (2.0, 5.0, 15.0, 60.0)


class RefusedError(Exception):
    """Raised when a certificate was denied, failed, or did not come."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a certificate is to be for."""

    signer: str
    node: str
    dns: Sequence[str] = ()
    ips: Sequence[str] = ()

    @property
    def usages(self) -> tuple[str, str]:
        """What it is used for."""
        return ("digital signature", "client auth" if self.signer == CLIENT_SIGNER else "server auth")

    def request(self, key: ec.EllipticCurvePrivateKey) -> bytes:
        """Return the request, PEM, signed with the key."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.x509.oid import NameOID

        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
                x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{self.node}"),
            ]
        )
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in self.dns]
        names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in self.ips]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def obtain(client: Client, wanted: Wanted) -> bytes:
    """Ask for a certificate and wait for it; returns certificate and key, PEM.

    Raises RefusedError, or the StatusError of a request that was not taken.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    request = certificates.CertificateSigningRequest()
    request.metadata.generateName = "node-csr-" if wanted.signer == CLIENT_SIGNER else "csr-"
    request.spec.request, request.spec.signerName = wanted.request(key), wanted.signer
    request.spec.usages.extend(wanted.usages)
    requests = client.resource(certificates.CertificateSigningRequest)
    made = await requests.create(request)
    name = made.metadata.name
    log.info("asked for a certificate", extra={"csr": name, "signer": wanted.signer})
    deadline = time.monotonic() + WAIT_SECONDS
    attempt = 0
    while not made.status.certificate:
        for condition in made.status.conditions:
            if condition.type in ("Denied", "Failed"):
                raise RefusedError(f"request {name}: {condition.type} {condition.reason} {condition.message}".rstrip())
        if time.monotonic() > deadline:
            raise RefusedError(f"request {name}: no decision for {WAIT_SECONDS:g} s")
        await asyncio.sleep(_ASK_AGAIN[min(attempt, len(_ASK_AGAIN) - 1)])
        attempt += 1
        try:
            made = await requests.get(name)
        except errors.ServiceUnavailableError as error:
            log.debug("waiting for a certificate", extra={"csr": name, "error": error.message})
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return bytes(made.status.certificate) + secret


def keep(path: Path, content: bytes) -> None:
    """Write a certificate with its key; the folder, made if need be, is nobody else's business. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    wholefile.write(path, content)


def read(path: Path) -> x509.Certificate | None:
    """Return the certificate in a file; None when there is none that can be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None


def serves(certificate: x509.Certificate, wanted: Wanted) -> bool:
    """Whether a certificate has all names that are wanted."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not wanted.dns and not wanted.ips
    dns = set(names.get_values_for_type(x509.DNSName))
    ips = {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}
    return set(wanted.dns) <= dns and {str(ipaddress.ip_address(ip)) for ip in wanted.ips} <= ips


def renewal(certificate: x509.Certificate, share: float) -> float:
    """Return the Unix time at which a share of a certificate's life is over."""
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return begin + (end - begin) * share


class Renewer:
    """Keeps one certificate."""

    def __init__(
        self, path: Path, wanted: Callable[[], Wanted], *, client: Client,
        renewed: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`renewed` is awaited after each replacement, the first included."""
        self.path = path
        self._wanted = wanted
        self._client = client
        self._renewed = renewed
        self._clock = clock

    async def run(self) -> None:
        """Renew until cancelled."""
        failures = 0
        due = self._due()
        while True:
            if (left := due - self._clock()) > 0:
                # In short steps: a clock that is moved, or a host that slept, must not make a renewal late.
                await asyncio.sleep(min(max(left, 0.1), 60.0))
                continue
            try:
                content = await obtain(self._client, self._wanted())
                end = validity.read(content).ends  # what a signer gave and nobody can read never becomes the file
                keep(self.path, content)
            except (RefusedError, errors.StatusError, ValueError, OSError) as error:
                due = self._clock() + self._delay(failures, str(error))
                failures += 1
                continue
            log.info("a certificate was renewed", extra={"file": str(self.path), "end": end.isoformat()})
            await self._renewed()
            due = self._due()
            if due <= self._clock():  # it is not what was asked for, and the next one may not be either
                due = self._clock() + self._delay(failures, "the new one lacks names, or ends at once")
                failures += 1
            else:
                failures = 0

    def _delay(self, failures: int, why: str) -> float:
        """Say why there is no good certificate yet; returns the seconds until the next attempt."""
        delay = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)] * random.uniform(0.8, 1.2)
        log.warning(
            "a certificate could not be renewed",
            extra={"file": str(self.path), "error": why, "retry_seconds": round(delay, 1)},
        )
        return delay

    def _due(self) -> float:
        certificate = read(self.path)
        if certificate is None or not serves(certificate, self._wanted()):
            return 0.0
        return renewal(certificate, random.uniform(*RENEW_BETWEEN))
