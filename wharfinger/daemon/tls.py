"""The certificate files of a daemon, read anew when they change: renewing a certificate needs no restart.

Files are compared by what stat says of them, at each handshake: three system calls. A pair that cannot be read, or
whose halves do not belong together (one of two files is replaced first), is passed over until it is whole; the daemon
goes on with what it had.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class TLSFiles:
    """A certificate, its key, and the authority whose clients are believed. Both halves may be one file."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def server_credentials(self, *, require_client: bool) -> grpc.ServerCredentials:
        """Return credentials for a gRPC port that demands a client certificate, or asks for none.

        Raises ValueError when a certificate is demanded and no authority is set, OSError when a file is unreadable.
        """
        if require_client and self.client_ca is None:
            raise ValueError("client certificates are demanded, but no client CA file is set")
        changes = _Changes(self)

        def fetch() -> Any:  # None: as before
            return self._configuration(require_client) if changes.there_are() else None

        return grpc.dynamic_ssl_server_credentials(
            self._configuration(require_client), fetch, require_client_authentication=require_client
        )

    def _configuration(self, require_client: bool) -> grpc.ServerCertificateConfiguration:
        ca = self.client_ca.read_bytes() if require_client and self.client_ca is not None else None
        return grpc.ssl_server_certificate_configuration([(self.key.read_bytes(), self.cert.read_bytes())], ca)

    def ssl_context(self, *, alpn: Sequence[str] = ()) -> ssl.SSLContext:
        """Return a context for HTTPS that takes client certificates but does not demand them."""
        context = current = self._fresh_context(alpn)
        changes = _Changes(self)

        def hello(connection: Any, *_: Any) -> None:
            """Take what is new: OpenSSL calls this at each client's hello, whether it names a server or not."""
            nonlocal current
            if changes.there_are():
                # A new context, not the old one with more: an authority that was taken out is believed no longer.
                current = self._fresh_context(alpn)
            connection.context = current

        context.sni_callback = hello
        return context

    def _fresh_context(self, alpn: Sequence[str]) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


class _Changes:
    """Tells when files are no longer those that were read last."""

    def __init__(self, files: TLSFiles) -> None:
        self._files = files
        self._seen = self._stamp()
        self._refused: _Stamp | None = None

    def there_are(self) -> bool:
        """Whether the files have changed since the last yes, and can be used."""
        try:
            stamp = self._stamp()
            if stamp in (self._seen, self._refused):
                return False
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._files.cert, self._files.key)
            if self._files.client_ca is not None:
                context.load_verify_locations(self._files.client_ca)
        except FileNotFoundError:
            return False  # in the middle of being replaced
        except OSError as error:  # ssl.SSLError is one
            self._refused = stamp
            log.error("a new certificate cannot be used", extra={"file": str(self._files.cert), "error": str(error)})
            return False
        self._seen, self._refused = stamp, None
        log.info("a new certificate is used from now on", extra={"file": str(self._files.cert)})
        return True

    def _stamp(self) -> _Stamp:
        files = self._files
        found = (os.stat(path) for path in (files.cert, files.key, files.client_ca) if path is not None)
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)
