"""Host and port as one text, as addresses are written everywhere (RFC 3986, 3.2.2)."""

from __future__ import annotations


def join(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
