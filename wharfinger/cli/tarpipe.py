"""Tar archives between local files and a stream to a container.

What comes from a container is not trusted. Names that lead out of the destination are left out, and so is everything
that is neither a file nor a folder: a link could make a later file land anywhere. Nor is anything written through a
link that stands in the destination already, and no file gets set-id bits.

:mod:`tarfile` blocks, so it works in a thread, and its file object lets the event loop do the reading and writing. So
nothing is held in memory but the piece that is under way.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli import remote
from wharfinger.cli.failures import CommandError, complain

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from wharfinger.client.streams import RemoteCommand

_PIECE = 64 << 10
_PERMISSIONS = 0o777


def prefix_of(path: str) -> str:
    """Return how tar names what stands at a path: without slashes and ``../`` at the beginning."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    while parts and parts[0] == "..":
        parts.pop(0)
    return "/".join(parts)


class _Loop:
    """Lets the event loop do something for a thread that waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


# --- there ------------------------------------------------------------------------------------------------------------


class _Sink(io.RawIOBase):
    """The stdin of the tar in the container."""

    def __init__(self, stream: RemoteCommand) -> None:
        self._stream = stream
        self._loop = _Loop()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self._loop.wait(self._stream.stdin(bytes(data))):
            raise BrokenPipeError("tar in the container has ended early")
        return len(data)


async def send(stream: RemoteCommand, source: Path, name: str) -> None:
    """Pack a file or folder as `name` into a stream's stdin. Raises OSError for what cannot be read."""
    sink = _Sink(stream)
    try:
        await asyncio.to_thread(pack, source, name, sink)
    except BrokenPipeError:
        return  # why, tar itself has said
    await stream.close_stdin()


def pack(source: Path, name: str, sink: io.RawIOBase) -> None:
    """Write an archive; links within a folder stay links, a link named itself is followed."""
    out = io.BufferedWriter(sink, _PIECE)
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source.resolve() if source.is_symlink() else source, arcname=name)
    out.flush()


# --- and back ---------------------------------------------------------------------------------------------------------


class _Source(io.RawIOBase):
    """The stdout of the tar in the container; its stderr is printed, its exit code kept."""

    def __init__(self, stream: RemoteCommand) -> None:
        self._outputs = stream.outputs()
        self._loop = _Loop()
        self._rest = b""
        self.status: bytes = b""
        self.received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = self._loop.wait(self._next())
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)

    async def _next(self) -> bytes:
        if not self.status:
            async for output in self._outputs:
                if output.stdout:
                    self.received += len(output.stdout)
                    return bytes(output.stdout)
                if output.stderr:
                    remote.write_out(2, output.stderr)
                if output.status:
                    self.status = output.status
        return b""

    async def drain(self) -> None:
        """Read to the end."""
        while await self._next():
            pass


async def receive(stream: RemoteCommand, prefix: str, destination: Path) -> int:
    """Unpack what a tar writes; returns its exit code. Raises CommandError, OSError."""
    from wharfinger.client.streams import exit_code

    source = _Source(stream)
    try:
        await asyncio.to_thread(unpack, source, prefix, destination)
    except tarfile.TarError as error:
        await source.drain()
        if source.received:
            raise CommandError(f"what tar in the container sends is no archive: {error}") from error
    await source.drain()
    code, message = exit_code(source.status)
    if code < 0:
        raise CommandError(message)
    return code


def unpack(source: io.RawIOBase, prefix: str, destination: Path) -> None:
    """Extract the files below `prefix` of an archive; `destination` takes the place of the prefix.

    Raises CommandError when the archive holds anything else, OSError for what cannot be written.
    """
    with tarfile.open(fileobj=io.BufferedReader(source, _PIECE), mode="r|") as archive:
        for member in archive:
            name = prefix_of(member.name) if not member.name.startswith("/") else member.name.strip("/")
            if prefix and name != prefix and not name.startswith(f"{prefix}/"):
                raise CommandError(f"tar contents corrupted: {member.name!r} is not below {prefix!r}")
            relative = name[len(prefix) :].strip("/")
            if ".." in member.name.split("/")[1:] or ".." in relative.split("/"):
                complain(f"warning: file {member.name!r} is outside target destination, skipping")
            elif member.isdir():
                _folder(destination, relative)
            elif member.isreg():
                _file(archive, member, destination, relative)
            else:
                complain(f"warning: {member.name!r} is a {_kind(member)}, skipping")


def _folder(destination: Path, relative: str) -> None:
    path = destination / relative
    if relative and not _inside(path.parent, destination):
        complain(f"warning: {str(path)!r} lies behind a link, skipping")
        return
    path.mkdir(parents=True, exist_ok=True)


def _file(archive: tarfile.TarFile, member: tarfile.TarInfo, destination: Path, relative: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    path = destination / relative
    if relative:
        if not _inside(path.parent, destination):
            complain(f"warning: {str(path)!r} lies behind a link, skipping")
            return
        flags |= os.O_NOFOLLOW  # only the path that the user has named may be a link
    elif destination.is_dir():
        path = destination / member.name.rpartition("/")[2]
        flags |= os.O_NOFOLLOW
    path.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    if content is None:
        raise CommandError(f"tar contents corrupted: {member.name!r} has no content")
    with os.fdopen(os.open(path, flags, member.mode & _PERMISSIONS), "wb") as out:
        shutil.copyfileobj(content, out, _PIECE)


def _inside(folder: Path, destination: Path) -> bool:
    """Tell whether a folder, wherever links lead, lies in the destination."""
    return folder.resolve().is_relative_to(destination.resolve())


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym():
        return "symlink"
    return "hard link" if member.islnk() else "device, pipe or socket"
