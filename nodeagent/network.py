"""The few requests that the agent itself sends to containers, for probes and hooks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from wharfinger.api.types import core, intstr

_MAX_STATUS_LINE = 64 * 1024


def resolve_port(port: intstr.IntOrString, container: core.Container) -> int:
    """Return a port number: given as such, or by the name of one of the container's ports. Raises ValueError."""
    if port.type == 0:
        return int(port.intVal)
    for known in container.ports:
        if known.name == port.strVal:
            return int(known.containerPort)
    if port.strVal.isdecimal():
        return int(port.strVal)
    raise ValueError(f"container {container.name} has no port named {port.strVal!r}")


async def http_status(host: str, port: int, path: str, *, tls: bool, headers: Mapping[str, str], timeout: float) -> int:
    """GET and return the status code; certificates are not verified, as Kubernetes has it for probes.

    Raises OSError, TimeoutError, or ValueError when the answer is not HTTP.
    """
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_MAX_STATUS_LINE)
        try:
            shown = f"[{host}]" if ":" in host else host
            lines = {"Host": f"{shown}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*", **headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            path = path if path.startswith("/") else f"/{path}"
            writer.write(f"GET {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
            await writer.drain()
            words = (await reader.readline()).split(None, 2)
        finally:
            writer.close()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(words[1])


async def tcp_open(host: str, port: int, timeout: float) -> None:
    """Connect and hang up. Raises OSError, TimeoutError."""
    async with asyncio.timeout(timeout):
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
