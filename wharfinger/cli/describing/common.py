"""Parts that several kinds show in the same way: metadata, events, pod templates, times."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wharfinger.api import times
from wharfinger.api.types import core, meta
from wharfinger.cli.applied import LAST_APPLIED

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client

NONE = "<none>"


def moment(value: meta.Time | meta.MicroTime) -> str:
    """Write a time as kubectl's describe does: ``Mon, 30 Nov 2026 22:15:00 +0000``, in the local zone."""
    if times.is_zero(value):
        return "<unset>"
    return times.to_datetime(value).astimezone().strftime("%a, %d %b %Y %H:%M:%S %z")


def head(out: Layout, obj: Any, *, namespaced: bool = True) -> None:
    """Write name and namespace."""
    out.field(0, "Name", obj.metadata.name)
    if namespaced:
        out.field(0, "Namespace", obj.metadata.namespace)


def labels_and_annotations(out: Layout, metadata: meta.ObjectMeta) -> None:
    """Write both maps; what apply keeps for itself is left out."""
    out.mapping(0, "Labels", metadata.labels)
    annotations = {key: value for key, value in metadata.annotations.items() if key != LAST_APPLIED}
    if not annotations:
        out.field(0, "Annotations", NONE)
    for index, key in enumerate(sorted(annotations)):
        value = annotations[key].strip().replace("\n", " ")
        shown = value if len(value) <= 140 else value[:137] + "..."
        out.line(0, "Annotations:" if index == 0 else "", f"{key}: {shown}")


def deletion(out: Layout, metadata: meta.ObjectMeta) -> None:
    """Say that an object is on its way out, since when, and what it still waits for."""
    if not metadata.HasField("deletionTimestamp"):
        return
    since = max(time.time() - metadata.deletionTimestamp.seconds, 0)
    from wharfinger.api.tables.text import duration

    out.field(0, "Status", f"Terminating (lasts {duration(since)})")
    if metadata.HasField("deletionGracePeriodSeconds"):
        out.field(0, "Termination Grace Period", f"{metadata.deletionGracePeriodSeconds}s")
    if metadata.finalizers:
        # Who wonders why an object does not go away must not have to look into its YAML.
        out.field(0, "Waiting for finalizers", ", ".join(metadata.finalizers))


def controlled_by(metadata: meta.ObjectMeta) -> str:
    """Return ``ReplicaSet/web``; empty without a controller."""
    owner = next((one for one in metadata.ownerReferences if one.controller), None)
    return f"{owner.kind}/{owner.name}" if owner is not None else ""


def conditions(out: Layout, found: Sequence[Any], *, wide: bool = False) -> None:
    """Write a table of conditions."""
    if not found:
        return
    out.line(0, "Conditions:")
    if wide:
        out.line(1, "Type", "Status", "LastHeartbeatTime", "LastTransitionTime", "Reason", "Message")
        out.line(1, "----", "------", "-----------------", "------------------", "------", "-------")
        for one in found:
            out.line(
                1, one.type, one.status, moment(one.lastHeartbeatTime), moment(one.lastTransitionTime), one.reason,
                one.message,
            )  # fmt: skip
        return
    reasons = any(one.reason for one in found)
    out.line(1, "Type", "Status", *(["Reason"] if reasons else []))
    out.line(1, "----", "------", *(["------"] if reasons else []))
    for one in found:
        out.line(1, one.type, one.status, *([one.reason] if reasons else []))


def resources(out: Layout, level: int, name: str, values: Mapping[str, Any]) -> None:
    """Write a resource list, each resource in a line of its own."""
    if not values:
        return
    out.line(level, f"{name}:")
    for key in sorted(values):
        out.field(level + 1, key, values[key].string)


async def events_of(client: Client, obj: Any, kind: str) -> list[core.Event]:
    """Return the events about an object, the oldest first; empty when they cannot be had."""
    from wharfinger.api.errors import ForbiddenError
    from wharfinger.cli.events import last_seen

    selector = f"involvedObject.kind={kind},involvedObject.name={obj.metadata.name}"
    if kind != "Node":
        # Events about nodes carry the node's name as uid, so only others can be told apart by it.
        selector += f",involvedObject.uid={obj.metadata.uid}"
    try:
        listed = await client.resource(core.Event).list(namespace=obj.metadata.namespace, field_selector=selector)
    except ForbiddenError:
        return []
    return sorted(listed.items, key=last_seen)


def events(out: Layout, found: Sequence[core.Event]) -> None:
    """Write a table of events."""
    from wharfinger.cli.events import interval

    if not found:
        out.field(0, "Events", NONE)
        return
    now = time.time()
    out.line(0, "Events:")
    out.line(1, "Type", "Reason", "Age", "From", "Message")
    out.line(1, "----", "------", "----", "----", "-------")
    for one in found:
        source = one.source.component or one.reportingComponent
        out.line(1, one.type, one.reason, interval(one, now), source, one.message.strip().replace("\n", " "))
