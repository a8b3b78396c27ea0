"""exec, attach and port-forward by WebSocket, with an agent that a test can see into."""

from __future__ import annotations

import asyncio
import base64
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

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"


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


class Streams:
    """Opens streams of the pod ``web``."""

    def __init__(self, http: Http, namespace: str) -> None:
        self.http = http
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def path(self, subresource: str, *command: str, pod: str = "web", **query: Any) -> str:
        pairs = [("command", word) for word in command] + [(name, str(value)) for name, value in query.items()]
        return f"{self.pods}/{pod}/{subresource}?{urlencode(pairs)}"

    async def open(
        self,
        subresource: str,
        *command: str,
        protocols: tuple[str, ...] = (V5,),
        token: str = "admin-token",
        **query: Any,
    ) -> aiohttp.ClientWebSocketResponse:
        query.setdefault("stdout", "true")
        return await self.http.session.ws_connect(
            self.http.base + self.path(subresource, *command, **query),
            protocols=protocols, ssl=self.http.context, headers={"Authorization": f"Bearer {token}"}, max_msg_size=0,
        )  # fmt: skip


@pytest.fixture
def streams(http: Http, namespace: str, agent: FakeAgent) -> Streams:
    return Streams(http, namespace)


async def everything(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """What comes on each channel until the server closes."""
    found: dict[int, bytes] = {}
    async with asyncio.timeout(15):
        async for message in socket:
            found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


def status(found: dict[int, bytes]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(found[3])
    return value


async def test_outputs_and_exit_codes(streams: Streams) -> None:
    for protocols in ((V5, V4), (V4,), ("unknown", V5)):
        socket = await streams.open("exec", "say", "out", "err", stderr="1", protocols=protocols)
        assert socket.protocol == next(one for one in protocols if one != "unknown")
        found = await everything(socket)
        assert (found[1], found[2], status(found)["status"]) == (b"out", b"err", "Success")
        found = await everything(await streams.open("exec", "exit", "42", protocols=protocols))
        failure = status(found)
        assert failure["reason"] == "NonZeroExitCode"
        assert failure["details"]["causes"] == [{"reason": "ExitCode", "message": "42"}]


async def test_stdin_is_closed_by_v5(streams: Streams, agent: FakeAgent) -> None:
    socket = await streams.open("exec", "cat", stdin="true")
    for _ in range(20):
        await socket.send_bytes(b"\0" + b"x" * 30_000)
    await socket.send_bytes(b"\xff\0")
    found = await everything(socket)
    assert found[1] == b"x" * 600_000
    assert status(found)["status"] == "Success"
    attached = await streams.open("attach", stdin="true")
    await attached.send_bytes(b"\0hello")
    await attached.send_bytes(b"\xff\0")
    assert (await everything(attached))[1] == b"hello"
    older = await streams.open("exec", "cat", stdin="true", protocols=(V4,))
    await older.send_bytes(b"\0a")
    await older.send_bytes(b"\xff\0")
    await older.send_bytes(b"\0b")
    got = b""
    while got != b"ab":
        got += (await older.receive_bytes())[1:]
    await older.close()
    await agent.idle()


async def test_terminals_are_resized(streams: Streams) -> None:
    socket = await streams.open("exec", "sizes", "2", tty="true", stdin="true", stderr="true")
    for text in ('{"Width":80,"Height":24}', "nonsense", '{"Width":-1,"Height":1}', '{"Width":132,"Height":43}'):
        await socket.send_bytes(b"\4" + text.encode())
    found = await everything(socket)
    assert found[1] == b"80x24 132x43 "


async def test_older_subprotocols(streams: Streams) -> None:
    socket = await streams.open("exec", "cat", stdin="true", protocols=("v4.base64.channel.k8s.io",))
    await socket.send_str("0" + base64.b64encode(b"hi").decode())
    await socket.send_str("0***")
    assert (await socket.receive_str()) == "1"
    assert (await socket.receive_str()) == "1" + base64.b64encode(b"hi").decode()
    await socket.close()
    for protocols in ((), ("channel.k8s.io",)):
        found = await everything(await streams.open("exec", "exit", "3", protocols=protocols))
        assert found[3] == b"command terminated with non-zero exit code: exit status 3"
        assert 3 not in await everything(await streams.open("exec", "exit", "0", protocols=protocols))


async def test_refusals(streams: Streams, http: Http, agent: FakeAgent) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
               "Sec_WebSocket_Key": base64.b64encode(bytes(16)).decode()}  # fmt: skip

    async def refused(path: str, code: int, text: str, method: str = "GET", **headers: str) -> None:
        reply = await http.ask(method, path, **headers)
        assert (reply.status, reply.json["kind"]) == (code, "Status"), reply.body
        assert text in reply.json["message"]

    cat = streams.path("exec", "cat", stdout=1)
    for method in ("GET", "POST"):
        await refused(cat, 400, "Upgrade request required", method)
    for method in ("PUT", "DELETE", "PATCH"):
        await refused(cat, 405, method, method)
    await refused(cat, 400, "h2c", **upgrade | {"Upgrade": "h2c"})
    await refused(cat, 403, "subprotocols", **upgrade, Sec_WebSocket_Protocol="nonsense")
    await refused(cat, 400, "Sec-WebSocket-Key", **upgrade | {"Sec_WebSocket_Key": "short"})
    await refused(cat, 400, "Sec-WebSocket-Version", **upgrade | {"Sec_WebSocket_Version": "99"})
    await refused(streams.path("exec", stdout=1), 400, "command", **upgrade)
    await refused(streams.path("exec", "cat"), 400, "at least 1 of stdin", **upgrade)
    await refused(streams.path("exec", "cat", stdout="false"), 400, "at least 1 of stdin", **upgrade)
    await refused(streams.path("exec", "cat", stdout=1, container="x"), 400, "container x is not valid", **upgrade)
    await refused(streams.path("exec", "cat", stdout=1, pod="ghost"), 404, "ghost", **upgrade)
    refuse = streams.path("exec", "refuse", stdout=1)
    await refused(refuse, 404, "container not found", **upgrade, Sec_WebSocket_Protocol=V4)
    for ports in ("", "0", "x", "70000", "80,", ",".join(["80"] * 128)):
        await refused(streams.path("portforward", ports=ports), 400, "port", **upgrade, Sec_WebSocket_Protocol=V4)
    await refused(streams.path("portforward"), 400, "ports", **upgrade, Sec_WebSocket_Protocol=V4)
    assert [opened.command[0] for opened in agent.opened] == ["refuse"]


async def test_refusals_of_the_agent_reach_v5_on_its_error_channel(streams: Streams) -> None:
    failure = status(await everything(await streams.open("exec", "refuse")))
    assert (failure["reason"], failure["code"]) == ("NotFound", 404)
    found = await everything(await streams.open("exec", "crash"))
    assert found[1] == b"so far"
    assert status(found)["reason"] == "InternalError"


async def test_who_may(streams: Streams, http: Http, namespace: str, agent: FakeAgent) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await streams.open("exec", "cat", token="alice-token")
    assert caught.value.status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await streams.open("exec", "cat", token="nobody")
    assert caught.value.status == 401
    coded = base64.urlsafe_b64encode(b"admin-token").decode().rstrip("=")
    socket = await http.session.ws_connect(
        http.base + streams.path("exec", "exit", "0", stdout=1), ssl=http.context,
        protocols=[f"base64url.bearer.authorization.k8s.io.{coded}", V4],
    )  # fmt: skip
    assert socket.protocol == V4, "a browser's token is no subprotocol to choose"
    assert status(await everything(socket))["status"] == "Success"


async def test_hostile_messages_do_no_harm(streams: Streams, agent: FakeAgent) -> None:
    socket = await streams.open("exec", "cat", stdin="true")
    for message in (b"", b"\0", b"\1x", b"\7x", b"\xff", b"\xff\7", b"\xff\0\0", b"\xfe", b"\4" + b"[" * 100_000):
        await socket.send_bytes(message)
    await socket.send_str("\0as text")
    await socket.ping(b"there?")
    await socket.send_bytes(b"\xff\0")
    await socket.send_bytes(b"\xff\0")
    await socket.send_bytes(b"\0late")
    found = await everything(socket)
    assert found[1] == b"as text"
    await agent.idle()


@pytest.mark.parametrize("program", ["hang", "cat", "flood", "deaf"])
@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_client_that_leaves_ends_the_agents_side(
    streams: Streams, agent: FakeAgent, program: str, how: str
) -> None:
    socket = await streams.open("exec", program, stdin="true")
    await socket.receive_bytes()
    if program == "deaf":  # more than the streams' buffers hold and the kernel's do not: reading stands still
        for _ in range(48):
            await socket.send_bytes(b"\0" + bytes(1 << 16))
    if how == "close" and program != "deaf":
        await socket.close()
    else:
        transport = socket._response.connection.transport  # type: ignore[union-attr]
        transport.abort()
    await agent.idle()


async def test_a_client_that_never_reads_holds_up_only_itself(
    server: Apiserver, streams: Streams, agent: FakeAgent
) -> None:
    stalled = [await streams.open("exec", "flood") for _ in range(3)]
    before = -1
    while agent.sent != before:  # until nothing moves any more
        before = agent.sent
        await asyncio.sleep(0.3)
    assert agent.sent < 3 * (16 << 20)
    memory = psutil.Process(server.pid).memory_info().rss
    assert (await everything(await streams.open("exec", "say", "past", "them")))[1] == b"past"
    assert psutil.Process(server.pid).memory_info().rss - memory < 8 << 20
    for socket in stalled:
        socket._response.connection.transport.abort()  # type: ignore[union-attr]
    await agent.idle()


async def test_an_agent_that_dies_ends_the_clients_side(streams: Streams, agent: FakeAgent) -> None:
    socket = await streams.open("exec", "hang")
    await socket.receive_bytes()
    await agent.stop()
    assert status(await everything(socket))["reason"] == "ServiceUnavailable"


async def test_ports_by_channels(streams: Streams, agent: FakeAgent) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"<" + await reader.readexactly(5) + b">")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    free = await asyncio.start_server(serve, "127.0.0.1", 0)
    nobody = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    socket = await streams.open("portforward", ports=f"{port},{nobody}", protocols=(V4,))
    await socket.send_bytes(b"\0hello")
    await socket.send_bytes(b"\1ignored")
    await socket.send_bytes(b"\x09ignored")
    found = await everything(socket)
    first, second = port.to_bytes(2, "little"), nobody.to_bytes(2, "little")
    assert found[0] == first + b"<hello>"
    assert (found[1], found[2]) == (first, second)
    assert str(nobody).encode() in found[3][2:]
    listening.close()
    await agent.idle()


async def test_a_server_that_stops_says_so(
    server: Apiserver, http: Http, streams: Streams, agent: FakeAgent, namespace: str
) -> None:
    with Apiserver(server.etcd, folder=server.folder) as other:
        there = Streams(Http(http.session, f"https://127.0.0.1:{other.secure_port}", http.context), namespace)
        socket = await there.open("exec", "hang")
        older = await there.open("exec", "hang", protocols=(V4,))
        await socket.receive_bytes()
        while agent.running < 2:
            await asyncio.sleep(0.01)
        stopping = asyncio.create_task(asyncio.to_thread(other.stop))
        for one in (socket, older):
            assert status(await everything(one))["reason"] == "ServiceUnavailable"
        await stopping
    await agent.idle()
