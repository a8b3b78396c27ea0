"""What the agent asks of containers itself, against real servers."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from google.protobuf import wrappers_pb2

from nodeagent.network import grpc_health, http_status, reason


@asynccontextmanager
async def health_server(answers: dict[str, int]) -> AsyncIterator[int]:
    """Serve the gRPC health protocol, with a status a service; yields the port."""

    async def check(request: wrappers_pb2.StringValue, _: object) -> wrappers_pb2.Int32Value:
        return wrappers_pb2.Int32Value(value=answers[request.value])

    handler = grpc.unary_unary_rpc_method_handler(
        check,
        request_deserializer=wrappers_pb2.StringValue.FromString,
        response_serializer=wrappers_pb2.Int32Value.SerializeToString,
    )
    server = grpc.aio.server()
    if answers:
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
        )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def test_grpc_health() -> None:
    async with health_server({"": 1, "db": 2, "odd": 17}) as port:
        assert await grpc_health("127.0.0.1", port, "", timeout=30) == "SERVING"
        assert await grpc_health("127.0.0.1", port, "db", timeout=30) == "NOT_SERVING"
        assert await grpc_health("127.0.0.1", port, "odd", timeout=30) == "17"
    async with health_server({}) as port:
        with pytest.raises(ValueError, match="does not implement"):
            await grpc_health("127.0.0.1", port, "", timeout=30)
    with pytest.raises(ValueError, match="UNAVAILABLE"):
        await grpc_health("127.0.0.1", closed_port(), "", timeout=30)


async def test_reasons_are_the_systems_words() -> None:
    with pytest.raises(ConnectionRefusedError) as caught:
        await http_status("127.0.0.1", closed_port(), "/", tls=False, headers={}, timeout=30)
    assert reason(caught.value) == "connection refused"
    assert reason(ValueError("no port named 'x'")) == "no port named 'x'"
