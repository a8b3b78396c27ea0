"""A node agent of a test's own making: its streams do what the command says, without containers.

::

    agent = await FakeAgent.start(server.folder, "node-x")       # a certificate of the apiserver's authority
    await client.resource(core.Node).create(agent.node())

Programs: ``cat`` (stdin to stdout until stdin is closed), ``exit N``, ``say OUT ERR``, ``sizes N`` (prints N sizes),
``flood`` (writes without end), ``deaf`` (reads nothing), ``hang``, ``crash`` (the stream breaks), ``refuse``.
Everything else is run as a process of this host. Ports are those of this host.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio

from controlplane.apiserver.grpcfront.failures import abort
from wharfinger import pki
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.proto.native import streams_v1_pb2 as native
from wharfinger.proto.native import streams_v1_pb2_grpc

EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009
SUCCESS = {"metadata": {}, "status": "Success"}
CHUNK = bytes(32 << 10)


def exit_status(code: int) -> dict[str, Any]:
    """Return the Status of a process's end, as a kubelet makes it."""
    if code == 0:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class FakeAgent(streams_v1_pb2_grpc.StreamsServicer):
    """See the module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.opened: list[native.StreamOpen] = []
        self.running = 0
        """Streams under way."""
        self.sent = 0
        """Bytes that ``flood`` has got rid of."""
        self._server = grpc.aio.server()

    @classmethod
    async def start(cls, folder: Path, name: str) -> Self:
        """Listen with a certificate for the node's name."""
        agent = cls(name)
        made = pki.ensure_server(
            pki.load_ca(folder), folder, name, name=f"system:node:{name}", dns=[name, "localhost"], ips=["127.0.0.1"]
        )
        credentials = grpc.ssl_server_credentials(
            [(Path(made.key_path).read_bytes(), Path(made.cert_path).read_bytes())],
            root_certificates=(folder / "ca.crt").read_bytes(),
            require_client_auth=True,
        )
        streams_v1_pb2_grpc.add_StreamsServicer_to_server(agent, agent._server)
        agent.port = agent._server.add_secure_port("127.0.0.1:0", credentials)
        await agent._server.start()
        return agent

    async def stop(self) -> None:
        """End it at once."""
        await self._server.stop(None)

    def node(self) -> core.Node:
        """Return the Node whose agent this is."""
        made = core.Node()
        made.metadata.name = self.name
        made.status.addresses.add(type="InternalIP", address="127.0.0.1")
        made.status.daemonEndpoints.kubeletEndpoint.Port = self.port
        return made

    async def idle(self) -> None:
        """Wait until no stream is under way."""
        async with asyncio.timeout(10):
            while self.running:
                await asyncio.sleep(0.01)

    async def Exec(self, _: Any, context: Any) -> None:  # noqa: N802
        self.running += 1
        try:
            first = await context.read()
            self.opened.append(first.open)
            program, *arguments = first.open.command
            if program == "refuse":
                await abort(context, errors.NotFoundError('container not found ("c")'), "Exec")
            await context.write(native.StreamOutput(opened=True))
            built = getattr(self, f"_{program}", None)
            if built is not None:
                await built(context, arguments)
            else:
                await self._process(context, first.open)
        finally:
            self.running -= 1

    async def Attach(self, _: Any, context: Any) -> None:  # noqa: N802
        self.running += 1
        try:
            first = await context.read()
            self.opened.append(first.open)
            await context.write(native.StreamOutput(opened=True))
            await self._cat(context, [])
        finally:
            self.running -= 1

    async def _status(self, context: Any, status: dict[str, Any]) -> None:
        await context.write(native.StreamOutput(status=json.dumps(status).encode()))

    async def _cat(self, context: Any, _: list[str]) -> None:
        while (message := await context.read()) is not EOF:
            match message.WhichOneof("input"):
                case "stdin":
                    await context.write(native.StreamOutput(stdout=message.stdin))
                case "close_stdin":
                    break
        await self._status(context, SUCCESS)

    async def _exit(self, context: Any, arguments: list[str]) -> None:
        await self._status(context, exit_status(int(arguments[0])))

    async def _say(self, context: Any, arguments: list[str]) -> None:
        await context.write(native.StreamOutput(stdout=arguments[0].encode()))
        await context.write(native.StreamOutput(stderr=arguments[1].encode()))
        await self._status(context, SUCCESS)

    async def _sizes(self, context: Any, arguments: list[str]) -> None:
        for _ in range(int(arguments[0])):
            size = (await context.read()).resize
            await context.write(native.StreamOutput(stdout=f"{size.width}x{size.height} ".encode()))
        await self._status(context, SUCCESS)

    async def _flood(self, context: Any, _: list[str]) -> None:
        while True:
            await context.write(native.StreamOutput(stdout=CHUNK))
            self.sent += len(CHUNK)

    async def _deaf(self, context: Any, _: list[str]) -> None:
        await asyncio.Event().wait()

    _hang = _deaf

    async def _crash(self, context: Any, _: list[str]) -> None:
        await context.write(native.StreamOutput(stdout=b"so far"))
        await abort(context, errors.InternalError("the runtime went away"), "Exec")

    async def _process(self, context: Any, wanted: native.StreamOpen) -> None:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(*wanted.command, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            await self._status(context, {"status": "Failure", "message": f"{wanted.command[0]}: {error.strerror}"})
            return
        lock = asyncio.Lock()

        async def output(reader: Any, name: str) -> None:
            while data := await reader.read(32 << 10):
                async with lock:
                    await context.write(native.StreamOutput(**{name: data}))

        feeding = asyncio.create_task(self._feed(context, process.stdin))
        try:
            await asyncio.gather(output(process.stdout, "stdout"), output(process.stderr, "stderr"))
            await self._status(context, exit_status(await process.wait()))
        finally:
            feeding.cancel()
            if process.returncode is None:
                process.kill()

    @staticmethod
    async def _feed(context: Any, stdin: Any) -> None:
        while (message := await context.read()) is not EOF:
            match message.WhichOneof("input"):
                case "stdin":
                    stdin.write(message.stdin)
                    await stdin.drain()
                case "close_stdin":
                    stdin.close()

    async def PortForward(self, _: Any, context: Any) -> None:  # noqa: N802
        self.running += 1
        try:
            wanted = (await context.read()).open
            await context.write(native.ForwardOutput(opened=True))
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", wanted.port)
            except OSError as error:
                await context.write(native.ForwardOutput(error=f"port {wanted.port}: {error.strerror}"))
                return
            await self._forward(context, reader, writer)
        finally:
            self.running -= 1

    async def _forward(self, context: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def upwards() -> None:
            while (message := await context.read()) is not EOF:
                if message.WhichOneof("input") == "data":
                    writer.write(message.data)
                    await writer.drain()
                else:
                    writer.write_eof()

        task = asyncio.create_task(upwards())
        try:
            while data := await reader.read(32 << 10):
                await context.write(native.ForwardOutput(data=data))
            await context.write(native.ForwardOutput(closed=True))
        finally:
            task.cancel()
            writer.close()
