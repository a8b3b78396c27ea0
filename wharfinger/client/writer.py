"""The write stream: many writes with ids on one bidirectional call.

Most of a unary call's cost is gRPC's and the kernel's. Here whatever is waiting when the stream is ready goes out in
one message, and the answers come back packed the same way. Scheduler, controllers and agents write through it.

When the stream breaks, every write that has no answer yet fails with ServiceUnavailableError: it may have happened.
The next write opens a new stream.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.message import Message

from wharfinger.api import errors, kinds
from wharfinger.api.types import core
from wharfinger.client.options import DeleteOptions, PatchOptions, WriteOptions
from wharfinger.client.requests import Requests
from wharfinger.client.transport import Transport
from wharfinger.client.verbs import Writer
from wharfinger.proto.native import resources_v1_pb2 as native

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

MAX_BATCH = 256
MAX_BATCH_BYTES = 1 << 20
MAX_OUTSTANDING = 4096


class StreamWriter(Writer):
    """Sends writes over one stream."""

    def __init__(self, transport: Transport, fence: native.Fence | None = None) -> None:
        self._transport = transport
        self._fence = fence
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[native.WriteResult]] = {}
        self._outbox: deque[native.Write] = deque()
        self._ready = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_OUTSTANDING)
        self._stream: asyncio.Task[None] | None = None
        self._closed = False

    async def create(self, obj: M, **options: Unpack[WriteOptions]) -> M:
        """See Writer.create."""
        requests = self._requests(type(obj))
        request = requests.create(obj.SerializeToString(), requests.of(obj), **options)
        result = await self._send(native.Write(create=request))
        return type(obj).FromString(result.object.object.raw)

    async def update(self, obj: M, *, subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """See Writer.update."""
        requests = self._requests(type(obj))
        request = requests.update(obj.SerializeToString(), requests.of(obj, subresource), **options)
        result = await self._send(native.Write(update=request))
        return type(obj).FromString(result.object.object.raw)

    async def patch(self, message: type[M], name: str, **options: Unpack[PatchOptions]) -> M:
        """See Writer.patch."""
        request = self._requests(message).patch(name, **options)
        result = await self._send(native.Write(patch=request))
        return message.FromString(result.object.object.raw)

    async def delete(
        self, message: type[Message], name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> None:
        """See Writer.delete."""
        request = self._requests(message).delete(name, namespace=namespace, **options)
        await self._send(native.Write(delete=request))

    async def displace(
        self, pod: str, *, namespace: str, reason: str, message: str, uid: str | None = None, brief: bool = False
    ) -> None:
        """See Writer.displace: one write."""
        request = self._requests(core.Pod).delete(pod, namespace=namespace, uid=uid, brief=brief)
        request.disruption.reason, request.disruption.message = reason, message
        await self._send(native.Write(delete=request))

    def _requests(self, message: type[Message]) -> Requests:
        return Requests(kinds.of(message), self._fence)

    async def _send(self, write: native.Write) -> native.WriteResult:
        if self._closed:
            raise errors.ServiceUnavailableError("this writer is closed")
        async with self._room:
            write.id = next(self._ids)
            future: asyncio.Future[native.WriteResult] = asyncio.get_running_loop().create_future()
            self._waiting[write.id] = future
            self._outbox.append(write)
            self._ready.set()
            if self._stream is None or self._stream.done():
                self._stream = asyncio.get_running_loop().create_task(self._run(), name="write stream")
            try:
                result = await future
            finally:
                self._waiting.pop(write.id, None)
        if result.HasField("error"):
            raise errors.from_status(result.error)
        return result

    async def _batches(self, ended: asyncio.Event) -> AsyncIterator[native.WriteBatch]:
        while True:
            await self._ready.wait()
            if ended.is_set():
                # gRPC leaves the sender of a failed call waiting; it must not take the writes of the next stream.
                return
            batch, size = native.WriteBatch(), 0
            while self._outbox and len(batch.writes) < MAX_BATCH and size < MAX_BATCH_BYTES:
                write = self._outbox.popleft()
                if write.id in self._waiting:
                    size += write.ByteSize()
                    batch.writes.append(write)
            if not self._outbox:
                self._ready.clear()
            if batch.writes:
                yield batch

    async def _run(self) -> None:
        endpoint = self._transport.endpoint()
        failure: errors.StatusError = errors.ServiceUnavailableError(
            "the write stream ended before the answer came; the write may have happened"
        )
        ended = asyncio.Event()
        call = endpoint.resources.Write(self._batches(ended), metadata=self._transport.metadata)
        try:
            with endpoint.lasting(call):
                async for results in call:
                    endpoint.hear()
                    for result in results.results:
                        future = self._waiting.get(result.id)
                        if future is not None and not future.done():
                            future.set_result(result)
        except errors.ServiceUnavailableError as error:
            failure = error
        except grpc.aio.AioRpcError as error:
            failure = self._transport.translate(endpoint, error)
        finally:
            ended.set()
            call.cancel()
            self._outbox.clear()
            for future in list(self._waiting.values()):
                if not future.done():
                    future.set_exception(failure)

    async def close(self) -> None:
        """End the stream; writes without an answer fail."""
        self._closed = True
        if self._stream is not None and not self._stream.done():
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
