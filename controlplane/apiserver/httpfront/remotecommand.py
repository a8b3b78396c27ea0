"""exec and attach: between an agent's call and a client, whatever the client's protocol is.

What a protocol has to do is in :class:`ClientEnd`; what an exec *is* stands here once: inputs go to the agent, outputs
to the client, the Status comes last, and whoever is gone first ends both.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Protocol

from controlplane.apiserver.httpfront import options
from controlplane.apiserver.podstreams import until_first
from wharfinger.api import codec, errors
from wharfinger.api.types import meta
from wharfinger.proto.native import streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from multidict import MultiMapping

    from controlplane.apiserver.httpfront.routing import Address
    from controlplane.apiserver.podstreams import AgentCall

log = logging.getLogger(__name__)

_MAX_SIDE = 65_535
"""A terminal's columns and lines are 16 bits each."""


class ClientEnd(Protocol):
    """The client's side of an exec or attach. Writing raises ConnectionError when the client is gone."""

    def inputs(self) -> AsyncIterator[streams_v1_pb2.StreamInput]:
        """Yield what the client sends until it is gone."""

    async def stdout(self, data: bytes) -> None:
        """Pass on output."""

    async def stderr(self, data: bytes) -> None:
        """Pass on output."""

    async def status(self, data: bytes) -> None:
        """Say how it ended: a Status in JSON."""


def open_of(address: Address, query: MultiMapping[str]) -> streams_v1_pb2.StreamOpen:
    """Read the options of an exec or attach. Raises BadRequestError."""

    def on(name: str) -> bool:
        return name in query and options.flag(query[name])

    command = query.getall("command", []) if address.subresource == "exec" else []
    wanted = streams_v1_pb2.StreamOpen(
        namespace=address.namespace,
        pod=address.name,
        container=query.get("container", ""),
        command=command,
        stdin=on("stdin"),
        stdout=on("stdout"),
        # A terminal has one output; whoever asks for both gets that one, as from a kubelet.
        stderr=on("stderr") and not on("tty"),
        tty=on("tty"),
    )
    if address.subresource == "exec" and not command:
        raise errors.BadRequestError("you must specify at least one command for the container")
    if not (wanted.stdin or wanted.stdout or wanted.stderr):
        raise errors.BadRequestError("you must specify at least 1 of stdin, stdout, stderr")
    return wanted


def resize_of(data: bytes) -> streams_v1_pb2.StreamInput | None:
    """Read a message of the resize stream, such as ``{"Width":80,"Height":24}``; None when it is no such thing."""
    try:
        size = json.loads(data)
        width, height = size["Width"], size["Height"]
        fits = all(type(side) is int and 0 <= side <= _MAX_SIDE for side in (width, height))
    except (ValueError, TypeError, KeyError, RecursionError):
        fits = False
    if not fits:
        log.info("a client sent a terminal size that cannot be read", extra={"data": repr(data[:80])})
        return None
    return streams_v1_pb2.StreamInput(resize=streams_v1_pb2.TerminalSize(width=width, height=height))


async def run(call: AgentCall, end: ClientEnd, gone: Coroutine[Any, Any, None]) -> None:
    """Move bytes until it is over or the client `gone`; the caller closes both sides."""

    async def inputs() -> None:
        async for message in end.inputs():
            if not await call.write(message.SerializeToString()):
                await asyncio.Event().wait()  # the outputs say how it ended

    async def outputs() -> None:
        try:
            await _outputs(call, end)
        except errors.StatusError as error:
            await end.status(status_bytes(error))

    try:
        await until_first(outputs(), inputs(), gone)
    except ConnectionError:
        log.debug("a client left in the middle of a stream", extra={"pod": call.target.pod})


async def _outputs(call: AgentCall, end: ClientEnd) -> None:
    while (data := await call.read()) is not None:
        output = streams_v1_pb2.StreamOutput.FromString(data)
        match output.WhichOneof("output"):
            case "stdout":
                await end.stdout(output.stdout)
            case "stderr":
                await end.stderr(output.stderr)
            case "status":
                await end.status(output.status)
                return
    raise errors.InternalError(f"{call.target.agent} ended the stream without saying how the process did")


def status_bytes(error: errors.StatusError) -> bytes:
    """Return an error as the error stream carries it."""
    return codec.to_json_bytes(error.to_status())


def plain(status: bytes) -> bytes:
    """Return what of a Status older protocols carry: nothing for a success, else the message as text."""
    read = codec.from_json(status, meta.Status).message
    return b"" if read.status == "Success" else read.message.encode()
