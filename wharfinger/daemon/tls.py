"""The certificate files of a daemon."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True)
class TLSFiles:
    """A certificate, its key, and the authority whose clients are believed."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def server_credentials(self, *, require_client: bool) -> grpc.ServerCredentials:
        """Return credentials for a gRPC port that demands a client certificate, or asks for none.

        Raises ValueError when a certificate is demanded and no authority is set, OSError when a file is unreadable.
        """
        pair = (self.key.read_bytes(), self.cert.read_bytes())
        if not require_client:
            return grpc.ssl_server_credentials([pair])
        if self.client_ca is None:
            raise ValueError("client certificates are demanded, but no client CA file is set")
        return grpc.ssl_server_credentials(
            [pair], root_certificates=self.client_ca.read_bytes(), require_client_auth=True
        )

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context for HTTPS that takes client certificates but does not demand them."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context
