"""``wharf port-forward``: ports of this machine that lead into a pod.

Each connection that arrives here becomes a stream of its own to the pod, so one that breaks, or that nobody in the pod
takes, leaves the others alone.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger import hostport
from wharfinger.cli import podtargets
from wharfinger.cli.complete import names_of
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.reporting import needs
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.api.types import core
    from wharfinger.client import Client
    from wharfinger.client.streams import Connection

_PIECE = 32 << 10
_MAX_PORT = 65_535


@dataclass(frozen=True)
class Forward:
    """One port here and the one in the pod."""

    local: int
    """0: any free one."""
    remote: int


@command(name="port-forward")
@click.argument("target", required=False, metavar="POD | TYPE/NAME", shell_complete=names_of("pods"))
@click.argument("ports", nargs=-1, metavar="[LOCAL:]REMOTE…")
@click.option("--address", "addresses", multiple=True, metavar="ADDRESS",
              help="Where to listen (several by commas); localhost if not given.")  # fmt: skip
@podtargets.RUNNING_TIMEOUT
async def port_forward(session: Session, **options: Any) -> None:
    """Reach ports of a pod from this machine, until Ctrl-C.

    \b
      wharf port-forward web 8080:80        port 8080 here
      wharf port-forward web :80            any free port here
      wharf port-forward service/web 80     a pod of the service
      wharf port-forward deployment/web 8443:https --address 0.0.0.0
    """
    needs(bool(options["target"]), "TYPE/NAME and list of ports are required for port-forward")
    needs(bool(options["ports"]), "at least 1 PORT is required for port-forward")
    async with session.client() as client:
        pod, kind, owner = await podtargets.one_pod(
            client, session.namespace, options["target"], verb="forward ports to",
            timeout=options["pod_running_timeout"],
        )  # fmt: skip
        phase = pod.status.phase
        needs(phase == "Running", f"unable to forward port because pod is not running. Current status={phase}")
        service = owner if kind.kind == "Service" else None
        forwards = [parse_port(text, pod, service) for text in options["ports"]]
        await _Forwarder(client, pod).serve(forwards, addresses_of(options["addresses"]))


def addresses_of(given: Sequence[str]) -> list[str]:
    """Return the addresses to listen on. CommandError for one that is none."""
    found: list[str] = []
    for text in [part for value in given for part in value.split(",")] or ["localhost"]:
        if text == "localhost":
            found += ["127.0.0.1", "::1"]
            continue
        try:
            socket.getaddrinfo(text, None, flags=socket.AI_NUMERICHOST)
        except OSError as error:
            raise CommandError(f"{text} is not a valid IP") from error
        found.append(text)
    return list(dict.fromkeys(found))


def parse_port(text: str, pod: core.Pod, service: core.Service | None = None) -> Forward:
    """Read ``REMOTE``, ``LOCAL:REMOTE`` or ``:REMOTE``; the remote one may be a name. CommandError."""
    local, colon, remote = text.rpartition(":")
    needs(":" not in local, f"invalid port format '{text}'")
    number = _of_service(remote, service, pod) if service is not None else _of_pod(remote, pod)
    if not colon:
        # A service's own number is what people type, and where they look for it on this side, too.
        return Forward(int(remote) if remote.isdigit() else number, number)
    if not local:
        return Forward(0, number)
    needs(local.isdigit() and int(local) <= _MAX_PORT, f"error parsing local port '{local}': it is no port")
    return Forward(int(local), number)


def _of_pod(name: str, pod: core.Pod) -> int:
    if name.isdigit():
        needs(0 < int(name) <= _MAX_PORT, f"remote port must be between 1 and {_MAX_PORT}, not {name}")
        return int(name)
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        for port in container.ports:
            if port.name == name:
                return int(port.containerPort)
    raise CommandError(f"pod '{pod.metadata.name}' does not have a named port '{name}'")


def _of_service(name: str, service: core.Service, pod: core.Pod) -> int:
    for port in service.spec.ports:
        if name in (port.name, str(port.port)):
            target = port.targetPort
            if service.spec.clusterIP == "None":
                return _of_pod(str(port.port) if not target.strVal else target.strVal, pod)
            if target.type == 1:
                return _of_pod(target.strVal, pod)
            return int(target.intVal or port.port)
    raise CommandError(f"Service {service.metadata.name} does not have a service port {name}")


class _Forwarder:
    """Listens, and opens a stream for each connection."""

    def __init__(self, client: Client, pod: core.Pod) -> None:
        self._client = client
        self._pod = pod
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(self, forwards: Sequence[Forward], addresses: Sequence[str]) -> None:
        servers: list[asyncio.Server] = []
        try:
            for forward in forwards:
                servers += await self._listen(forward, addresses)
            raise CommandError(await self._lost)
        finally:
            for server in servers:
                server.close()

    async def _listen(self, forward: Forward, addresses: Sequence[str]) -> list[asyncio.Server]:
        servers: list[asyncio.Server] = []
        failures: list[str] = []
        port = forward.local
        for address in addresses:
            try:
                server = await asyncio.start_server(self._handler(forward), address, port)
            except OSError as error:
                failures.append(f"{address}:{port}: {error.strerror or error}")
                continue
            servers.append(server)
            port = server.sockets[0].getsockname()[1]  # a free one is the same on all addresses
            click.echo(f"Forwarding from {hostport.join(address, port)} -> {forward.remote}")
        if not servers:
            raise CommandError(f"unable to listen on port {forward.local}: {'; '.join(failures)}")
        return servers

    def _handler(self, forward: Forward) -> Any:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            port = writer.get_extra_info("sockname")[1]
            click.echo(f"Handling connection for {port}")
            try:
                await self._connection(forward.remote, reader, writer)
            except ConnectionError as error:
                complain(f"error copying between the local connection and port {forward.remote}: {error}")
            finally:
                writer.transport.abort()

        return handle

    async def _connection(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from wharfinger.api.errors import NotFoundError, StatusError
        from wharfinger.proto.native import streams_v1_pb2

        metadata = self._pod.metadata
        wanted = streams_v1_pb2.ForwardOpen(
            namespace=metadata.namespace, pod=metadata.name, uid=metadata.uid, port=port
        )
        try:
            async with await self._client.port_forward(wanted) as stream:
                sending = asyncio.create_task(_send(reader, stream))
                try:
                    await _receive(stream, writer, port)
                finally:
                    sending.cancel()
        except NotFoundError as error:
            if not self._lost.done():
                self._lost.set_result(f"lost connection to pod: {error}")
        except StatusError as error:
            complain(f"error forwarding port {port} to pod {metadata.name}: {error}")


async def _send(reader: asyncio.StreamReader, stream: Connection) -> None:
    while data := await reader.read(_PIECE):
        if not await stream.write(data):
            return
    await stream.write_eof()


async def _receive(stream: Connection, writer: asyncio.StreamWriter, port: int) -> None:
    async for output in stream.outputs():
        match output.WhichOneof("output"):
            case "data":
                writer.write(output.data)
                await writer.drain()
            case "closed":
                writer.write_eof()
            case "error":
                complain(f"error forwarding port {port}: {output.error}")
                return
    await writer.drain()
    writer.close()
    await writer.wait_closed()
