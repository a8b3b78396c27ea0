"""Files that somebody replaces while we run: looked at now and then, and used as soon as all of them fit together.

Files are compared by what stat says of them, which also sees a link that points elsewhere. They may be replaced one
after the other; until they are whole what was read before stays in use, and that is told of when they are still of
no use at the next look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(paths: Sequence[Path]) -> Stamp:
    """Return what tells one state of the files from another; None stands for a file that is not there."""
    return tuple(_stat(path) for path in paths)


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Follower:
    """Follows the files that `paths` returns, and calls `load` when they have changed.

    `load` reads them and takes what is new into use; OSError and ValueError say that they are of no use (yet).
    """

    def __init__(self, paths: Callable[[], Sequence[Path]], load: Callable[[], None], *, what: str) -> None:
        self._paths = paths
        self._load = load
        self._what = what
        self._seen = stamp_of(paths())
        self._refused: Stamp | None = None
        self._told = False

    def look(self) -> None:
        """Look once."""
        stamp = stamp_of(self._paths())
        if stamp == self._seen:
            self._refused = None
            return
        again = stamp == self._refused
        try:
            self._load()
        except (OSError, ValueError) as error:
            if again and not self._told:
                log.error("new files cannot be used", extra={"files": self._what, "error": str(error)})
                self._told = True
            elif not again:
                self._told = False
            self._refused = stamp
            return
        # What was replaced while it was read is read once more at the next look.
        self._seen, self._refused, self._told = stamp, None, False

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()


class Pair(NamedTuple):
    """What a client shows and believes, PEM."""

    ca: bytes | None
    cert: bytes | None
    key: bytes | None


class ClientFiles(NamedTuple):
    """The files of a client's authority, certificate and key; None: there is none."""

    ca: Path | None
    cert: Path | None
    key: Path | None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Those that there are."""
        return tuple(path for path in self if path is not None)

    def read(self) -> Pair:
        """Read all. Raises OSError, and ValueError when certificate and key do not belong together."""
        pair = Pair(*(path.read_bytes() if path is not None else None for path in self))
        if pair.cert is not None and pair.key is not None:
            check_pair(pair.cert, pair.key)
        return pair


def check_pair(cert: bytes, key: bytes) -> None:
    """Raise ValueError unless a certificate and a key, PEM, belong together."""
    descriptors = []
    try:
        # OpenSSL reads these from files only: files without a name, in memory, which nobody else sees.
        for content in (cert, key):
            descriptors.append(os.memfd_create("pair", os.MFD_CLOEXEC))
            os.write(descriptors[-1], content)
        first, second = (f"/proc/self/fd/{descriptor}" for descriptor in descriptors)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(first, second)
    except OSError as error:  # ssl.SSLError is one
        raise ValueError(f"certificate and key do not belong together, or are broken: {error}") from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
