"""``wharf cp``: files between this machine and containers, by the ``tar`` in the container."""

from __future__ import annotations

import asyncio
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli import podtargets, remote, tarpipe
from wharfinger.cli.exec import Streams, check_running, opening
from wharfinger.cli.failures import CommandError, SilentExit, complain
from wharfinger.cli.reporting import needs
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from wharfinger.api.types import core
    from wharfinger.client import Client
    from wharfinger.client.streams import RemoteCommand


@dataclass(frozen=True)
class Place:
    """One side of a copy."""

    path: str
    pod: str = ""
    """Empty: this machine."""
    namespace: str = ""


@command(name="cp")
@click.argument("source")
@click.argument("destination")
@click.option("-c", "--container", default="", metavar="NAME", help="Which of the pod's containers.")
@click.option("--no-preserve", is_flag=True, help="In the container, do not preserve ownership and permissions.")
@click.option("--retries", type=int, default=0, metavar="N",
              help="How often to begin again when a copy from a container breaks off.")  # fmt: skip
async def cp(session: Session, **options: Any) -> None:
    """Copy files and folders from and to containers. The image needs a tar.

    \b
      wharf cp notes.txt web:/tmp/            into a container
      wharf cp default/web:/var/log ./log     out of one
      wharf cp site web:/srv -c nginx --no-preserve
    """
    source, destination = parse_place(options["source"]), parse_place(options["destination"])
    needs(not (source.pod and destination.pod), "one of src or dest must be a local file specification")
    needs(bool(source.pod or destination.pod), "one of src or dest must be a remote file specification")
    needs(bool(source.path and destination.path), "filepath can not be empty")
    place = source if source.pod else destination
    async with session.client() as client:
        from wharfinger.api.types import core

        pod = await client.resource(core.Pod).get(place.pod, namespace=place.namespace or session.namespace)
        check_running(pod, "copy from or to")
        container = podtargets.container_of(pod, options["container"])
        copier = _Copier(client, pod, container)
        if source.pod:
            await copier.download(source.path, Path(destination.path), retries=options["retries"])
        else:
            await copier.upload(Path(source.path), destination.path, preserve=not options["no_preserve"])


def parse_place(text: str) -> Place:
    """Read ``[[NAMESPACE/]POD:]PATH``; what exists here, or begins like a path, is one. CommandError."""
    head, colon, path = text.partition(":")
    if not colon or head.startswith((".", "/")):
        return Place(text)
    needs(bool(head), f"{text}: filespec must match the canonical format: [[namespace/]pod:]file/path")
    parts = head.split("/")
    needs(
        len(parts) <= 2 and all(parts), f"{text}: filespec must match the canonical format: [[namespace/]pod:]file/path"
    )
    return Place(path, parts[-1], parts[0] if len(parts) == 2 else "")


class _Copier:
    """Copies from and to one container."""

    def __init__(self, client: Client, pod: core.Pod, container: str) -> None:
        self._client = client
        self._pod = pod
        self._container = container

    async def _start(self, words: list[str], *, stdin: bool) -> RemoteCommand:
        wanted = opening(self._pod, self._container, Streams(stdin, False))
        wanted.command.extend(words)
        return await self._client.exec(wanted)

    async def _is_folder(self, path: str) -> bool:
        async with await self._start(["test", "-d", path], stdin=False) as stream:
            code = await _finish(stream, ignore=True)
        return code == 0

    async def upload(self, source: Path, destination: str, *, preserve: bool) -> None:
        name = _name_of(source)
        if destination != "/":
            destination = destination.rstrip("/")
        if destination == "/" or await self._is_folder(destination):
            folder, name = destination, name
        else:
            folder, name = posixpath.split(destination)
        words = ["tar", "-xmf", "-"] if preserve else ["tar", "--no-same-permissions", "--no-same-owner", "-xmf", "-"]
        if folder:
            words += ["-C", folder]
        async with await self._start(words, stdin=True) as stream:
            sending = asyncio.create_task(tarpipe.send(stream, source, name))
            try:
                code = await _finish(stream)
            finally:
                sending.cancel()
                outcome = (await asyncio.gather(sending, return_exceptions=True))[0]
        if isinstance(outcome, Exception):
            raise outcome
        if code:
            raise SilentExit(remote.say_exit(code))

    async def download(self, source: str, destination: Path, *, retries: int) -> None:
        from wharfinger.api.errors import ServiceUnavailableError

        path = posixpath.normpath(source)
        attempt = 0
        while True:
            words = ["tar", "-cf", "-", f"./{path}" if path.startswith("-") else path]
            try:
                async with await self._start(words, stdin=False) as stream:
                    code = await tarpipe.receive(stream, tarpipe.prefix_of(path), destination)
                break
            except ServiceUnavailableError as error:
                if 0 <= retries <= attempt:
                    raise
                attempt += 1
                complain(f"Resuming copy of {source}, retry {attempt}: {error}")
        if code:
            raise SilentExit(remote.say_exit(code))


def _name_of(source: Path) -> str:
    if not source.exists():
        raise CommandError(f"{source} doesn't exist in local filesystem")
    return source.name if source.name not in ("", "..") else source.resolve().name


async def _finish(stream: RemoteCommand, *, ignore: bool = False) -> int:
    """Read a command to its end; what it says goes to stderr. CommandError when it could not run."""
    from wharfinger.client.streams import exit_code

    async for output in stream.outputs():
        if output.status:
            code, message = exit_code(output.status)
            if code < 0:
                raise CommandError(message)
            return code
        if not ignore:
            remote.write_out(2, output.stdout or output.stderr)
    raise AssertionError("unreachable: the last output is the status, or an error is raised")
