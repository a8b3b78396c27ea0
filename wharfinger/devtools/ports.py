"""Free TCP ports."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

LOWEST, HIGHEST = 20_000, 32_000
"""Below the range from which the kernel takes ports for outgoing connections, which may take one first."""


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
    dice = random.SystemRandom()
    for index in range(count):
        port = wanted[index] if index < len(wanted) else 0
        while not port or port in chosen or not is_free(port):
            port = dice.randrange(LOWEST, HIGHEST)
        chosen.append(port)
    return chosen
