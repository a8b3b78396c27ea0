"""Both ends of a connection in one process, joined by a pipe in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.spdy import Session, Stream, StreamReset, frames
from wharfinger.spdy.session import HIGH_WATER, MAX_HELD, MAX_HELD_HEADERS, MAX_STREAMS


class Pipe:
    """One end of a pair; `room` bytes may be on the way."""

    def __init__(self, room: int = 64 << 10) -> None:
        self.other: Pipe
        self._room = room
        self._pieces = bytearray()
        self._closed = False
        self._changed = asyncio.Condition()

    @classmethod
    def pair(cls) -> tuple[Pipe, Pipe]:
        one, two = cls(), cls()
        one.other, two.other = two, one
        return one, two

    async def read(self) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: self._pieces or self._closed)
            data = bytes(self._pieces)
            self._pieces.clear()
            self._changed.notify_all()
            return data

    async def write(self, data: bytes) -> None:
        other = self.other
        async with other._changed:
            await other._changed.wait_for(lambda: len(other._pieces) < other._room or other._closed)
            if other._closed:
                raise ConnectionResetError
            other._pieces += data
            other._changed.notify_all()

    async def close(self) -> None:
        for end in (self, self.other):
            async with end._changed:
                end._closed = True
                end._changed.notify_all()


@pytest_asyncio.fixture
async def ends() -> AsyncIterator[tuple[Session, Session]]:
    one, two = Pipe.pair()
    async with Session(one, server=False) as client, Session(two, server=True) as server:
        yield client, server
        await one.close()


async def begin(client: Session, server: Session, **headers: str) -> tuple[Stream, Stream]:
    ours = await client.open(headers)
    theirs = await server.accept()
    assert theirs is not None
    await theirs.reply({"a": "b"})
    assert await ours.answer == {"a": "b"}
    return ours, theirs


async def everything(stream: Stream) -> bytes:
    return b"".join([data async for data in stream])


async def test_streams_go_both_ways_and_end_each_on_its_own(ends: tuple[Session, Session]) -> None:
    client, server = ends
    ours, theirs = await begin(client, server, streamtype="data")
    assert theirs.headers == {"streamtype": "data"}
    data = bytes(range(256)) * 4096
    async with asyncio.TaskGroup() as group:
        group.create_task(_send(ours, data))
        assert await everything(theirs) == data
    await theirs.write(b"and back")
    await theirs.close()
    assert await everything(ours) == b"and back"
    assert not client._streams
    assert not server._streams


async def _send(stream: Stream, data: bytes) -> None:
    await stream.write(data)
    await stream.close()


async def test_many_at_once(ends: tuple[Session, Session]) -> None:
    client, server = ends
    pairs = [await begin(client, server) for _ in range(50)]

    async def echo(theirs: Stream) -> None:
        async for data in theirs:
            await theirs.write(data)
        await theirs.close()

    async with asyncio.TaskGroup() as group:
        for index, (ours, theirs) in enumerate(pairs):
            group.create_task(echo(theirs))
            group.create_task(_send(ours, b"%d" % index * 1000))
        for index, (ours, _) in enumerate(pairs):
            assert await everything(ours) == b"%d" % index * 1000


async def test_a_stream_that_is_reset_ends_alone(ends: tuple[Session, Session]) -> None:
    client, server = ends
    ours, theirs = await begin(client, server)
    others = await begin(client, server)
    await theirs.reset()
    with pytest.raises(StreamReset, match="status 5"):
        await ours.read()
    with pytest.raises(StreamReset):
        await ours.write(b"x")
    await others[0].write(b"still there")
    assert await others[1].read() == b"still there"


async def test_what_came_before_a_reset_can_be_read(ends: tuple[Session, Session]) -> None:
    client, server = ends
    ours, theirs = await begin(client, server)
    await theirs.write(b"last words")
    await theirs.reset()
    other = await begin(client, server)  # so the reset has arrived
    await other[1].write(b"x")
    assert await other[0].read() == b"x"
    assert await ours.read() == b"last words"
    with pytest.raises(StreamReset):
        await ours.read()


async def test_the_end_of_the_connection_is_the_end_of_its_streams() -> None:
    one, two = Pipe.pair()
    async with Session(one, server=False) as client, Session(two, server=True) as server:
        ours, theirs = await begin(client, server)
        await theirs.write(b"last words")
        await asyncio.wait_for(_held(ours), 5)
        await one.close()
        assert await everything(ours) == b"last words"
        assert await everything(theirs) == b""
        with pytest.raises(ConnectionError):
            await theirs.write(b"x")
        assert await server.accept() is None
        assert await server.accept() is None
        await client.wait()


async def _held(stream: Stream) -> None:
    while not stream._held:
        await asyncio.sleep(0)


async def test_what_is_not_read_is_not_taken(ends: tuple[Session, Session]) -> None:
    client, server = ends
    ours, theirs = await begin(client, server)
    writing = asyncio.create_task(ours.write(bytes(8 << 20)))
    done, _ = await asyncio.wait([writing], timeout=0.3)
    assert not done
    assert theirs._held < HIGH_WATER + (64 << 10)
    size = 0
    while size < 8 << 20:
        size += len(await theirs.read())
    await writing


async def test_pings_are_answered() -> None:
    one, two = Pipe.pair()
    encoder, decoder = frames.Encoder(), frames.Decoder()
    async with Session(two, server=True):
        await one.write(encoder.encode(frames.Ping(2)) + encoder.encode(frames.Ping(3)))
        assert list(decoder.feed(await one.read())) == [frames.Ping(3)], "an even one would be our own"


async def test_too_many_streams_are_refused() -> None:
    one, two = Pipe.pair()
    encoder, decoder = frames.Encoder(), frames.Decoder()
    async with Session(two, server=True):
        for index in range(MAX_STREAMS + 1):
            await one.write(encoder.encode(frames.SynStream(2 * index + 1)))
        refused = frames.RstStream(2 * MAX_STREAMS + 1, frames.REFUSED_STREAM)
        assert list(decoder.feed(await one.read())) == [refused]


@pytest.mark.parametrize("numbers", [[2], [0], [3, 1], [1, 1]])
async def test_numbers_out_of_turn_end_the_connection(numbers: list[int]) -> None:
    one, two = Pipe.pair()
    encoder = frames.Encoder()
    async with Session(two, server=True) as server:
        for number in numbers:
            await one.write(encoder.encode(frames.SynStream(number)))
        await asyncio.wait_for(server.wait(), 5)
        assert isinstance(server.error, frames.SpdyError)
        farewell = frames.GoAway(max(numbers[:-1], default=0), frames.PROTOCOL_ERROR)
        assert list(frames.Decoder().feed(await one.read())) == [farewell]


async def test_streams_that_are_begun_and_broken_off_at_once_do_not_pile_up() -> None:
    one, two = Pipe.pair()
    encoder, decoder = frames.Encoder(), frames.Decoder()
    async with Session(two, server=True) as server:
        for index in range(MAX_STREAMS + 1):
            await one.write(encoder.encode(frames.SynStream(2 * index + 1)))
            await one.write(encoder.encode(frames.RstStream(2 * index + 1, frames.CANCEL)))
        refused = frames.RstStream(2 * MAX_STREAMS + 1, frames.REFUSED_STREAM)
        assert list(decoder.feed(await one.read())) == [refused]
        assert not server._streams


@pytest.mark.parametrize("broken_off", [False, True])
async def test_headers_that_unfold_to_much_are_held_up_to_a_bound(broken_off: bool) -> None:
    """Fifty bytes on the wire unfold to tens of thousands; nobody accepts these streams."""
    one, two = Pipe.pair()
    encoder, decoder = frames.Encoder(), frames.Decoder()
    size = 32 << 10
    async with Session(two, server=True) as server:
        for index in range(MAX_HELD_HEADERS // size + 4):
            await one.write(encoder.encode(frames.SynStream(2 * index + 1, {"x": "a" * size})))
            if broken_off:
                await one.write(encoder.encode(frames.RstStream(2 * index + 1, frames.CANCEL)))
        await one.write(encoder.encode(frames.Ping(1)))
        answers: list[frames.Frame] = []
        while frames.Ping(1) not in answers:
            answers += decoder.feed(await one.read())
        assert frames.RstStream(2 * (MAX_HELD_HEADERS // size) + 5, frames.REFUSED_STREAM) in answers or broken_off
        held = [*server._streams.values()]
        while not server._arrived.empty():
            held.append(server._arrived.get_nowait() or held[0])
        assert sum(len(value) for stream in set(held) for value in stream.headers.values()) <= MAX_HELD_HEADERS


async def test_all_streams_together_hold_up_to_a_bound_and_go_on_when_read(ends: tuple[Session, Session]) -> None:
    client, server = ends
    pairs = [await begin(client, server) for _ in range(2 * MAX_HELD // HIGH_WATER)]
    data = bytes(HIGH_WATER // 2)
    sending = [asyncio.create_task(ours.write(data * 2)) for ours, _ in pairs]
    while server._room.is_set():
        await asyncio.sleep(0)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert server._held < MAX_HELD + HIGH_WATER

    async def took(stream: Stream) -> int:
        size = 0
        while size < 2 * len(data):
            size += len(await stream.read())
        return size

    assert set(await asyncio.gather(*(took(theirs) for _, theirs in pairs))) == {2 * len(data)}
    await asyncio.gather(*sending)
    assert server._held == 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_end_in_order(junk: bytes, begun: bool) -> None:
    """Whatever comes, the connection goes on or ends with SpdyError; nothing else escapes."""

    async def feed() -> None:
        one, two = Pipe.pair()
        encoder = frames.Encoder()
        async with Session(two, server=True) as server:
            if begun:
                await one.write(encoder.encode(frames.SynStream(1, {"streamtype": "data"})))
            await one.write(junk)
            await one.close()
            await asyncio.wait_for(server.wait(), 5)
            assert server._task is not None
            assert server._task.exception() is None
            assert server.error is None or isinstance(server.error, frames.SpdyError | ConnectionError)

    asyncio.run(feed())
