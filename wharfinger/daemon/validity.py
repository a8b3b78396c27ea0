"""From when to when a certificate is good, and its number, read from its bytes.

Every daemon watches the ends of its certificates, and needs nothing else of them; cryptography, which reads all of a
certificate, would cost each process 8 MB. What is read here lies at fixed places of the structure (RFC 5280, 4.1).
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import NamedTuple

_INTEGER, _CONTEXT_0, _UTC_TIME, _GENERALIZED_TIME = 0x02, 0xA0, 0x17, 0x18


class Validity(NamedTuple):
    """See the module."""

    serial: int
    begins: datetime
    ends: datetime


def read(pem: bytes) -> Validity:
    """Read the first certificate of a PEM text. Raises ValueError when there is none, or it is broken."""
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    start = pem.find(begin)
    stop = pem.find(end, start)
    if start < 0 or stop < 0:
        raise ValueError("no certificate in PEM")
    der = ssl.PEM_cert_to_DER_cert(pem[start : stop + len(end)].decode("ascii"))
    try:
        _, whole, _ = _element(der)
        _, content, _ = _element(whole)
        tag, value, rest = _element(content)
        if tag == _CONTEXT_0:  # the version, which may be left out
            tag, value, rest = _element(rest)
        if tag != _INTEGER:
            raise ValueError("no serial number")
        _, _, rest = _element(rest)  # the signature's algorithm
        _, _, rest = _element(rest)  # the issuer
        _, validity, _ = _element(rest)
        first, begins, rest = _element(validity)
        second, ends, _ = _element(rest)
    except IndexError as error:
        raise ValueError("the certificate is cut off") from error
    return Validity(int.from_bytes(value, "big", signed=True), _time(first, begins), _time(second, ends))


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Split off the first element: its tag, its content, and what follows. Raises IndexError, ValueError."""
    tag, length, at = data[0], data[1], 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + length > len(data):
        raise ValueError("the certificate is cut off")
    return tag, data[at : at + length], data[at + length :]


def _time(tag: int, value: bytes) -> datetime:
    text = value.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: from 1950 on
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("the certificate's time is of no known kind")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
