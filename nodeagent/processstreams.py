"""exec, attach and port-forward on the node: from the apiserver's gRPC stream to the runtime's.

The apiserver has found out that the user may do this and which container is meant; here it shows whether that
container runs. `opened` is sent once the runtime has accepted; errors before are the call's own. When either side is
gone the other is ended, and what is slow holds up its own stream only, as nothing is buffered in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc.aio

from nodeagent.agent import NodeAgent
from nodeagent.podspec import all_containers
from nodeagent.podworker import PodWorker
from nodeagent.runtime import (
    ContainerRecord,
    ContainerState,
    PortStreams,
    ProcessStreams,
    RuntimeFailure,
    RuntimeNotFound,
    RuntimeUnavailable,
    RuntimeUnsupported,
)
from wharfinger.api import codec, errors
from wharfinger.daemon import spawn
from wharfinger.proto.native import streams_v1_pb2

log = logging.getLogger(__name__)

T = TypeVar("T")
EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009  (the stubs do not know it)


async def first_of(context: Any, message: str) -> Any:
    """Return the `open` that a stream of inputs must begin with. Raises BadRequestError."""
    first = await context.read()
    if first is EOF or first.WhichOneof("input") != "open":
        raise errors.BadRequestError(f"the first message of {message} must be open")
    return first.open


async def open_process(
    agent: NodeAgent, worker: PodWorker, name: str, wanted: streams_v1_pb2.StreamOpen, *, attach: bool
) -> ProcessStreams:
    """Start a command in a container, or join its first process. Raises StatusError."""
    if not attach and not wanted.command:
        raise errors.BadRequestError("command: Required value: must be a program and its arguments")
    if not (wanted.stdin or wanted.stdout or wanted.stderr):
        raise errors.BadRequestError("at least one of stdin, stdout, stderr must be wanted")
    record = await running_container(agent, worker, name)
    tty = wanted.tty
    if attach:  # the process has a terminal or it has not, whatever is asked for
        tty = any(container.tty for _, container in all_containers(worker.pod) if container.name == name)
    streams = {"stdin": wanted.stdin, "stdout": wanted.stdout, "stderr": wanted.stderr and not tty, "tty": tty}
    if attach:
        return await of_runtime(agent.runtime.open_attach(record.id, **streams))
    return await of_runtime(agent.runtime.open_exec(record.id, list(wanted.command), **streams))


async def running_container(agent: NodeAgent, worker: PodWorker, name: str) -> ContainerRecord:
    """Return a pod's container if it runs. Raises NotFoundError."""
    record = (await of_runtime(agent.runtime.inspect(worker.uid))).latest(name)
    if record is None or record.state is not ContainerState.RUNNING:
        state = "has not been started yet" if record is None else f"does not run: it is {record.state.value}"
        raise errors.NotFoundError(f'container not found ("{name}"): it {state}')
    return record


async def open_port(agent: NodeAgent, worker: PodWorker, port: int) -> PortStreams:
    """Connect to a port of a pod. Raises StatusError."""
    if not 0 < port < 65_536:
        raise errors.BadRequestError(f"port: Invalid value: {port}: must be between 1 and 65535")
    record = await of_runtime(agent.runtime.inspect(worker.uid))
    sandbox = next((sandbox for sandbox in record.sandboxes if sandbox.ready), None)
    if sandbox is None:
        raise errors.NotFoundError(f'pod "{worker.pod.metadata.name}" has no network on its node now')
    return await of_runtime(agent.runtime.open_port(sandbox.id, port))


async def of_runtime(answer: Awaitable[T]) -> T:
    """Await the runtime and turn its errors into what clients see."""
    try:
        return await answer
    except RuntimeNotFound as error:
        raise errors.NotFoundError(str(error)) from error
    except RuntimeUnsupported as error:
        raise errors.BadRequestError(str(error)) from error
    except RuntimeUnavailable as error:
        raise errors.ServiceUnavailableError(str(error)) from error
    except RuntimeFailure as error:
        raise errors.InternalError(str(error)) from error


async def serve_process(context: Any, process: ProcessStreams, wanted: streams_v1_pb2.StreamOpen) -> None:
    """Move bytes between a client and a process until the process ends or the client is gone."""

    async def inputs() -> None:
        closed = not wanted.stdin
        try:
            while (message := await context.read()) is not EOF:
                match message.WhichOneof("input"):
                    case "stdin" if not closed:
                        await process.stdin(message.stdin)
                    case "close_stdin" if not closed:
                        closed = True
                        await process.close_stdin()
                    case "resize" if wanted.tty:
                        await process.resize(message.resize.width, message.resize.height)
            if not closed:
                await process.close_stdin()
        except ConnectionError:
            log.debug("a process reads no more")  # how it ended is among its outputs

    reading = spawn(inputs(), name="inputs of a process")
    try:
        await context.write(streams_v1_pb2.StreamOutput(opened=True))
        try:
            async with contextlib.aclosing(process.outputs()) as outputs:
                async for name, data in outputs:
                    await context.write(_output(name, data))
        except RuntimeFailure as error:
            failure = errors.InternalError(str(error)).to_status()
            await context.write(streams_v1_pb2.StreamOutput(status=codec.to_json_bytes(failure)))
    finally:
        await _end(reading)
        await process.close()


async def serve_port(context: Any, port: PortStreams) -> None:
    """Move bytes between a client and a port until the pod's side ends or the client is gone."""

    async def inputs() -> None:
        closed = False
        try:
            while (message := await context.read()) is not EOF:
                match message.WhichOneof("input"):
                    case "data" if not closed:
                        await port.write(message.data)
                    case "close" if not closed:
                        closed = True
                        await port.write_eof()
            if not closed:
                await port.write_eof()
        except ConnectionError:
            log.debug("a port takes no more")

    reading = spawn(inputs(), name="inputs of a port")
    try:
        await context.write(streams_v1_pb2.ForwardOutput(opened=True))
        while data := await port.read():
            await context.write(streams_v1_pb2.ForwardOutput(data=data))
        failure = await port.failure()
        if failure:
            await context.write(streams_v1_pb2.ForwardOutput(error=failure))
        else:
            await context.write(streams_v1_pb2.ForwardOutput(closed=True))
    finally:
        await _end(reading)
        await port.close()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _output(name: str, data: bytes) -> streams_v1_pb2.StreamOutput:
    output = streams_v1_pb2.StreamOutput()
    setattr(output, name, data)
    return output
