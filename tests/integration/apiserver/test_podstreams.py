"""exec, attach and port-forward over gRPC, relayed to an agent that a test can see into."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.integration.apiserver.objects import node, pod
from tests.support.agent import FakeAgent
from tests.support.apiserver import Apiserver
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.client.streams import RemoteCommand, exit_code
from wharfinger.proto.native import streams_v1_pb2 as native


@pytest_asyncio.fixture
async def agent(server: Apiserver, client: Client, namespace: str) -> AsyncIterator[FakeAgent]:
    """An agent, and on its node the pod ``web`` with one container."""
    agent = await FakeAgent.start(server.folder, f"node-{namespace}")
    await client.resource(core.Node).create(agent.node())
    await client.resource(core.Pod).create(pod("web", namespace, node=agent.name))
    yield agent
    await agent.stop()


def wanted(namespace: str, *command: str, **more: Any) -> native.StreamOpen:
    return native.StreamOpen(**{"namespace": namespace, "pod": "web", "command": command, "stdout": True, **more})


async def everything(stream: RemoteCommand) -> tuple[bytes, bytes, int]:
    out, err, code = b"", b"", -1
    async for output in stream.outputs():
        out += output.stdout
        err += output.stderr
        if output.status:
            code, _ = exit_code(output.status)
    return out, err, code


async def test_exec(client: Client, namespace: str, agent: FakeAgent) -> None:
    async with await client.exec(wanted(namespace, "say", "out", "err", stderr=True)) as stream:
        assert await everything(stream) == (b"out", b"err", 0)
    opened = agent.opened[0]
    found = await client.resource(core.Pod).get("web", namespace=namespace)
    assert (opened.container, opened.uid) == ("c", found.metadata.uid), "the agent is told exactly what is meant"
    async with await client.exec(wanted(namespace, "exit", "42")) as stream:
        assert (await everything(stream))[2] == 42
    async with await client.exec(wanted(namespace, "cat", stdin=True)) as stream:
        await stream.stdin(b"a" * 100_000)
        await stream.close_stdin()
        assert await everything(stream) == (b"a" * 100_000, b"", 0)
    async with await client.exec(wanted(namespace, "sizes", "2", tty=True)) as stream:
        await stream.resize(80, 24)
        await stream.resize(132, 43)
        assert (await everything(stream))[0] == b"80x24 132x43 "
    await agent.idle()


async def test_attach(client: Client, namespace: str, agent: FakeAgent) -> None:
    async with await client.attach(wanted(namespace, stdin=True)) as stream:
        await stream.stdin(b"hello")
        await stream.close_stdin()
        assert await everything(stream) == (b"hello", b"", 0)


async def test_port_forward(client: Client, namespace: str, agent: FakeAgent) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"<" + await reader.read() + b">")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    asked = native.ForwardOpen(namespace=namespace, pod="web", port=port)
    async with await client.port_forward(asked) as connection:
        await connection.write(b"x" * 200_000)
        await connection.write_eof()
        outputs = [output async for output in connection.outputs()]
    assert b"".join(output.data for output in outputs) == b"<" + b"x" * 200_000 + b">"
    assert outputs[-1].closed
    listening.close()
    await listening.wait_closed()
    async with await client.port_forward(asked) as connection:
        outputs = [output async for output in connection.outputs()]
    assert f"port {port}" in outputs[-1].error
    with pytest.raises(errors.BadRequestError, match=r"open\.port"):
        await client.port_forward(native.ForwardOpen(namespace=namespace, pod="web", port=0))


async def test_what_is_wrong_is_said(client: Client, namespace: str, agent: FakeAgent) -> None:
    with pytest.raises(errors.BadRequestError, match="at least one command"):
        await client.exec(wanted(namespace))
    with pytest.raises(errors.BadRequestError, match="at least 1 of stdin"):
        await client.exec(wanted(namespace, "cat", stdout=False))
    with pytest.raises(errors.BadRequestError, match="one output"):
        await client.exec(wanted(namespace, "cat", tty=True, stderr=True))
    with pytest.raises(errors.BadRequestError, match="container other is not valid"):
        await client.exec(wanted(namespace, "cat", container="other"))
    with pytest.raises(errors.NotFoundError, match="ghost"):
        await client.exec(wanted(namespace, "cat", pod="ghost"))
    with pytest.raises(errors.ConflictError, match="another pod"):
        await client.exec(wanted(namespace, "cat", uid="old"))
    with pytest.raises(errors.NotFoundError, match="container not found"):
        await client.exec(wanted(namespace, "refuse"))
    await client.resource(core.Pod).create(pod("waiting", namespace))
    with pytest.raises(errors.BadRequestError, match="does not have a host assigned"):
        await client.exec(wanted(namespace, "cat", pod="waiting"))
    async with await client.exec(wanted(namespace, "crash")) as stream:
        with pytest.raises(errors.InternalError, match="the runtime went away"):
            await everything(stream)
    lost = node(f"lost-{namespace}")
    lost.status.addresses.add(type="InternalIP", address="127.0.0.1")
    lost.status.daemonEndpoints.kubeletEndpoint.Port = 1
    await client.resource(core.Node).create(lost)
    await client.resource(core.Pod).create(pod("lost", namespace, node=lost.metadata.name))
    with pytest.raises(errors.ServiceUnavailableError, match="cannot be reached"):
        await client.exec(wanted(namespace, "cat", pod="lost"))


async def test_containers_are_defaulted(client: Client, namespace: str, agent: FakeAgent) -> None:
    two = pod("two", namespace, node=agent.name)
    two.spec.containers.add(name="d", image="registry.example/d:1")
    await client.resource(core.Pod).create(two)
    with pytest.raises(errors.BadRequestError, match=r"choose one of: \[c d\]"):
        await client.exec(wanted(namespace, "exit", "0", pod="two"))
    two = pod("three", namespace, node=agent.name)
    two.spec.containers.add(name="d", image="registry.example/d:1")
    two.metadata.annotations["kubectl.kubernetes.io/default-container"] = "d"
    await client.resource(core.Pod).create(two)
    async with await client.exec(wanted(namespace, "exit", "0", pod="three")):
        assert agent.opened[-1].container == "d"


async def test_not_for_everybody(server: Apiserver, namespace: str, agent: FakeAgent) -> None:
    async with server.client("alice", ["devs"]) as alice:
        with pytest.raises(errors.ForbiddenError, match="pods/exec"):
            await alice.exec(wanted(namespace, "cat"))
        with pytest.raises(errors.ForbiddenError, match="pods/attach"):
            await alice.attach(wanted(namespace, stdin=True))
        with pytest.raises(errors.ForbiddenError, match="pods/portforward"):
            await alice.port_forward(native.ForwardOpen(namespace=namespace, pod="web", port=80))
    assert agent.opened == []


async def _fill(stream: RemoteCommand) -> None:
    while await stream.stdin(bytes(1 << 16)):
        pass


@pytest.mark.parametrize("program", ["hang", "cat", "flood", "deaf"])
async def test_a_client_that_leaves_ends_the_agents_side(
    client: Client, namespace: str, agent: FakeAgent, program: str
) -> None:
    stream = await client.exec(wanted(namespace, program, stdin=True))
    assert agent.running == 1
    if program == "deaf":
        filling = asyncio.create_task(_fill(stream))
        done, _ = await asyncio.wait([filling], timeout=0.5)
        assert not done, "a process that reads nothing holds up whoever writes"
        filling.cancel()
    stream.close()
    await agent.idle()


async def test_a_client_that_never_reads_holds_up_only_itself(
    server: Apiserver, client: Client, namespace: str, agent: FakeAgent
) -> None:
    stalled = [await client.exec(wanted(namespace, "flood")) for _ in range(3)]
    before = -1
    while agent.sent != before:  # until nothing moves any more
        before = agent.sent
        await asyncio.sleep(0.3)
    assert agent.sent < 3 * (16 << 20), "a few megabytes a stream, most of them with the client"
    memory = psutil.Process(server.pid).memory_info().rss
    async with server.client() as other, await other.exec(wanted(namespace, "cat", stdin=True)) as stream:
        await stream.stdin(b"past them")
        await stream.close_stdin()
        assert (await everything(stream))[0] == b"past them"
    assert psutil.Process(server.pid).memory_info().rss - memory < 8 << 20
    for stream in stalled:
        stream.close()
    await agent.idle()


async def test_an_agent_that_dies_ends_the_clients_side(client: Client, namespace: str, agent: FakeAgent) -> None:
    async with await client.exec(wanted(namespace, "hang")) as stream:
        await agent.stop()
        with pytest.raises(errors.ServiceUnavailableError):
            await everything(stream)
