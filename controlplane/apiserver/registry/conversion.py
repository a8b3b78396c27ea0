"""Conversions between two served versions of one stored object, where the schema has two: events.

The group events.k8s.io gives a core Event other field names; both are the same object, stored as the core one. Follows
``k8s.io/kubernetes/pkg/apis/events/v1/conversion.go`` in what corresponds to what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.api.types import core, events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Conversion:
    """How one served kind is made of the stored one and back."""

    to_served: Callable[[Any], Any]
    to_stored: Callable[[Any], Any]


_SAME = ("reason", "type", "action", "reportingInstance")
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_MESSAGES = ("metadata", "eventTime", "related")


def _copy(target: Any, target_name: str, source: Any, source_name: str) -> None:
    value = getattr(source, source_name)
    if not source.HasField(source_name):
        return
    if hasattr(value, "DESCRIPTOR"):
        getattr(target, target_name).CopyFrom(value)
    else:
        setattr(target, target_name, value)


def event_to_group(stored: core.Event) -> events.Event:
    """Show a stored event as events.k8s.io does."""
    served = events.Event()
    for name in (*_SAME, *_MESSAGES):
        _copy(served, name, stored, name)
    for old, new in _RENAMED.items():
        _copy(served, new, stored, old)
    if stored.HasField("series"):
        served.series.count = stored.series.count
        served.series.lastObservedTime.CopyFrom(stored.series.lastObservedTime)
    return served


def event_from_group(served: events.Event) -> core.Event:
    """Return what is stored of an event of events.k8s.io."""
    stored = core.Event()
    for name in (*_SAME, *_MESSAGES):
        _copy(stored, name, served, name)
    for old, new in _RENAMED.items():
        _copy(stored, old, served, new)
    if served.HasField("series"):
        stored.series.count = served.series.count
        stored.series.lastObservedTime.CopyFrom(served.series.lastObservedTime)
    return stored


CONVERSIONS: Mapping[tuple[str, str], Conversion] = {
    ("events.k8s.io", "events"): Conversion(event_to_group, event_from_group),
}
