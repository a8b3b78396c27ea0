"""Events, in the core form and in that of events.k8s.io; both show the same columns."""

from __future__ import annotations

from wharfinger.api import times
from wharfinger.api.tables import text
from wharfinger.api.tables.table import Cell, Column, Table
from wharfinger.api.types import core, events, meta


def _seen(moment: meta.Time, fallback: meta.MicroTime, now: float) -> str:
    if not times.is_zero(moment):
        return text.since(moment, now)
    return text.since(fallback, now)


def _object(reference: core.ObjectReference) -> str:
    return f"{reference.kind.lower()}/{reference.name}" if reference.name else reference.kind.lower()


def _source(component: str, host: str) -> str:
    return f"{component}, {host}" if host else component


def _row(event: core.Event, now: float) -> list[Cell]:
    series = event.series
    last = text.since(series.lastObservedTime, now) if event.HasField("series") else ""
    count = series.count if event.HasField("series") else (event.count or 1)
    return [
        last or _seen(event.lastTimestamp, event.eventTime, now),
        event.type,
        event.reason,
        _object(event.involvedObject),
        event.involvedObject.fieldPath,
        _source(
            event.source.component or event.reportingComponent, event.source.host or event.reportingInstance
        ),
        event.message.strip(),
        _seen(event.firstTimestamp, event.eventTime, now),
        count,
        event.metadata.name,
    ]  # fmt: skip


def _new_row(event: events.Event, now: float) -> list[Cell]:
    series = event.series
    last = text.since(series.lastObservedTime, now) if event.HasField("series") else ""
    count = series.count if event.HasField("series") else (event.deprecatedCount or 1)
    return [
        last or _seen(event.deprecatedLastTimestamp, event.eventTime, now),
        event.type,
        event.reason,
        _object(event.regarding),
        event.regarding.fieldPath,
        _source(
            event.deprecatedSource.component or event.reportingController,
            event.deprecatedSource.host or event.reportingInstance,
        ),
        event.note.strip(),
        _seen(event.deprecatedFirstTimestamp, event.eventTime, now),
        count,
        event.metadata.name,
    ]


_COLUMNS = (
    Column("Last Seen", description="Time since it happened last."),
    Column("Type", description="Normal or Warning."),
    Column("Reason", description="What happened, in a word."),
    Column("Object", description="What it happened to."),
    Column("Subobject", priority=1, description="Which part of it."),
    Column("Source", priority=1, description="Who reports it."),
    Column("Message", description="What happened."),
    Column("First Seen", priority=1, description="Time since it happened first."),
    Column("Count", priority=1, description="How often it happened."),
    Column("Name", format="name", priority=1, description="The event's own name."),
)
TABLE = Table(_COLUMNS, _row)
NEW = Table(_COLUMNS, _new_row)
