"""The daemon ``wharf-scheduler``: serves health, metrics and explanations, and schedules while it leads."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import sys
import uuid
from collections.abc import Sequence

from controlplane.scheduler import metrics, service
from controlplane.scheduler.leadership import Leadership
from controlplane.scheduler.options import Options, parse
from controlplane.scheduler.profile import Profile
from wharfinger import daemon
from wharfinger.client import Client, ClientConfig, ConfigError, Fence, LeaderElector, connect
from wharfinger.client.renewal import CredentialFollower
from wharfinger.daemon.metrics import LEADER

log = logging.getLogger(__name__)

LEASE, FOREIGN_LEASE = "kube-scheduler", "wharf-scheduler"
GRPC_ADDRESS = "wharfinger.dev/grpc-address"
"""Annotation of our Lease: where explanations are served."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run until SIGTERM or SIGINT. Ends with 1 and a message when the configuration is wrong."""
    options = parse(argv)
    daemon.setup_logging(options.log_level, options.log_format)
    try:
        config = options.client_config()
    except ConfigError as error:
        sys.exit(f"wharf-scheduler: {error}")
    try:
        daemon.run(lambda stop: Daemon(options, config).run(stop))
    except OSError as error:
        sys.exit(f"wharf-scheduler: {error}")


class Daemon:
    """All parts of the process."""

    def __init__(self, options: Options, config: ClientConfig) -> None:
        self._options = options
        self._config = config
        self._lease_name = options.lease_name or (LEASE if config.http is None else FOREIGN_LEASE)
        self._term: Leadership | None = None
        metrics.register(metrics.PendingPods(lambda: self._term.queue.counts if self._term else {}))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and schedule until `stop` is set. Raises OSError when a port is taken."""
        options = self._options
        health = daemon.HealthServer(
            options.bind_address,
            options.secure_port,
            checks=(daemon.Check("informers", self._informers_synced),),
            tls=options.tls,
        )
        await health.start()
        address = f"{options.bind_address}:{options.grpc_port}"
        server, port = await service.serve(lambda: self._term, address=address, tls=options.tls)
        log.info("serving", extra={"health": f"{options.bind_address}:{health.port}", "grpc": port})
        async with connect(self._config) as client:
            watch = daemon.CertificateWatch(
                {"server": options.tls.cert if options.tls else None, "client": lambda: client.config.cert}
            )
            follower = CredentialFollower(client, options.client_config, renewed=lambda _: watch.look())
            certificates = [
                daemon.spawn(watch.run(), name="certificates"), daemon.spawn(follower.run(), name="credentials"),
            ]  # fmt: skip
            try:
                await daemon.attend(self._work(client, port), stop, name="scheduler")
            finally:
                for task in certificates:
                    task.cancel()
                await server.stop(grace=1)
                await health.close()

    def _informers_synced(self) -> str | None:
        if self._term is not None and not self._term.ready:
            return "leading, but the caches are not complete yet"
        return None

    async def _work(self, client: Client, port: int) -> None:
        options = self._options
        if not options.leader_elect:
            await self._lead(client)
            return
        host = options.grpc_advertise_address or options.bind_address
        elector = LeaderElector(
            client,
            namespace=options.lease_namespace,
            name=self._lease_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            lease_duration=options.lease_duration,
            renew_deadline=options.renew_deadline,
            retry_period=options.retry_period,
            annotations={GRPC_ADDRESS: f"{host}:{port}"},
        )

        async def lead(fence: Fence) -> None:
            await self._lead(client.fenced(fence))

        await elector.run(lead)

    async def _lead(self, client: Client) -> None:
        LEADER.labels(self._lease_name).set(1)
        selecting: set[str] = set()
        try:
            while True:
                term = self._term = self._new_term(client, selecting)
                await term.run()
                # A selector names a label of single pods, by which they were not told apart: all is read anew. There
                # are five such labels, so this happens five times at most.
                selecting = set(term.engine.pods.selecting)
                log.info("reading all pods anew, with labels that selectors name", extra={"labels": sorted(selecting)})
        finally:
            self._term = None
            LEADER.labels(self._lease_name).set(0)

    def _new_term(self, client: Client, selecting: set[str]) -> Leadership:
        options = self._options
        return Leadership(
            client,
            options.profiles or [Profile()],
            seed=options.seed if options.seed is not None else random.SystemRandom().getrandbits(64),
            selecting=selecting,
            initial_backoff=options.initial_backoff,
            max_backoff=options.max_backoff,
        )


if __name__ == "__main__":
    main()
