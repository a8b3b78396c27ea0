"""The connection to the runtime's socket: deadlines for every call, errors as values of our own.

gRPC connects again by itself; the back-off is kept short because the socket is local: a restarted containerd is found
within a second. Nothing here ever ends the agent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio

from nodeagent.metrics import OPERATION_ERRORS, OPERATION_SECONDS, OPERATIONS
from nodeagent.runtime import RuntimeFailure, RuntimeNotFound, RuntimeUnavailable
from wharfinger.proto.cri import runtime_v1_pb2_grpc as cri_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")

CALL_SECONDS = 120.0
"""kubelet's runtimeRequestTimeout."""
SANDBOX_SECONDS = 240.0
PULL_SECONDS = 1800.0

NOT_YET = "server is not initialized yet"
"""What containerd answers, with no code that says so, while it still takes stock after a start."""

_OPTIONS = [
    ("grpc.default_authority", "localhost"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.use_local_subchannel_pool", 1),
]


class Connection:
    """A channel with the stubs on it."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is a path, or a URL with the scheme unix."""
        self.endpoint = endpoint
        target = "unix:" + endpoint.removeprefix("unix://").removeprefix("unix:")
        self.channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        self.runtime: Any = cri_grpc.RuntimeServiceStub(self.channel)  # type: ignore[no-untyped-call]
        self.images: Any = cri_grpc.ImageServiceStub(self.channel)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Close the channel; calls under way fail."""
        await self.channel.close(None)


async def call(operation: str, answer: Awaitable[T]) -> T:
    """Await a call and turn its errors into ours; `operation` is its name in the metrics.

    Raises RuntimeNotFound, RuntimeUnavailable (no connection, or no answer in time) or RuntimeFailure.
    """
    began = time.perf_counter()
    OPERATIONS.labels(operation).inc()
    try:
        return await answer
    except grpc.aio.AioRpcError as error:
        OPERATION_ERRORS.labels(operation).inc()
        raise translate(error) from error
    finally:
        OPERATION_SECONDS.labels(operation).observe(time.perf_counter() - began)


def translate(error: grpc.aio.AioRpcError) -> RuntimeFailure:
    """Return our error for gRPC's."""
    text = error.details() or error.code().name
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return RuntimeNotFound(text)
    if NOT_YET in text:
        return RuntimeUnavailable(text)
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return RuntimeUnavailable(text)
    return RuntimeFailure(text)
