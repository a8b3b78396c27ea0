"""The agent's end of the runtime's streaming server, against a server of our own that does what it should not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from nodeagent.cri import streaming
from nodeagent.runtime import RuntimeFailure, RuntimeUnavailable
from wharfinger.spdy import Session, Stream

Served = Callable[[Session, dict[str, Stream]], Awaitable[None]]
STATUS = json.dumps({"status": "Success"}).encode()


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65_536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


@contextlib.asynccontextmanager
async def server(answer: bytes, served: Served | None = None, *, streams: int = 3) -> AsyncIterator[str]:
    """Answer one request with `answer`, then accept streams and do with them what `served` does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST /exec/token HTTP/1.1\r\n")
        assert b"Upgrade: SPDY/3.1\r\n" in head
        writer.write(answer)
        if served is not None:
            async with Session(Wire(reader, writer), server=True) as session:
                found: dict[str, Stream] = {}
                while len(found) < streams and (stream := await session.accept()) is not None:
                    await stream.reply()
                    found[stream.headers["streamtype"]] = stream
                await served(session, found)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/exec/token"


UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"


@contextlib.asynccontextmanager
async def process(url: str, *, stdin: bool = True, stderr: bool = False) -> AsyncIterator[streaming.Process]:
    made = await streaming.Process.open(url, stdin=stdin, stdout=True, stderr=stderr, tty=False)
    try:
        yield made
    finally:
        await made.close()


async def everything(made: streaming.Process) -> list[tuple[str, bytes]]:
    return [output async for output in made.outputs()]


async def test_streams_that_are_reset_after_the_last_word() -> None:
    async def served(_: Session, streams: dict[str, Stream]) -> None:
        await streams["stdout"].write(b"out")
        await streams["error"].write(STATUS)
        for stream in streams.values():
            await stream.reset()

    async with server(UPGRADED, served) as url, process(url) as made:
        assert await everything(made) == [("stdout", b"out"), ("status", STATUS)]
        with pytest.raises(ConnectionError):
            await made.stdin(b"too late")


async def test_stdin_and_its_end_arrive() -> None:
    async def served(_: Session, streams: dict[str, Stream]) -> None:
        async for data in streams["stdin"]:
            await streams["stdout"].write(data.upper())
        await streams["stdout"].close()
        await streams["error"].write(STATUS)
        await streams["error"].close()

    async with server(UPGRADED, served) as url, process(url) as made:
        await made.stdin(b"a")
        await made.stdin(b"b")
        await made.close_stdin()
        found = await everything(made)
        assert b"".join(data for name, data in found if name == "stdout") == b"AB"
        assert found[-1] == ("status", STATUS)


async def test_server_that_ends_before_the_status() -> None:
    async def served(_: Session, streams: dict[str, Stream]) -> None:
        await streams["stdout"].write(b"so far")

    async with server(UPGRADED, served) as url, process(url) as made:
        outputs = made.outputs()
        assert await anext(outputs) == ("stdout", b"so far")
        with pytest.raises(RuntimeUnavailable, match="went away"):
            await anext(outputs)


async def test_who_stops_listening_leaves_no_task_behind() -> None:
    async def served(session: Session, streams: dict[str, Stream]) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await streams["stdout"].write(b"more and more")
                await asyncio.sleep(0)

    def pumping() -> list[str]:
        names = [task.get_name() for task in asyncio.all_tasks()]
        return [name for name in names if name.startswith("output")]

    async with server(UPGRADED, served, streams=4) as url, process(url, stderr=True) as made:
        outputs = made.outputs()
        assert (await anext(outputs))[0] == "stdout"
        assert pumping()
        await asyncio.sleep(0.05)  # by now the next output waits to be taken
        await outputs.aclose()
        assert not pumping()


async def test_status_that_waits_for_stdin_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_STALL_SECONDS", 0.1)

    async def served(session: Session, streams: dict[str, Stream]) -> None:
        await streams["stdout"].close()
        await session.wait()

    async with server(UPGRADED, served) as url, process(url) as made:
        feeding = asyncio.create_task(made.stdin(bytes(64 << 20)))
        with pytest.raises(RuntimeFailure, match="read its stdin"):
            await everything(made)
        feeding.cancel()
        await asyncio.wait([feeding])


async def test_refusal_is_told_in_the_servers_words() -> None:
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nno token\n"
    async with server(refusal) as url:
        with pytest.raises(RuntimeFailure, match=r"^no token$"):
            await streaming.Process.open(url, stdin=False, stdout=True, stderr=True, tty=False)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 101", b"x" * 100_000], ids=["nothing", "half", "endless"])
async def test_what_is_no_answer(answer: bytes) -> None:
    async with server(answer) as url:
        with pytest.raises(RuntimeUnavailable, match="does not answer"):
            await streaming.Process.open(url, stdin=False, stdout=True, stderr=True, tty=False)


async def test_servers_that_cannot_be_spoken_to() -> None:
    async with server(b"") as url:
        gone = url
    with pytest.raises(RuntimeUnavailable, match="does not answer"):
        await streaming.Port.open(gone, 80)
    with pytest.raises(RuntimeFailure, match="enable_tls_streaming"):
        await streaming.Port.open("https://127.0.0.1:10010/x", 80)


async def test_port_that_cannot_be_connected_to() -> None:
    async def served(_: Session, streams: dict[str, Stream]) -> None:
        assert streams["data"].headers == {"streamtype": "data", "port": "81", "requestid": "0"}
        await streams["error"].write(b"connection refused")
        for stream in streams.values():
            await stream.reset()

    async with server(UPGRADED, served, streams=2) as url:
        port = await streaming.Port.open(url, 81)
        assert await port.read() == b""
        assert await port.failure() == "connection refused"
        await port.close()
