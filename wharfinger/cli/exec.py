"""``wharf exec`` and ``wharf attach``: a command in a container, or what its first process says and hears."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli import podtargets, remote
from wharfinger.cli.complete import names_of
from wharfinger.cli.failures import complain
from wharfinger.cli.reporting import needs
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from wharfinger.api.types import core
    from wharfinger.client import Client

_STDIN = click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
_TTY = click.option("-t", "--tty", is_flag=True, help="With a terminal.")
_CONTAINER = click.option("-c", "--container", default="", metavar="NAME", help="Which of the pod's containers.")
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Print only what the process prints.")


@dataclass(frozen=True)
class Streams:
    """What is connected."""

    stdin: bool
    tty: bool
    quiet: bool = False

    @classmethod
    def of(cls, *, stdin: bool, tty: bool, quiet: bool) -> Streams:
        """Return what the flags ask for; a terminal needs one on this side."""
        if stdin and tty and not os.isatty(0):
            if not quiet:
                complain("Unable to use a TTY - input is not a terminal or the right kind of file")
            tty = False
        return cls(stdin, tty and stdin, quiet)


@command(name="exec")
@click.argument("target", required=False, metavar="POD | TYPE/NAME", shell_complete=names_of("pods"))
@click.argument("words", nargs=-1, metavar="-- COMMAND [ARGUMENT]…")
@_CONTAINER
@_STDIN
@_TTY
@_QUIET
@podtargets.RUNNING_TIMEOUT
async def exec_(session: Session, **options: Any) -> int:
    """Run a command in a container; its exit code becomes this one's.

    \b
      wharf exec web -- date
      wharf exec -it web -c sidecar -- sh
      wharf exec -i deployment/web -- sh -c 'cat > /tmp/x' < x
    """
    needs(bool(options["target"]), "pod, type/name or --filename must be specified")
    words = list(options["words"])
    needs(bool(words), "you must specify at least one command for the container")
    streams = Streams.of(stdin=options["stdin"], tty=options["tty"], quiet=options["quiet"])
    async with session.client() as client:
        pod, _, _ = await podtargets.one_pod(
            client, session.namespace, options["target"], verb="exec into", timeout=options["pod_running_timeout"]
        )
        check_running(pod, "exec into")
        container = podtargets.container_of(pod, options["container"], quiet=streams.quiet)
        return remote.say_exit(await execute(client, pod, container, words, streams))


@command(name="attach")
@click.argument("target", required=False, metavar="POD | TYPE/NAME", shell_complete=names_of("pods"))
@_CONTAINER
@_STDIN
@_TTY
@_QUIET
@podtargets.RUNNING_TIMEOUT
async def attach(session: Session, **options: Any) -> int:
    """Join a container's first process: see what it prints, and with -i type for it.

    \b
      wharf attach web
      wharf attach -it web -c shell
    """
    needs(bool(options["target"]), "pod, type/name must be specified")
    streams = Streams.of(stdin=options["stdin"], tty=options["tty"], quiet=options["quiet"])
    async with session.client() as client:
        pod, _, _ = await podtargets.one_pod(
            client, session.namespace, options["target"], verb="attach to", timeout=options["pod_running_timeout"]
        )
        check_running(pod, "attach to")
        container = podtargets.container_of(pod, options["container"], quiet=streams.quiet)
        return remote.say_exit(await join(client, pod, container, streams))


def check_running(pod: core.Pod, verb: str) -> None:
    """Refuse a pod that has ended."""
    phase = pod.status.phase
    needs(
        phase not in ("Succeeded", "Failed"), f"cannot {verb} a container in a completed pod; current phase is {phase}"
    )


async def execute(client: Client, pod: core.Pod, container: str, words: list[str], streams: Streams) -> int:
    """Run a command; returns its exit code."""
    wanted = opening(pod, container, streams)
    wanted.command.extend(words)
    async with await client.exec(wanted) as stream:
        return await remote.run(stream, stdin=streams.stdin, tty=streams.tty)


async def join(client: Client, pod: core.Pod, container: str, streams: Streams) -> int:
    """Attach; returns the exit code of the process, if it ended."""
    has_stdin, has_tty = podtargets.tty_of(pod, container)
    if streams.stdin and not has_stdin and not streams.quiet:
        complain(f"Warning: container {container} has no stdin: what you type goes nowhere (stdin: true is missing)")
    if streams.tty and not has_tty:
        if not streams.quiet:
            complain(f"Unable to use a TTY - container {container} did not allocate one")
        streams = Streams(streams.stdin, False, streams.quiet)
    wanted = opening(pod, container, streams)
    if has_tty:  # its output is one stream, whether this side is a terminal or not
        wanted.tty, wanted.stderr = True, False
    async with await client.attach(wanted) as stream:
        if streams.stdin and not streams.quiet:
            complain("If you don't see a command prompt, try pressing enter.")
        return await remote.run(stream, stdin=streams.stdin, tty=streams.tty, redraw=True)


def opening(pod: core.Pod, container: str, streams: Streams) -> Any:
    """Return the message that opens a stream to a container."""
    from wharfinger.proto.native import streams_v1_pb2

    return streams_v1_pb2.StreamOpen(
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        uid=pod.metadata.uid,
        container=container,
        stdin=streams.stdin,
        stdout=True,
        stderr=not streams.tty,
        tty=streams.tty,
    )
