"""Free TCP ports."""

from __future__ import annotations

import socket
from collections.abc import Iterable


def is_free(port: int) -> bool:
    """Return whether a port can be listened on at every address of this machine."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def free_ports(count: int, *, preferred: Iterable[int] = ()) -> list[int]:
    """Return `count` different free ports: the preferred ones where they are free, else random ones."""
    wanted = list(preferred)
    chosen: list[int] = []
    holders: list[socket.socket] = []
    try:
        for index in range(count):
            port = wanted[index] if index < len(wanted) and is_free(wanted[index]) else 0
            if not port:
                holder = socket.socket()
                holder.bind(("127.0.0.1", 0))
                holders.append(holder)  # held until the end, so that no port comes twice
                port = holder.getsockname()[1]
            chosen.append(port)
    finally:
        for holder in holders:
            holder.close()
    return chosen
