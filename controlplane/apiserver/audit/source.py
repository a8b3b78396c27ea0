"""Where a request came from and how it was put, as far as its headers say."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from functools import lru_cache

HEADER = "Audit-Id"
_ID_LENGTH = 64
_VERSION = 0x4000_8000_0000_0000_0000
_RANDOM = ((1 << 128) - 1) & ~0xF000_C000_0000_0000_0000
_AGENT_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class Source:
    """Where a request came from, and how it was put."""

    uri: str
    ips: tuple[str, ...] = ()
    """The client's first, then those of the proxies between."""
    agent: str = ""
    audit_id: str = ""


def audit_id(given: str = "") -> str:
    """Return the id of a request: the one that a client or proxy has given it, or a new one."""
    if given and len(given) <= _ID_LENGTH and given.isascii() and given.isprintable():
        return given
    # A random UUID (RFC 9562, version 4); the library's own takes thrice the time.
    digits = f"{int.from_bytes(os.urandom(16)) & _RANDOM | _VERSION:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@lru_cache(maxsize=4096)
def agent(text: str) -> str:
    """Return what is recorded of a User-Agent."""
    text = written(text)
    return text if len(text) <= _AGENT_LENGTH else text[:_AGENT_LENGTH] + "...TRUNCATED"


@lru_cache(maxsize=4096)
def addresses(remote: str, forwarded: str = "", real: str = "") -> tuple[str, ...]:
    """Return where a request came from: what proxies say of it, then who sent it, as in Kubernetes.

    `forwarded` and `real` are the headers X-Forwarded-For and X-Real-Ip. Anybody can send them; only the last address
    is certain.
    """
    found = [one for one in map(_address, forwarded.split(",")) if one]
    if (one := _address(real)) and one not in found:
        found.append(one)
    if (one := _address(remote)) and (not found or found[-1] != one):
        found.append(one)
    return tuple(found)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip().partition("%")[0]))
    except ValueError:
        return ""


def written(sent: str) -> str:
    """Return what was sent as text that can be written down: bytes that are none become question marks."""
    return sent if sent.isascii() else sent.encode(errors="replace").decode()
