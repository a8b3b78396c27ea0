"""exec, attach and port-forward by SPDY/3.1, on connections of their own and tunnelled in WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import aiohttp
import psutil
import pytest
import pytest_asyncio

from tests.integration.httpfront.conftest import Http
from tests.support.agent import FakeAgent
from tests.support.apiserver import Apiserver
from wharfinger.api.types import core
from wharfinger.spdy import Session, Stream, StreamReset, frames

V1, V2, V3, V4 = "channel.k8s.io", "v2.channel.k8s.io", "v3.channel.k8s.io", "v4.channel.k8s.io"
FORWARD = "portforward.k8s.io"


@pytest_asyncio.fixture
async def agent(server: Apiserver, http: Http, namespace: str) -> AsyncIterator[FakeAgent]:
    """An agent, and on its node the pod ``web`` with one container."""
    agent = await FakeAgent.start(server.folder, f"node-{namespace}")
    async with server.client() as client:
        await client.resource(core.Node).create(agent.node())
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace, pod.spec.nodeName = "web", namespace, agent.name
        pod.spec.containers.add(name="c", image="registry.example/c:1")
        await client.resource(core.Pod).create(pod)
    yield agent
    await agent.stop()


class Refused(Exception):  # noqa: N818
    def __init__(self, status: int, document: Any) -> None:
        super().__init__(f"{status} {document}")
        self.status, self.document = status, document


class Wire:
    """A TLS connection that has left HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.protocol = ""

    async def read(self) -> bytes:
        return await self.reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class Tunnel:
    """A WebSocket that carries SPDY, each write in messages of a few bytes, as kubectl sends them."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        message = await self._socket.receive()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else b""

    async def write(self, data: bytes) -> None:
        for start in range(0, min(len(data), 40), 2):
            await self._socket.send_bytes(data[start : min(start + 2, 40)])
        if data[40:]:
            await self._socket.send_bytes(data[40:])


class Spdy:
    """Opens streams of the pod ``web``."""

    def __init__(self, http: Http, namespace: str) -> None:
        self.http = http
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    async def connect(
        self,
        subresource: str,
        *command: str,
        protocols: tuple[str, ...] = (V4,),
        upgrade: str = "SPDY/3.1",
        method: str = "POST",
        token: str = "admin-token",
        **query: Any,
    ) -> Wire:
        pairs = [("command", word) for word in command] + [(name, str(value)) for name, value in query.items()]
        port = int(self.http.base.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self.http.context)
        lines = [
            f"{method} {self.pods}/web/{subresource}?{urlencode(pairs)} HTTP/1.1", "Host: x", "Content-Length: 0",
            f"Authorization: Bearer {token}", "Connection: Upgrade", f"Upgrade: {upgrade}",
            *(f"X-Stream-Protocol-Version: {one}" for one in protocols),
        ]  # fmt: skip
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        wire = Wire(reader, writer)
        status = int(head.split()[1])
        headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        if status != 101:
            body = await reader.readexactly(int(headers["content-length"]))
            writer.close()
            raise Refused(status, json.loads(body))
        assert headers["upgrade"] == "spdy/3.1"
        wire.protocol = headers["x-stream-protocol-version"]
        return wire

    @contextlib.asynccontextmanager
    async def command(self, *command: str, subresource: str = "exec", **query: Any) -> AsyncIterator[dict[str, Any]]:
        """An open exec or attach: its streams by their type, and the session."""
        query.setdefault("stdout", "true")
        wire = await self.connect(subresource, *command, **query)
        async with Session(wire, server=False) as session:
            found: dict[str, Any] = {"session": session, "wire": wire}
            names = ["error", *(name for name in ("stdin", "stdout", "stderr") if name in query)]
            if "tty" in query:
                names.append("resize")
            for name in names:
                found[name] = await session.open({"streamType": name})
                await found[name].answer
            yield found
        wire.writer.close()

    @contextlib.asynccontextmanager
    async def forward(self, *, tunnel: bool) -> AsyncIterator[Session]:
        if not tunnel:
            wire = await self.connect("portforward", protocols=(FORWARD,))
            async with Session(wire, server=False) as session:
                yield session
            wire.writer.close()
            return
        socket = await self.http.session.ws_connect(
            f"{self.http.base}{self.pods}/web/portforward", ssl=self.http.context,
            protocols=["SPDY/3.1+portforward.k8s.io"], headers={"Authorization": "Bearer admin-token"},
        )  # fmt: skip
        assert socket.protocol == "SPDY/3.1+portforward.k8s.io"
        async with Session(Tunnel(socket), server=False) as session:
            yield session
        await socket.close()


@pytest.fixture
def spdy(http: Http, namespace: str, agent: FakeAgent) -> Spdy:
    return Spdy(http, namespace)


async def everything(stream: Stream) -> bytes:
    async with asyncio.timeout(15):
        return b"".join([data async for data in stream])


async def test_outputs_and_exit_codes(spdy: Spdy, agent: FakeAgent) -> None:
    async with spdy.command("say", "out", "err", stdout=1, stderr=1) as streams:
        assert await everything(streams["stdout"]) == b"out"
        assert await everything(streams["stderr"]) == b"err"
        assert json.loads(await everything(streams["error"]))["status"] == "Success"
    async with spdy.command("exit", "42") as streams:
        status = json.loads(await everything(streams["error"]))
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "42"}]
    for old in (V1, V2, V3):
        async with spdy.command("exit", "3", protocols=(old,)) as streams:
            assert b"exit status 3" in await everything(streams["error"])
        async with spdy.command("exit", "0", protocols=(old,)) as streams:
            assert await everything(streams["error"]) == b""
    async with spdy.command("crash", stdout=1) as streams:
        assert await everything(streams["stdout"]) == b"so far"
        assert json.loads(await everything(streams["error"]))["reason"] == "InternalError"
    await agent.idle()


async def test_stdin_and_terminals(spdy: Spdy, agent: FakeAgent) -> None:
    data = bytes(range(256)) * 4000
    for subresource, command in (("exec", ["cat"]), ("attach", [])):
        async with spdy.command(*command, subresource=subresource, stdin=1, stdout=1) as streams:
            async with asyncio.TaskGroup() as group:
                group.create_task(_send(streams["stdin"], data))
                assert await everything(streams["stdout"]) == data
            assert json.loads(await everything(streams["error"]))["status"] == "Success"
    async with spdy.command("sizes", "2", stdin=1, stdout=1, tty=1) as streams:
        await streams["resize"].write(b'{"Width":80,"Height":24}\n{"Width":13')
        await streams["resize"].write(b'2,"Height":43}\n')
        assert await everything(streams["stdout"]) == b"80x24 132x43 "
    await agent.idle()


async def _send(stream: Stream, data: bytes) -> None:
    await stream.write(data)
    await stream.close()


async def test_negotiation_and_refusals(spdy: Spdy) -> None:
    wire = await spdy.connect("exec", "hang", stdout=1, protocols=("v5.channel.k8s.io, v4.channel.k8s.io", V3))
    assert wire.protocol == V4
    wire.writer.transport.abort()
    for status, text, options in (
        (400, "X-Stream-Protocol-Version", {"protocols": ()}),
        (403, "negotiate", {"protocols": ("v9.channel.k8s.io",)}),
        (400, "h2c", {"upgrade": "h2c"}),
        (400, "at least 1 of stdin", {"stdout": "0"}),
        (404, "container not found", {"command": "refuse"}),
    ):
        given: dict[str, Any] = {"stdout": 1, "command": "cat", **options}
        with pytest.raises(Refused) as caught:
            await spdy.connect("exec", given.pop("command"), **given)
        assert caught.value.status == status
        assert text in caught.value.document["message"]


async def test_streams_that_are_not_expected_are_reset(spdy: Spdy, agent: FakeAgent) -> None:
    wire = await spdy.connect("exec", "say", "out", "err", stdout=1)
    async with Session(wire, server=False) as session:
        error = await session.open({"streamtype": "error"})
        for name in ("stdin", "error", "nonsense", ""):
            odd = await session.open({"streamtype": name})
            with pytest.raises(StreamReset):
                await odd.answer
        stdout = await session.open({"streamtype": "stdout"})
        await error.write(b"nobody wants this" * 100_000)
        assert await everything(stdout) == b"out"
    wire.writer.close()
    await agent.idle()


@pytest.mark.parametrize("program", ["hang", "cat", "flood"])
async def test_a_client_that_leaves_ends_the_agents_side(spdy: Spdy, agent: FakeAgent, program: str) -> None:
    async with spdy.command(program, stdin=1, stdout=1) as streams:
        assert agent.running == 1
        streams["wire"].writer.transport.abort()
        await agent.idle()


async def test_a_client_that_never_reads_holds_up_only_itself(server: Apiserver, spdy: Spdy, agent: FakeAgent) -> None:
    async with spdy.command("flood", stdout=1) as streams:
        before = -1
        while agent.sent != before:
            before = agent.sent
            await asyncio.sleep(0.3)
        assert agent.sent < 16 << 20
        memory = psutil.Process(server.pid).memory_info().rss
        async with spdy.command("say", "past", "it", stdout=1) as other:
            assert await everything(other["stdout"]) == b"past"
        assert psutil.Process(server.pid).memory_info().rss - memory < 8 << 20
        streams["wire"].writer.transport.abort()
    await agent.idle()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x80\x02\x00\x01\x00\x00\x00\x00",
        b"\x80\x03\x00\x01\x00\x00\x00\x0e" + bytes(10) + b"junk",
        b"\x80\x03\x00\x01\x00\xff\xff\xff" + bytes(100_000),
        frames.Encoder().encode(frames.SynStream(2, {"streamtype": "error"})),
    ],
    ids=["HTTP", "other version", "junk headers", "huge frame", "even number"],
)
async def test_hostile_bytes_end_the_connection_alone(spdy: Spdy, agent: FakeAgent, data: bytes) -> None:
    wire = await spdy.connect("exec", "hang", stdout=1)
    await wire.write(data)
    if data.startswith(b"GET"):
        wire.writer.write_eof() if wire.writer.can_write_eof() else wire.writer.transport.abort()
    else:
        async with asyncio.timeout(10):
            while await wire.read():
                pass
        wire.writer.close()
    await agent.idle()


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def pair(session: Session, port: Any, request: str = "0") -> tuple[Stream, Stream]:
    headers = {"port": str(port), "requestID": request}
    error = await session.open({**headers, "streamType": "error"})
    await error.close()
    return error, await session.open({**headers, "streamType": "data"})


@pytest.mark.parametrize("tunnel", [False, True], ids=["connection", "tunnel"])
async def test_ports(spdy: Spdy, agent: FakeAgent, tunnel: bool) -> None:
    async with echoing() as port, spdy.forward(tunnel=tunnel) as session:
        for number in range(5):
            error, data = await pair(session, port, str(number))
            sent = b"%d" % number * 50_000
            async with asyncio.TaskGroup() as group:
                group.create_task(_send(data, sent))
                assert await everything(data) == sent
            assert await everything(error) == b""
        pairs = [await pair(session, port, f"many-{number}") for number in range(20)]
        for number, (_, data) in enumerate(pairs):
            await data.write(b"%d" % number)
        for number, (_, data) in enumerate(pairs):
            assert await data.read() == b"%d" % number
            await data.close()
        error, data = await pair(session, port, "reset")
        await data.write(b"x")
        await data.read()
        await data.reset()
        assert await everything(error) == b"", "ends, as kubectl expects, which resets what it has read to its end"
        error, data = await pair(session, 1, "nobody")
        assert b"error forwarding port 1" in await everything(error)
        assert await everything(data) == b""
    await agent.idle()


async def test_port_streams_that_are_wrong_are_reset(spdy: Spdy, agent: FakeAgent) -> None:
    async with echoing() as port, spdy.forward(tunnel=False) as session:
        for headers in (
            {"streamtype": "data", "port": "0", "requestid": "1"},
            {"streamtype": "data", "port": "x", "requestid": "1"},
            {"streamtype": "data", "requestid": "1"},
            {"streamtype": "odd", "port": str(port), "requestid": "1"},
        ):
            with pytest.raises(StreamReset):
                await (await session.open(headers)).answer
        _, data = await pair(session, port, "good")
        again = await session.open({"streamtype": "data", "port": str(port), "requestid": "good"})
        with pytest.raises(StreamReset):
            await again.answer
        await data.write(b"still here")
        assert await data.read() == b"still here"
    await agent.idle()


async def test_who_may(spdy: Spdy, http: Http, namespace: str, agent: FakeAgent) -> None:
    """A GET takes the right to get and the one to create, a POST the latter."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    role: dict[str, Any] = {
        "metadata": {"name": "runner"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}],
    }
    assert (await http.ask("POST", f"{base}/roles", role)).status == 201
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
    binding = {"metadata": {"name": "runner"}, "roleRef": reference, "subjects": [subject]}
    assert (await http.ask("POST", f"{base}/rolebindings", binding)).status == 201
    asked = {"stdout": 1, "token": "alice-token"}
    with pytest.raises(Refused) as caught:
        await spdy.connect("exec", "exit", "0", method="GET", **asked)
    assert (caught.value.status, caught.value.document["reason"]) == (403, "Forbidden")
    with pytest.raises(Refused) as caught:
        await spdy.connect("attach", **asked)
    assert caught.value.status == 403
    (await spdy.connect("exec", "exit", "0", **asked)).writer.transport.abort()
    role["rules"][0]["verbs"] = ["get"]
    assert (await http.ask("PUT", f"{base}/roles/runner", role)).status == 200
    for method in ("GET", "POST"):
        with pytest.raises(Refused) as caught:
            await spdy.connect("exec", "exit", "0", method=method, **asked)
        assert caught.value.status == 403, "who may only look may not run anything"
    role["rules"][0]["verbs"] = ["get", "create"]
    assert (await http.ask("PUT", f"{base}/roles/runner", role)).status == 200
    (await spdy.connect("exec", "exit", "0", method="GET", **asked)).writer.transport.abort()
