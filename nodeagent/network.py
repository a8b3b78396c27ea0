"""The few requests that the agent itself sends to containers, for probes and hooks."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping

import grpc
from google.protobuf import wrappers_pb2

from wharfinger import hostport
from wharfinger.api.types import core, intstr

_MAX_STATUS_LINE = 64 * 1024
_HEALTH = "/grpc.health.v1.Health/Check"
_HEALTH_WORDS = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


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
            lines = {"Host": hostport.join(host, port), "User-Agent": "kube-probe/1.36", "Accept": "*/*", **headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"GET {rooted(path)} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
            await writer.drain()
            words = (await reader.readline()).split(None, 2)
        finally:
            writer.close()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(words[1])


async def grpc_health(host: str, port: int, service: str, *, timeout: float) -> str:
    """Ask a gRPC server's health service about a service (empty: the server); return its word, such as ``SERVING``.

    The messages are written with types of protobuf's own that look the same on the wire.
    https://github.com/grpc/grpc/blob/master/doc/health-checking.md

    Raises ValueError that says why there is no answer, TimeoutError.
    """
    options = [("grpc.enable_http_proxy", 0), ("grpc.primary_user_agent", "kube-probe/1.36")]
    async with (
        asyncio.timeout(timeout),
        grpc.aio.insecure_channel(hostport.join(host, port), options=options) as channel,
    ):
        check = channel.unary_unary(
            _HEALTH,
            request_serializer=wrappers_pb2.StringValue.SerializeToString,
            response_deserializer=wrappers_pb2.Int32Value.FromString,
        )
        try:
            status = (await check(wrappers_pb2.StringValue(value=service))).value
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise ValueError("the server does not implement the gRPC health protocol") from error
            raise ValueError(f"{error.code().name}: {error.details()}") from error
    return _HEALTH_WORDS[status] if 0 <= status < len(_HEALTH_WORDS) else str(status)


def rooted(path: str) -> str:
    """Return the path of a request as it is sent: from the root."""
    return path if path.startswith("/") else f"/{path}"


def reason(error: OSError | ValueError) -> str:
    """Return why a request failed, in the system's words and without Python's."""
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)


async def tcp_open(host: str, port: int, timeout: float) -> None:
    """Connect and hang up. Raises OSError, TimeoutError."""
    async with asyncio.timeout(timeout):
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
