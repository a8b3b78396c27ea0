"""``wharf events``: what has happened lately, in the order of time."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from wharfinger.api import times
from wharfinger.api.tables.text import duration
from wharfinger.api.types import core
from wharfinger.cli.columns import ColumnWriter
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.session import Session, command
from wharfinger.cli.targets import find_kind

HEADER = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]


@command(name="events")
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@click.option("--for", "subject", default="", metavar="TYPE/NAME", help="Only about one object.")
@click.option("--types", default="", metavar="TYPES", help="Only these types (Normal,Warning).")
@click.option("-w", "--watch", is_flag=True, help="Go on as more come.")
@click.option("--no-headers", is_flag=True, help="Without the line of headers.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "name"]))
@click.option("--chunk-size", type=int, default=0, hidden=True)
async def events(
    session: Session, *, all_namespaces: bool, subject: str, types: str, watch: bool, no_headers: bool,
    output: str | None, chunk_size: int,
) -> None:  # fmt: skip
    """Show events, the oldest first.

    \b
      wharf events
      wharf events --for pod/web -w
      wharf events -A --types=Warning
    """
    namespace = "" if all_namespaces else session.namespace
    selector = _selector(subject)
    wanted = {word.strip().lower() for word in types.split(",") if word.strip()}
    if unknown := wanted - {"normal", "warning"}:
        raise CommandError(f"valid --types are Normal or Warning, not {', '.join(sorted(unknown))}")
    writer = ColumnWriter()

    def show(found: list[core.Event], *, header: bool) -> None:
        rows = [["NAMESPACE", *HEADER] if all_namespaces else HEADER] if header and not no_headers else []
        writer.write([*rows, *(event_row(event, namespaces=all_namespaces) for event in found)])
        sys.stdout.flush()

    async with session.client() as client:
        resource = client.resource(core.Event)
        if not watch:
            listed = await resource.list(namespace=namespace, field_selector=selector, limit=chunk_size)
            found = sorted((one for one in listed.items if _is_wanted(one, wanted)), key=last_seen)
            if output:
                _print_documents(found, output)
            elif found:
                show(found, header=True)
            else:
                complain(f"No events found in {namespace} namespace." if namespace else "No events found.")
            return
        from wharfinger.cli.watching import changes

        header = True
        async for batch in changes(resource, namespace=namespace, field_selector=selector):
            found = [
                event.object
                for event in batch.events
                if event.type in ("ADDED", "MODIFIED") and _is_wanted(event.object, wanted)
            ]
            if found:
                show(sorted(found, key=last_seen) if batch.initial else found, header=header)
                header = False


def _selector(subject: str) -> str:
    if not subject:
        return ""
    resource, slash, name = subject.partition("/")
    if not slash or not name:
        raise CommandError("--for must be in resource/name form")
    kind = find_kind(resource)
    return f"involvedObject.kind={kind.kind},involvedObject.name={name}"


def _is_wanted(event: core.Event, types: set[str]) -> bool:
    return not types or event.type.lower() in types


def last_seen(event: core.Event) -> float:
    """Return when an event happened last, in seconds since the epoch."""
    for moment in (event.series.lastObservedTime, event.lastTimestamp, event.eventTime, event.firstTimestamp):
        if not times.is_zero(moment):
            return float(moment.seconds) + moment.nanos / 1e9
    return float(event.metadata.creationTimestamp.seconds)


def first_seen(event: core.Event) -> float:
    """Return when an event happened first, in seconds since the epoch."""
    for moment in (event.firstTimestamp, event.eventTime):
        if not times.is_zero(moment):
            return float(moment.seconds) + moment.nanos / 1e9
    return last_seen(event)


def interval(event: core.Event, now: float) -> str:
    """Return ``5m``, or ``5m (x3 over 10m)`` for what happened several times."""
    count = event.series.count if event.HasField("series") else event.count
    seen = duration(now - last_seen(event))
    return f"{seen} (x{count} over {duration(now - first_seen(event))})" if count > 1 else seen


def event_row(event: core.Event, *, namespaces: bool = False) -> list[str]:
    """Return an event's cells."""
    involved = event.involvedObject
    cells = [
        interval(event, time.time()), event.type, event.reason, f"{involved.kind}/{involved.name}",
        event.message.strip(),
    ]  # fmt: skip
    return [event.metadata.namespace, *cells] if namespaces else cells


def _print_documents(found: list[Any], output: str) -> None:
    from wharfinger.cli.output import DocumentPrinter, document_of, parse_output

    DocumentPrinter(parse_output(output)).print_list([document_of(event) for event in found])
