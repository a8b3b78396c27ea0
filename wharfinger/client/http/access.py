"""What a kubeconfig says about reaching an HTTPS apiserver, and the credentials that change while we run.

Tokens come from the kubeconfig itself, from a file that somebody rotates (read again every minute), or from a command
(``exec``, client.authentication.k8s.io), asked again when what it gave has expired or was refused. A command may give a
client certificate instead of a token.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.api import errors, times

TOKEN_FILE_SECONDS = 60.0
EXEC_SECONDS = 60.0
"""A credential command that takes longer is given up."""
EXPIRY_MARGIN = 10.0


@dataclass(frozen=True)
class ExecPlugin:
    """A command that prints an ExecCredential."""

    command: str
    api_version: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."
    """Where the kubeconfig lies; a command with a slash in it is looked for from there."""
    install_hint: str = ""


@dataclass(frozen=True)
class HttpAccess:
    """Where the apiserver is, whom to trust, and who we are."""

    server: str
    """``https://host:port``, perhaps with a path."""
    ca: bytes | None = None
    """PEM; None trusts the authorities of the system."""
    insecure: bool = False
    """Whether the server's certificate is not looked at."""
    server_name: str = ""
    """The name that the server's certificate must have, if not that of the address."""
    cert: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    plugin: ExecPlugin | None = None
    headers: Sequence[tuple[str, str]] = ()
    """Of each request: whom to act as."""


class Credentials:
    """Our present credentials; not for use from several event loops."""

    def __init__(self, access: HttpAccess) -> None:
        self._access = access
        self._token = access.token
        self._expires = float("inf")
        self._lock = asyncio.Lock()
        if access.token_file or access.plugin is not None:
            self._expires = 0.0
        self.pair: tuple[bytes, bytes] | None = (access.cert, access.key) if access.cert and access.key else None
        self.generation = 0
        """Changes when the client certificate has."""

    async def headers(self) -> list[tuple[str, str]]:
        """Return what goes into each request. Raises UnauthorizedError when there are no credentials to be had."""
        if time.time() >= self._expires:
            async with self._lock:
                if time.time() >= self._expires:
                    await self._renew()
        headers: list[tuple[str, str]] = list(self._access.headers)
        if self._token:
            headers.append(("Authorization", f"Bearer {self._token}"))
        return headers

    def refused(self) -> bool:
        """Take note that the server knows us no longer; returns whether it is worth trying again."""
        if self._access.plugin is None and self._access.token_file is None:
            return False
        self._expires = 0.0
        return True

    async def _renew(self) -> None:
        access = self._access
        if access.plugin is not None:
            await self._ask(access.plugin)
        elif access.token_file:
            try:
                self._token = (await asyncio.to_thread(Path(access.token_file).read_text)).strip()
            except OSError as error:
                raise errors.UnauthorizedError(f"tokenFile {access.token_file}: {error.strerror}") from error
            self._expires = time.time() + TOKEN_FILE_SECONDS

    async def _ask(self, plugin: ExecPlugin) -> None:
        status = await run_plugin(plugin)
        self._token = status.get("token") or None
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if bool(certificate) != bool(key):
            raise errors.UnauthorizedError(
                f"{plugin.command}: clientCertificateData and clientKeyData must be given together"
            )
        if not self._token and not certificate:
            raise errors.UnauthorizedError(f"{plugin.command} gave neither a token nor a client certificate")
        if certificate and key and self.pair != (pair := (certificate.encode(), key.encode())):
            self.pair = pair
            self.generation += 1
        self._expires = float("inf")
        if expiry := status.get("expirationTimestamp"):
            try:
                self._expires = times.to_datetime(times.parse(expiry)).timestamp() - EXPIRY_MARGIN
            except ValueError as error:
                raise errors.UnauthorizedError(f"{plugin.command}: expirationTimestamp {expiry!r}: {error}") from error


async def run_plugin(plugin: ExecPlugin) -> dict[str, Any]:
    """Run a credential command and return the status of what it prints. Raises UnauthorizedError."""
    command = str(Path(plugin.folder, plugin.command)) if "/" in plugin.command else plugin.command
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            command, *plugin.args, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise errors.UnauthorizedError(f"credential command {command}: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(EXEC_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise errors.UnauthorizedError(f"{command} gave no credentials in {EXEC_SECONDS:g} s") from None
    if process.returncode != 0:
        said = err.decode(errors="replace").strip()[-300:]
        raise errors.UnauthorizedError(f"{command} ended with {process.returncode}: {said}")
    try:
        document = json.loads(out)
        status = document["status"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.UnauthorizedError(f"{command} printed no ExecCredential with a status: {error!r}") from error
    if document.get("apiVersion") != plugin.api_version:
        raise errors.UnauthorizedError(
            f"{command} speaks {document.get('apiVersion')}, the kubeconfig says {plugin.api_version}"
        )
    if not isinstance(status, dict):
        raise errors.UnauthorizedError(f"{command}: status must be a mapping, not {type(status).__name__}")
    return status


def ssl_context(access: HttpAccess, pair: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    """Return how to speak TLS. Raises ValueError for certificates that cannot be used."""
    try:
        context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if pair is not None:
            # OpenSSL takes certificates from files only; this one is ours alone and gone at once.
            with tempfile.TemporaryDirectory(prefix="wharf-") as folder:
                cert, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
                cert.write_bytes(pair[0])
                key.touch(mode=0o600)
                key.write_bytes(pair[1])
                context.load_cert_chain(cert, key)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"certificates for {access.server} cannot be used: {error}") from error
    return context
