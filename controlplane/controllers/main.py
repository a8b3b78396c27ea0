"""The daemon ``wharf-controller-manager``."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from controlplane.controllers.manager import Manager
from controlplane.controllers.options import Options, parse
from wharfinger import daemon
from wharfinger.client import Client, ClientConfig, ConfigError
from wharfinger.client.renewal import CredentialFollower
from wharfinger.daemon import flags

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Run until SIGTERM or SIGINT. Ends with 1 and a message when the configuration is wrong."""
    options = parse(argv)
    daemon.setup_logging(options.log_level, options.log_format)
    try:
        config = ClientConfig.load(kubeconfig=options.kubeconfig, context=options.context)
    except ConfigError as error:
        sys.exit(f"wharf-controller-manager: {error}")
    daemon.run(lambda stop: serve(options, config, stop))


async def serve(options: Options, config: ClientConfig, stop: asyncio.Event) -> None:
    """Serve health and metrics and run the controllers, until `stop` is set."""
    async with Client(config) as client:
        manager = Manager(client, options)
        health = _health_server(options, manager)
        if health is not None:
            await health.start()
            log.info("serving health and metrics", extra={"address": f"{options.bind_address}:{health.port}"})
        watch = daemon.CertificateWatch(
            {
                "server": Path(options.tls_cert_file) if options.tls_cert_file else None,
                "client": lambda: client.config.cert,
                "signer": Path(options.cluster_signing_cert_file) if options.cluster_signing_cert_file else None,
            }
        )
        follower = CredentialFollower(
            client, lambda: ClientConfig.load(options.kubeconfig, options.context), renewed=lambda _: watch.look()
        )
        certificates = [
            daemon.spawn(watch.run(), name="certificates"), daemon.spawn(follower.run(), name="credentials"),
        ]  # fmt: skip
        try:
            await daemon.attend(manager.run(), stop, name="controller manager")
        finally:
            for task in certificates:
                task.cancel()
            if health is not None:
                await health.close()


def _health_server(options: Options, manager: Manager) -> daemon.HealthServer | None:
    if not options.secure_port:
        return None
    tls = flags.tls_files(options.tls_cert_file, options.tls_private_key_file, options.client_ca_file)

    def synced() -> str | None:
        return "leading, but the caches are not complete yet" if manager.leading and not manager.working else None

    return daemon.HealthServer(
        options.bind_address, options.secure_port, checks=(daemon.Check("controllers", synced),), tls=tls
    )


if __name__ == "__main__":
    main()
