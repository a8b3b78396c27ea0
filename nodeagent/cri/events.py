"""containerd's own event stream, used as a hint that something happened.

CRI's GetContainerEvents came after containerd 1.6, its native events service is much older and goes on. Only the
envelope's namespace and topic are read (fields 2 and 3 of ``containerd.services.events.v1.Envelope``), hence no
schema of its own: https://github.com/containerd/containerd/blob/release/1.6/api/services/events/v1/events.proto
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from nodeagent.cri.connection import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import grpc.aio

_SUBSCRIBE = "/containerd.services.events.v1.Events/Subscribe"
_NAMESPACE, _TOPIC = 2, 3
_TOPICS = (b"/tasks/exit", b"/tasks/oom", b"/tasks/start", b"/tasks/delete", b"/containers/delete")


async def subscribe(channel: grpc.aio.Channel, happened: Callable[[], None]) -> None:
    """Call `happened` for each event on a container of Kubernetes, until the stream breaks.

    Raises RuntimeUnavailable when it breaks, RuntimeFailure when the runtime does not know this service.
    """
    stream = channel.unary_stream(
        _SUBSCRIBE, request_serializer=lambda request: request, response_deserializer=lambda data: data
    )
    try:
        async for envelope in stream(b""):
            fields = dict(_strings(envelope))
            if fields.get(_NAMESPACE) == b"k8s.io" and fields.get(_TOPIC, b"").startswith(_TOPICS):
                happened()
    except grpc.aio.AioRpcError as error:
        raise translate(error) from error


def _strings(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the length-delimited fields of a message; all of an Envelope's fields are of that type."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        if key & 7 != 2:
            return
        size, position = _varint(message, position)
        yield key >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
