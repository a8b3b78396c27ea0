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
        work = daemon.spawn(manager.run(), name="controller manager")
        beat = daemon.spawn(daemon.watchdog(lambda: not work.done()), name="watchdog")
        daemon.settle()
        daemon.notify("READY=1")
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            daemon.notify("STOPPING=1")
            for task in (stopping, beat, work):
                task.cancel()
            await asyncio.gather(stopping, beat, work, return_exceptions=True)
            if health is not None:
                await health.close()
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error


def _health_server(options: Options, manager: Manager) -> daemon.HealthServer | None:
    if not options.secure_port:
        return None
    tls = None
    if options.tls_cert_file and options.tls_private_key_file:
        ca = Path(options.client_ca_file) if options.client_ca_file else None
        tls = daemon.TLSFiles(Path(options.tls_cert_file), Path(options.tls_private_key_file), ca)

    def synced() -> str | None:
        return "leading, but the caches are not complete yet" if manager.leading and not manager.working else None

    return daemon.HealthServer(
        options.bind_address, options.secure_port, checks=(daemon.Check("controllers", synced),), tls=tls
    )


if __name__ == "__main__":
    main()
