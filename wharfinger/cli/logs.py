"""``wharf logs``: what containers have written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.api.types import core
from wharfinger.cli import podtargets
from wharfinger.cli.complete import names_of
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError, SilentExit, complain, status_line
from wharfinger.cli.reporting import needs
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from wharfinger.client import Client


@dataclass(frozen=True)
class Source:
    """One container whose log is wanted."""

    namespace: str
    pod: str
    uid: str
    container: str


@command(name="logs")
@click.argument("target", required=False, metavar="[POD | TYPE/NAME]", shell_complete=names_of("pods"))
@click.argument("container_name", required=False, metavar="[CONTAINER]")
@click.option("-c", "--container", default="", metavar="NAME", help="Which of the pod's containers.")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("-p", "--previous", is_flag=True, help="The log before the last restart.")
@click.option("--tail", type=int, default=None, metavar="LINES", help="Only the last lines (-1: all).")
@click.option("--since", default="", metavar="DURATION", help="Only lines younger than this (5s, 2m, 3h).")
@click.option("--since-time", default="", metavar="TIME", help="Only lines after this time (RFC 3339).")
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@click.option("--limit-bytes", type=click.IntRange(0), default=0, metavar="BYTES", help="At most this much.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Of all pods that the label selector matches.")
@click.option("--all-containers", is_flag=True, help="Of all containers.")
@click.option("--prefix", is_flag=True, help="Put pod and container before each line.")
@click.option("--max-log-requests", type=click.IntRange(1), default=5, show_default=True,
              help="With -f and a selector: how many logs at once.")  # fmt: skip
@click.option("--ignore-errors", is_flag=True, help="Go on with other containers after an error.")
async def logs(session: Session, **options: Any) -> None:
    """Print the logs of containers.

    \b
      wharf logs web                        the pod's only (or default) container
      wharf logs web -c sidecar --previous  before its last restart
      wharf logs -f -l app=web --prefix     of all pods with a label
      wharf logs deployment/web --tail=20   of a workload's first pod
    """
    _check(options)
    async with session.client() as client:
        pods = await _pods(session, client, options)
        sources = [source for pod in pods for source in _sources(pod, options)]
        if options["follow"] and len(sources) > options["max_log_requests"]:
            raise CommandError(
                f"you are attempting to follow {len(sources)} log streams, but maximum allowed concurrency is "
                f"{options['max_log_requests']}, use --max-log-requests to increase the limit"
            )
        await _print_all(client, sources, options, prefix=options["prefix"])


def _check(options: dict[str, Any]) -> None:
    if options["container_name"]:
        needs(not options["container"], "only one of -c or an inline [CONTAINER] arg is allowed")
        options["container"] = options["container_name"]
    needs(bool(options["target"]) != bool(options["selector"]), "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c C]'")
    needs(not (options["since"] and options["since_time"]), "at most one of `since-time` or `since` may be specified")
    needs(
        not (options["all_containers"] and options["container"]),
        "--all-containers=true should not be specified with container name",
    )
    if options["tail"] is None:
        # Many pods at once: the newest lines of each are what is wanted.
        options["tail"] = 10 if options["selector"] else -1
    needs(options["tail"] >= -1, "--tail must be greater than or equal to -1")
    if options["since_time"]:
        from wharfinger.api.times import parse_rfc3339

        try:
            parse_rfc3339(options["since_time"])
        except ValueError as error:
            raise CommandError(f"--since-time: {error}") from error


async def _pods(session: Session, client: Client, options: dict[str, Any]) -> list[core.Pod]:
    pods = client.resource(core.Pod)
    namespace = session.namespace
    if options["selector"]:
        listed = await pods.list(namespace=namespace, label_selector=options["selector"])
        if not listed.items:
            complain(f"No resources found in {namespace} namespace.")
            raise SilentExit(0)
        return listed.items
    name = options["target"].rpartition("/")[2]
    kind, owner = await podtargets.owner_of(client, namespace, options["target"])
    if kind.kind == "Pod":
        return [owner]
    found = await podtargets.pods_of(client, namespace, owner, kind, verb="get the logs from")
    if not found:
        raise CommandError(f"{kind.singular}/{name} has no pods")
    if len(found) > 1:
        complain(f"Found {len(found)} pods, using pod/{found[0].metadata.name}")
    return found[:1]


def _sources(pod: core.Pod, options: dict[str, Any]) -> list[Source]:
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    if options["all_containers"]:
        return [Source(namespace, name, uid, container) for container in podtargets.names(pod)]
    return [Source(namespace, name, uid, podtargets.container_of(pod, options["container"]))]


async def _print_all(client: Client, sources: Sequence[Source], options: dict[str, Any], *, prefix: bool) -> None:
    from wharfinger.api.errors import StatusError

    failed = False

    async def one(source: Source) -> None:
        nonlocal failed
        try:
            await _print(client, source, options, prefix=prefix)
        except StatusError as error:
            if len(sources) == 1 and not options["ignore_errors"]:
                raise
            complain(status_line(error))
            failed = not options["ignore_errors"]

    if options["follow"]:
        await asyncio.gather(*(one(source) for source in sources))
    else:
        for source in sources:
            await one(source)
    if failed:
        raise SilentExit


async def _print(client: Client, source: Source, options: dict[str, Any], *, prefix: bool) -> None:
    head = f"[pod/{source.pod}/{source.container}] ".encode() if prefix else b""
    out = sys.stdout.buffer
    rest = b""
    async for chunk in client.log(_request(source, options)):
        if not head:
            out.write(chunk)
        else:
            # Whole lines only, so that several logs do not run into each other.
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            out.writelines(head + line + b"\n" for line in lines)
        out.flush()
    if rest:
        out.write(head + rest + b"\n")
        out.flush()


def _request(source: Source, options: dict[str, Any]) -> Any:
    from wharfinger.proto.native import streams_v1_pb2 as streams

    request = streams.LogRequest(
        namespace=source.namespace,
        pod=source.pod,
        uid=source.uid,
        container=source.container,
        follow=options["follow"],
        previous=options["previous"],
        timestamps=options["timestamps"],
        since_time=options["since_time"],
    )
    if options["tail"] >= 0:
        request.tail_lines = options["tail"]
    if options["since"]:
        request.since_seconds = max(int(-(-parse_duration(options["since"], flag="--since") // 1)), 1)
    if options["limit_bytes"]:
        request.limit_bytes = options["limit_bytes"]
    return request
