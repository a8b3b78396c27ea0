"""The wire format of SPDY/3.1: bytes to frames and back, without any input or output.

::

    control: 1 | version 3 (15) | type (16) || flags (8) | length (24) || …
    data:    0 | stream (31)                || flags (8) | length (24) || …

Headers are compressed by one zlib stream a direction, which both sides prime with the same dictionary; so a header
block that cannot be read ends the connection. Data is handed over as it comes, not when its frame is complete: only the
last piece bears `fin`. What one frame or header block may take of memory is bounded. (The SPDY protocol, draft 3.1,
section 2.)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

VERSION = 3
FIN = 0x01
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL, INTERNAL_ERROR = 1, 2, 3, 5, 6
"""Status codes of RST_STREAM."""
MAX_CONTROL = 64 << 10
"""Bytes of one control frame: ours and Kubernetes' headers take a few hundred."""
MAX_HEADERS = 64 << 10
"""Bytes of one header block once it is unfolded: ours and Kubernetes' take a few hundred."""
_MAX_DATA = 0xFFFFFF


class _Type(IntEnum):
    """Types of control frames that are understood here."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_WORDS.split(), *_MORE_WORDS)) + _TEXT.encode()
)
"""What both sides' compression begins with; the protocol defines it (1,423 bytes, Adler-32 e3c6a7c2)."""


class SpdyError(Exception):
    """Raised when what the peer sends is no SPDY/3.1, or too large; the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class _WithHeaders:
    stream: int
    headers: Mapping[str, str] = field(default_factory=dict)
    fin: bool = False


@dataclass(frozen=True, slots=True)
class SynStream(_WithHeaders):
    """A stream begins."""


@dataclass(frozen=True, slots=True)
class SynReply(_WithHeaders):
    """A stream is taken on."""


@dataclass(frozen=True, slots=True)
class Headers(_WithHeaders):
    """More headers of a stream."""


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; with `fin` the last ones."""

    stream: int
    data: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class RstStream:
    """A stream is broken off."""

    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To be sent back by whoever did not begin it."""

    id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """No more streams will be taken on."""

    last: int
    status: int = 0


@dataclass(frozen=True, slots=True)
class Other:
    """A frame that needs no answer: SETTINGS, WINDOW_UPDATE, or a kind that is unknown."""

    type: int


Frame = SynStream | SynReply | Headers | Data | RstStream | Ping | GoAway | Other


class Decoder:
    """Bytes of one direction to frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._unfold = zlib.decompressobj(zdict=DICTIONARY)
        self._stream = 0
        self._left = 0
        """Bytes of the data frame under way that have not come yet."""
        self._fin = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete by now. Raises SpdyError."""
        self._buffer += data
        while True:
            if self._left:
                if not self._buffer:
                    return
                yield self._piece()
                continue
            if len(self._buffer) < 8:
                return
            first, second = struct.unpack_from(">II", self._buffer)
            flags, length = second >> 24, second & _MAX_DATA
            if not first & 0x80000000:
                del self._buffer[:8]
                self._stream, self._left, self._fin = first, length, bool(flags & FIN)
                if not length:
                    yield Data(first, b"", self._fin)
                continue
            if (first >> 16) & 0x7FFF != VERSION:
                raise SpdyError(f"version {(first >> 16) & 0x7FFF} of SPDY is not spoken here, 3 is")
            if length > MAX_CONTROL:
                raise SpdyError(f"a control frame of {length} bytes: at most {MAX_CONTROL} are taken")
            if len(self._buffer) < 8 + length:
                return
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            yield self._control(first & 0xFFFF, flags, payload)

    def _piece(self) -> Data:
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: len(piece)]
        self._left -= len(piece)
        return Data(self._stream, piece, self._fin and not self._left)

    def _control(self, kind: int, flags: int, payload: bytes) -> Frame:
        try:
            match kind:
                case _Type.SYN_STREAM:  # stream, associated stream, priority and slot, headers
                    (stream,) = struct.unpack_from(">I", payload)
                    return SynStream(stream & 0x7FFFFFFF, self._headers(payload[10:]), bool(flags & FIN))
                case _Type.SYN_REPLY:
                    (stream,) = struct.unpack_from(">I", payload)
                    return SynReply(stream & 0x7FFFFFFF, self._headers(payload[4:]), bool(flags & FIN))
                case _Type.HEADERS:
                    (stream,) = struct.unpack_from(">I", payload)
                    return Headers(stream & 0x7FFFFFFF, self._headers(payload[4:]), bool(flags & FIN))
                case _Type.RST_STREAM:
                    stream, status = struct.unpack_from(">II", payload)
                    return RstStream(stream & 0x7FFFFFFF, status)
                case _Type.PING:
                    return Ping(struct.unpack_from(">I", payload)[0])
                case _Type.GOAWAY:
                    last, status = struct.unpack_from(">II", payload)
                    return GoAway(last & 0x7FFFFFFF, status)
        except struct.error as error:
            raise SpdyError(f"a control frame of type {kind} is too short: {len(payload)} bytes") from error
        return Other(kind)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._unfold.decompress(block, MAX_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be unfolded: {error}") from error
        if self._unfold.unconsumed_tail:
            raise SpdyError(f"headers of more than {MAX_HEADERS} bytes")
        found: dict[str, str] = {}
        try:
            (count,) = struct.unpack_from(">I", plain)
            at = 4
            for _ in range(count):
                name, at = _text(plain, at)
                found[name.lower()], at = _text(plain, at)
        except (struct.error, UnicodeDecodeError) as error:
            raise SpdyError(f"headers cannot be read: {error}") from error
        return found


def _text(plain: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", plain, at)
    end = at + 4 + length
    if end > len(plain):
        raise SpdyError("headers end in the middle of a name or value")
    return plain[at + 4 : end].decode(), end


class Encoder:
    """Frames to bytes of one direction. The order in which headers are encoded is the order in which to send them."""

    def __init__(self) -> None:
        self._fold = zlib.compressobj(zdict=DICTIONARY)

    def encode(self, frame: Frame) -> bytes:
        """Return a frame's bytes. Raises ValueError for data that needs several frames, or a kind that is not sent."""
        match frame:
            case Data():
                if len(frame.data) > _MAX_DATA:
                    raise ValueError(f"{len(frame.data)} bytes of data do not fit into one frame")
                return struct.pack(">II", frame.stream, (FIN if frame.fin else 0) << 24 | len(frame.data)) + frame.data
            case SynStream():
                head = struct.pack(">IIH", frame.stream, 0, 0)
                return _control(_Type.SYN_STREAM, head + self._headers(frame.headers), fin=frame.fin)
            case SynReply():
                head = struct.pack(">I", frame.stream)
                return _control(_Type.SYN_REPLY, head + self._headers(frame.headers), fin=frame.fin)
            case Headers():
                head = struct.pack(">I", frame.stream)
                return _control(_Type.HEADERS, head + self._headers(frame.headers), fin=frame.fin)
            case RstStream():
                return _control(_Type.RST_STREAM, struct.pack(">II", frame.stream, frame.status))
            case Ping():
                return _control(_Type.PING, struct.pack(">I", frame.id))
            case GoAway():
                return _control(_Type.GOAWAY, struct.pack(">II", frame.last, frame.status))
        raise ValueError(f"{frame} is not sent by us")

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        plain = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                plain += [struct.pack(">I", len(text)), text]
        return self._fold.compress(b"".join(plain)) + self._fold.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: _Type, payload: bytes, *, fin: bool = False) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, (FIN if fin else 0) << 24 | len(payload)) + payload
