"""Streams to pods: commands that run in containers, and connections to ports.

A stream is open once the node's runtime has accepted it; until then what went wrong is raised by the call that opens.
Reading is for one task. A write waits until the other side has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from wharfinger.api import codec, errors
from wharfinger.api.types import meta
from wharfinger.client.transport import Transport
from wharfinger.proto.native import streams_v1_pb2 as native

_EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009  (the stubs do not know it)


class _Stream:
    """An open call."""

    def __init__(self, transport: Transport, method: str) -> None:
        self._transport = transport
        self._endpoint = transport.endpoint()
        self._call: Any = getattr(self._endpoint.streams, method)(metadata=transport.metadata)
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the stream on both sides, whatever is under way."""
        self._call.cancel()

    async def _write(self, message: Any) -> bool:
        """Send; False when the stream has ended, which reading tells more about."""
        try:
            async with self._writing:  # gRPC takes one message at a time
                await self._call.write(message)
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError, grpc.aio.UsageError):
            return False
        return True

    async def _read(self) -> Any:
        """Return the next output; None at the end. Raises StatusError."""
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._transport.translate(self._endpoint, error) from error
        return None if message is _EOF else message

    async def _open(self, message: Any) -> None:
        try:
            await self._write(message)
            first = await self._read()
        except BaseException:
            self.close()
            raise
        if first is None or first.WhichOneof("output") != "opened":
            self.close()
            raise errors.InternalError("the server began the stream without saying that it is open")


class RemoteCommand(_Stream):
    """An exec or attach; see :meth:`open`."""

    @classmethod
    async def open(cls, transport: Transport, method: str, wanted: native.StreamOpen) -> Self:
        """Open one by the method ``Exec`` or ``Attach``. Raises StatusError."""
        stream = cls(transport, method)
        await stream._open(native.StreamInput(open=wanted))
        return stream

    async def stdin(self, data: bytes) -> bool:
        """Send input to the process. False: it has ended."""
        return await self._write(native.StreamInput(stdin=data))

    async def close_stdin(self) -> None:
        """Let the process read an end of file."""
        await self._write(native.StreamInput(close_stdin=True))

    async def resize(self, width: int, height: int) -> None:
        """Tell the process how many columns and lines its terminal has."""
        await self._write(native.StreamInput(resize=native.TerminalSize(width=width, height=height)))

    async def outputs(self) -> AsyncIterator[native.StreamOutput]:
        """Yield what the process writes; the last one is its ``status``. Raises StatusError when the stream breaks."""
        while (output := await self._read()) is not None:
            yield output
            if output.WhichOneof("output") == "status":
                return
        raise errors.ServiceUnavailableError("the stream ended without saying how the process did")


class Connection(_Stream):
    """One connection to a port of a pod; see :meth:`open`."""

    @classmethod
    async def open(cls, transport: Transport, wanted: native.ForwardOpen) -> Self:
        """Open one. Raises StatusError."""
        stream = cls(transport, "PortForward")
        await stream._open(native.ForwardInput(open=wanted))
        return stream

    async def write(self, data: bytes) -> bool:
        """Send. False: the connection has ended."""
        return await self._write(native.ForwardInput(data=data))

    async def write_eof(self) -> None:
        """Send no more."""
        await self._write(native.ForwardInput(close=True))

    async def outputs(self) -> AsyncIterator[native.ForwardOutput]:
        """Yield what the pod's side sends: data, then closed, or an error. Raises StatusError."""
        while (output := await self._read()) is not None:
            yield output


def exit_code(status: bytes) -> tuple[int, str]:
    """Return a process's exit code and, for another failure (code -1), what went wrong, from a stream's last output."""
    read = codec.from_json(status, meta.Status).message
    if read.status == "Success":
        return 0, ""
    if read.reason == "NonZeroExitCode":
        for cause in read.details.causes:
            if cause.reason == "ExitCode" and cause.message.lstrip("-").isdigit():
                return int(cause.message), read.message
    return -1, read.message
