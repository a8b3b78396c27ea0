"""Clients that begin only half of what belongs together, and agents that say what nobody asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controlplane.apiserver.httpfront import remotecommand, spdystreams
from tests.unit.spdy.test_session import Pipe, everything
from wharfinger.api import errors
from wharfinger.proto.native import streams_v1_pb2 as native
from wharfinger.spdy import Session


class Call:
    """An agent's call: gives what it was made with, and keeps what it gets."""

    target: Any = type("Target", (), {"agent": "the agent", "pod": "web"})()

    def __init__(self, *outputs: Any) -> None:
        self._outputs = list(outputs)
        self.inputs: list[bytes] = []
        self.cancelled = False

    async def read(self) -> bytes | None:
        if not self._outputs:
            return None
        output = self._outputs.pop(0)
        if isinstance(output, Exception):
            raise output
        data: bytes = output.SerializeToString()
        return data

    async def write(self, message: bytes) -> bool:
        self.inputs.append(message)
        return True

    def cancel(self) -> None:
        self.cancelled = True


async def never() -> None:
    await asyncio.Event().wait()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdystreams, "STREAM_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
async def test_a_command_whose_streams_do_not_come_is_given_up() -> None:
    one, two = Pipe.pair()
    wanted = native.StreamOpen(stdin=True, stdout=True)
    async with Session(one, server=False) as client, Session(two, server=True) as server:
        end = spdystreams.CommandEnd(server, wanted, spdystreams.V4)
        await client.open({"streamtype": "error"})
        assert not await end.begin()
        await one.close()


@pytest.mark.usefixtures("impatient")
async def test_a_forwarded_connection_without_its_other_half_ends_alone() -> None:
    one, two = Pipe.pair()

    async def begin(port: int) -> Any:
        raise AssertionError("no connection is opened for half a pair")

    async with Session(one, server=False) as client, Session(two, server=True) as server:
        serving = asyncio.create_task(spdystreams.forward(server, begin))
        error = await client.open({"streamtype": "error", "port": "80", "requestid": "0"})
        data = await client.open({"streamtype": "data", "port": "80", "requestid": "1"})
        assert b"did not come in time" in await everything(error)
        assert await everything(data) == b""
        await one.close()
        await serving


async def test_an_agent_that_refuses_a_port_is_quoted_on_the_error_stream() -> None:
    one, two = Pipe.pair()

    async def begin(port: int) -> Any:
        raise errors.NotFoundError(f"no port {port}")

    async with Session(one, server=False) as client, Session(two, server=True) as server:
        serving = asyncio.create_task(spdystreams.forward(server, begin))
        error = await client.open({"streamtype": "error", "port": "80"})
        await client.open({"streamtype": "data", "port": "80"})
        assert await everything(error) == b"error forwarding port 80: no port 80"
        await one.close()
        await serving


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([native.StreamOutput(stderr=b"not asked for"), native.StreamOutput(status=b'{"status":"Success"}')], ""),
        ([native.StreamOutput(stdout=b"x")], "InternalError"),
        ([errors.ServiceUnavailableError("gone")], "ServiceUnavailable"),
    ],
    ids=["unasked stderr", "no status", "broken off"],
)
async def test_whatever_the_agent_does_the_client_gets_a_status(outputs: list[Any], reason: str) -> None:
    one, two = Pipe.pair()
    async with Session(one, server=False) as client, Session(two, server=True) as server:
        error = await client.open({"streamtype": "error"})
        await client.open({"streamtype": "stdout"})
        end = spdystreams.CommandEnd(server, native.StreamOpen(stdout=True), spdystreams.V4)
        assert await end.begin()
        call: Any = Call(*outputs)
        await remotecommand.run(call, end, never())
        assert json.loads(await everything(error)).get("reason", "") == reason
        await one.close()


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b'{"Width":80,"Height":24}', (80, 24)),
        (b'{"Width":0,"Height":65535}', (0, 65535)),
        (b'{"Width":-1,"Height":24}', None),
        (b'{"Width":80,"Height":65536}', None),
        (b'{"Width":"80","Height":24}', None),
        (b'{"Width":true,"Height":24}', None),
        (b'{"Width":80}', None),
        (b"[]", None),
        (b"null", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_sizes(data: bytes, size: tuple[int, int] | None) -> None:
    found = remotecommand.resize_of(data)
    assert (None if found is None else (found.resize.width, found.resize.height)) == size
