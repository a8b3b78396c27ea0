"""Events, in both of their APIs.

The older API lets much pass that the newer one refuses: an event written through ``events.k8s.io`` has to say who saw
what, when, and may not use the old fields; one written through ``v1`` has to only if it carries an ``eventTime``.
Rules: the API references of ``Event`` (v1 and events.k8s.io/v1).
"""

from __future__ import annotations

from wharfinger.api.types import core, events
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_LONGEST_WORD = 128
"""Characters of a reason, an action and the reporting instance."""
_LONGEST_NOTE = 1024
_MISMATCH = "does not match event.namespace"


def _validate_old(event: core.Event, errors: Errors, *, controller_field: str) -> None:
    """Judge what both APIs ask for, in the older one's terms."""
    namespace, about = event.metadata.namespace, event.involvedObject.namespace
    if not (event.eventTime.seconds or event.eventTime.nanos):
        # Events about objects without a namespace live in the default one.
        if about != namespace and (about or namespace != "default"):
            errors.invalid("involvedObject.namespace", about, _MISMATCH)
    else:
        if not about and namespace not in ("default", "kube-system"):
            errors.invalid("involvedObject.namespace", about, _MISMATCH)
        if not event.reportingComponent:
            errors.required(controller_field)
        errors.complaints(controller_field, event.reportingComponent, names.qualified_name(event.reportingComponent))
        for field in ("reportingInstance", "action", "reason"):
            value = getattr(event, field)
            if not value:
                errors.required(field)
            if len(value) > _LONGEST_WORD:
                errors.invalid(field, value, f"can have at most {_LONGEST_WORD} characters")
        if len(event.message) > _LONGEST_NOTE:
            errors.invalid("message", "", f"can have at most {_LONGEST_NOTE} characters")
    errors.complaints("namespace", namespace, names.dns1123_subdomain(namespace))


def _create_old(event: core.Event, errors: Errors) -> None:
    _validate_old(event, errors, controller_field="reportingComponent")


def _update_old(event: core.Event, old: core.Event, errors: Errors) -> None:
    _create_old(event, errors)


def _as_old(event: events.Event) -> core.Event:
    """Return the event in the terms of the older API, as Kubernetes' rules are written."""
    old = core.Event(
        reason=event.reason,
        message=event.note,
        type=event.type,
        count=event.deprecatedCount,
        action=event.action,
        reportingComponent=event.reportingController,
        reportingInstance=event.reportingInstance,
    )
    old.metadata.CopyFrom(event.metadata)
    old.involvedObject.CopyFrom(event.regarding)
    old.source.CopyFrom(event.deprecatedSource)
    old.firstTimestamp.CopyFrom(event.deprecatedFirstTimestamp)
    old.lastTimestamp.CopyFrom(event.deprecatedLastTimestamp)
    old.eventTime.CopyFrom(event.eventTime)
    if event.HasField("related"):
        old.related.CopyFrom(event.related)
    if event.HasField("series"):
        old.series.count = event.series.count
        old.series.lastObservedTime.CopyFrom(event.series.lastObservedTime)
    return old


def _create(new: events.Event, errors: Errors) -> None:
    event = _as_old(new)
    _validate_old(event, errors, controller_field="reportingController")
    metadata.validate_kind(event.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _validate_series(event, errors)
    if not (event.eventTime.seconds or event.eventTime.nanos):
        errors.required("eventTime")
    if event.type not in ("Normal", "Warning"):
        errors.invalid("type", event.type, "must be Normal or Warning")
    for field in ("firstTimestamp", "lastTimestamp"):
        moment = getattr(event, field)
        if moment.seconds or moment.nanos:
            errors.invalid(field, moment.seconds, "needs to be unset")
    if event.count:
        errors.invalid("count", event.count, "needs to be unset")
    if event.source.component or event.source.host:
        errors.invalid("source", event.source.component or event.source.host, "needs to be unset")


def _validate_series(event: core.Event, errors: Errors) -> None:
    if event.HasField("series"):
        if event.series.count < 2:
            errors.invalid("series.count", event.series.count, "should be at least 2")
        if not (event.series.lastObservedTime.seconds or event.series.lastObservedTime.nanos):
            errors.required("series.lastObservedTime")


def _update(new: events.Event, before: events.Event, errors: Errors) -> None:
    event, old = _as_old(new), _as_old(before)
    _validate_old(event, errors, controller_field="reportingController")
    metadata.validate_kind_update(event.metadata, old.metadata, errors)
    if event.series != old.series:
        _validate_series(event, errors)
    for field in ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"):
        metadata.immutable(errors, field, getattr(event, field), getattr(old, field))
    if (event.eventTime.seconds, event.eventTime.nanos // 1000) != (old.eventTime.seconds, old.eventTime.nanos // 1000):
        errors.invalid("eventTime", event.eventTime.seconds, metadata.IMMUTABLE)
    for field, name in (
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ):
        metadata.immutable(errors, name, getattr(event, field), getattr(old, field))


RULES = {
    core.Event: Rules(create=_create_old, update=_update_old),
    events.Event: Rules(create=_create, update=_update),
}
