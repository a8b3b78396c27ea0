"""Renewed credentials are taken from the files of a kubeconfig while a daemon runs.

What changes is who we are and whom we trust: certificate, key, token, authority. A kubeconfig that now names another
cluster takes effect at the next start: what was listed and watched belongs to the cluster of before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wharfinger import daemon
from wharfinger.client.client import Client
from wharfinger.client.config import ClientConfig, ConfigError

log = logging.getLogger(__name__)


class CredentialFollower(daemon.Follower):
    """Keeps a client's credentials those of its files; see the module."""

    def __init__(
        self, client: Client, load: Callable[[], ClientConfig], *, renewed: Callable[[ClientConfig], None] | None = None
    ) -> None:  # fmt: skip
        """`load` reads the configuration anew (ConfigError as :meth:`ClientConfig.load`); `renewed` is told of each
        new one after `client` has it."""
        self._client = client
        self._read = load
        self._renewed = renewed
        super().__init__(lambda: client.config.files, self.refresh, what="client credentials")

    def refresh(self) -> None:
        """Read the files now, and use what is new. Raises OSError and ValueError when they are of no use."""
        current = self._client.config
        try:
            found = self._read()
        except ConfigError as error:
            raise ValueError(str(error)) from error
        if found.cert and found.key:
            daemon.check_pair(found.cert, found.key)
        new = with_credentials(current, found)
        if new != found:
            log.warning("the kubeconfig has changed in more than credentials: that takes effect at the next start")
        if new == current:
            return
        self._client.renew(new)
        log.info("new client credentials are used from now on", extra={"files": _names(new.files)})
        if self._renewed is not None:
            self._renewed(new)


def with_credentials(config: ClientConfig, other: ClientConfig) -> ClientConfig:
    """Return `config` with the credentials of `other`. Raises ValueError where they are of another sort."""
    if (config.http is None) != (other.http is None) or bool(config.cert) != bool(other.cert):
        raise ValueError("the kubeconfig now has credentials of another sort, for another port: restart to use them")
    http = config.http
    if http is not None and other.http is not None:
        theirs = other.http
        http = replace(
            http, ca=theirs.ca, cert=theirs.cert, key=theirs.key, token=theirs.token, username=theirs.username,
            password=theirs.password,
        )  # fmt: skip
    return replace(
        config, ca=other.ca, cert=other.cert, key=other.key, token=other.token, http=http, files=other.files
    )  # fmt: skip


def _names(files: tuple[Path, ...]) -> str:
    return ",".join(str(path) for path in files)
