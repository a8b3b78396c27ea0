"""The wire format against bytes that were recorded, and against bytes that nobody should send."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.spdy import frames

FRAMES = [
    frames.SynStream(1, {"streamtype": "error", "x": ""}),
    frames.SynReply(1, {}),
    frames.SynStream(3, {"streamtype": "data", "port": "8080", "requestid": "0"}, fin=True),
    frames.Headers(3, {"ünusual": "wert"}, fin=True),
    frames.Data(1, b"hello"),
    frames.Data(1, b"", fin=True),
    frames.RstStream(3, frames.CANCEL),
    frames.Ping(7),
    frames.GoAway(3, 1),
]


def test_dictionary_is_the_protocols() -> None:
    assert (len(frames.DICTIONARY), zlib.adler32(frames.DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_bytes_of_frames() -> None:
    encoder = frames.Encoder()
    assert encoder.encode(frames.Data(5, b"abc", fin=True)) == bytes.fromhex("0000000501000003") + b"abc"
    assert encoder.encode(frames.Ping(1)) == bytes.fromhex("800300060000000400000001")
    assert encoder.encode(frames.RstStream(3, 5)) == bytes.fromhex("80030003000000080000000300000005")
    assert encoder.encode(frames.GoAway(3)) == bytes.fromhex("80030007000000080000000300000000")
    begun = encoder.encode(frames.SynStream(1, {"streamtype": "error"}))
    assert begun[:4] == bytes.fromhex("80030001")
    assert begun[8:18] == bytes.fromhex("00000001000000000000")
    assert begun[18:24] == bytes.fromhex("78bbe3c6a7c2"), "zlib with the protocol's dictionary"


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_frames_survive_any_cutting(sizes: list[int]) -> None:
    encoder, decoder = frames.Encoder(), frames.Decoder()
    wire = b"".join(map(encoder.encode, FRAMES))
    found: list[frames.Frame] = []
    at = 0
    while at < len(wire):
        for size in sizes:
            found += decoder.feed(wire[at : at + size])
            at += size
    joined: list[frames.Frame] = []
    for frame in found:
        last = joined[-1] if joined else None
        if isinstance(frame, frames.Data) and isinstance(last, frames.Data) and frame.data and not last.fin:
            joined[-1] = frames.Data(frame.stream, last.data + frame.data, frame.fin)
        else:
            joined.append(frame)
    assert joined == FRAMES


def test_data_is_handed_over_as_it_comes() -> None:
    decoder = frames.Decoder()
    head = struct.pack(">II", 1, frames.FIN << 24 | 10)
    assert list(decoder.feed(head + b"abc")) == [frames.Data(1, b"abc")]
    assert list(decoder.feed(b"defghij")) == [frames.Data(1, b"defghij", fin=True)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes.fromhex("80020001") + bytes(4), "version 2"),
        (bytes.fromhex("8003000100ffffff"), "16777215 bytes"),
        (bytes.fromhex("8003000300000002") + b"ab", "too short"),
        (bytes.fromhex("800300010000000e") + bytes(10) + b"junk", "unfolded"),
    ],
)
def test_what_is_no_spdy(data: bytes, text: str) -> None:
    with pytest.raises(frames.SpdyError, match=text):
        list(frames.Decoder().feed(data))


def _syn_stream(plain: bytes) -> bytes:
    fold = zlib.compressobj(zdict=frames.DICTIONARY)
    payload = bytes.fromhex("00000001000000000000") + fold.compress(plain) + fold.flush(zlib.Z_SYNC_FLUSH)
    return struct.pack(">HHI", 0x8003, 1, len(payload)) + payload


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        struct.pack(">I", 1),
        struct.pack(">II", 1, 1 << 31) + b"x",
        struct.pack(">I", 1 << 31),
        struct.pack(">II", 1, 1) + b"\xff" + struct.pack(">I", 0),
        bytes(10 << 20),
    ],
    ids=["empty", "no name", "long name", "many", "no UTF-8", "unfolds to megabytes"],
)
def test_headers_that_lie(plain: bytes) -> None:
    decoder = frames.Decoder()
    data = _syn_stream(plain)
    if plain == bytes(10 << 20):
        assert len(data) < frames.MAX_CONTROL
    with pytest.raises(frames.SpdyError):
        list(decoder.feed(data))
