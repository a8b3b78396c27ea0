"""Who the agent is to others, over its whole life: which certificates it has, and that they are renewed in time.

Only what the node has asked for itself is renewed here; files that somebody put there are theirs to replace (they are
followed), and their end is told of by metric and log.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import certificates as own
from nodeagent.joining import client_file
from wharfinger import daemon
from wharfinger.client import ClientConfig
from wharfinger.client.renewal import CredentialFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodeagent.agent import NodeAgent
    from nodeagent.heartbeat import Heartbeats
    from nodeagent.options import Options
    from nodeagent.streaming import StreamServer
    from wharfinger.client import Client

log = logging.getLogger(__name__)


def directory_of(options: Options) -> Path:
    """Return the folder of the node's own certificates."""
    return (options.cert_dir or options.root_dir / "pki").absolute()


class Identity:
    """See the module."""

    def __init__(
        self, options: Options, agent: NodeAgent, *, client: Client, heartbeats: Heartbeats,
        streams: StreamServer | None,
    ) -> None:  # fmt: skip
        self._options = options
        self._agent = agent
        self._client = client
        self._heartbeats = heartbeats
        self._streams = streams
        self._serving_file = directory_of(options) / own.SERVING_FILE
        serving: Path | Callable[[], bytes | None] | None = None
        if options.rotate_server_certificates:
            serving = self._own_serving
        elif options.tls_cert_file:
            serving = Path(options.tls_cert_file)
        self._credentials = CredentialFollower(
            client, lambda: ClientConfig.load(options.kubeconfig, options.context), renewed=self._renewed
        )
        self._watch = daemon.CertificateWatch({"client": lambda: self._client.config.cert, "server": serving})

    async def run(self) -> None:
        """Look after all certificates until cancelled."""
        options = self._options
        file = client_file(options.kubeconfig)
        async with asyncio.TaskGroup() as group:
            if file is not None and options.rotate_certificates:
                wanted = own.Wanted(own.CLIENT_SIGNER, self._agent.name)
                renewer = own.Renewer(file, lambda: wanted, client=self._client, renewed=self._new_client)
                group.create_task(renewer.run(), name="client certificate")
            if options.rotate_server_certificates:
                group.create_task(self._serve(), name="serving certificate")
            group.create_task(self._watch.run(), name="ends of certificates")
            group.create_task(self._credentials.run(), name="credentials")

    async def _new_client(self) -> None:
        self._credentials.refresh()

    def _renewed(self, config: ClientConfig) -> None:
        self._heartbeats.renew(config)
        self._watch.look()

    def _own_serving(self) -> bytes | None:
        """Return the certificate; a node that has just joined has none yet."""
        return self._serving_file.read_bytes() if self._serving_file.exists() else None

    def _serving(self) -> own.Wanted:
        """Apiservers know us by the node's name. An address that is an apiserver's, too, is not for nodes to have."""
        agent = self._agent
        apiservers = self._client.config.hosts
        addresses = [one for one in agent.addresses if one not in apiservers or ip_address(one).is_loopback]
        return own.Wanted(own.SERVING_SIGNER, agent.name, (agent.name,), addresses)

    async def _serve(self) -> None:
        """Serve as soon as there is a certificate; a new one is taken by the server at the next connection."""
        if own.read(self._serving_file) is not None:
            await self._new_serving()
        renewer = own.Renewer(self._serving_file, self._serving, client=self._client, renewed=self._new_serving)
        await renewer.run()

    async def _new_serving(self) -> None:
        if self._streams is not None and not self._streams.port:
            file = str(self._serving_file)
            await self._streams.start(replace(self._options, tls_cert_file=file, tls_private_key_file=file))
        self._watch.look()
