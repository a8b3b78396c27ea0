"""Conversions between two served versions of one stored object, where the schema has two: events and autoscalers.

The group events.k8s.io gives a core Event other field names; both are the same object, stored as the core one. Follows
``k8s.io/kubernetes/pkg/apis/events/v1/conversion.go`` in what corresponds to what.

A HorizontalPodAutoscaler of autoscaling/v1 knows one measure, the use of processors; stored is v2. What v1 has no field
for travels in an annotation, so that an update through v1 loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.api import codec
from wharfinger.api.errors import BadRequestError
from wharfinger.api.types import autoscaling, autoscaling_v1, core, events

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


AUTOSCALER_REST = "wharfinger.dev/autoscaling-v2"
"""The annotation with what only v2 can say."""


def _is_processor_use(metric: autoscaling.MetricSpec) -> bool:
    target = metric.resource.target
    return metric.type == "Resource" and metric.resource.name == "cpu" and target.type == "Utilization"


def autoscaler_to_old(stored: autoscaling.HorizontalPodAutoscaler) -> autoscaling_v1.HorizontalPodAutoscaler:
    """Show a stored autoscaler as autoscaling/v1 does."""
    served = autoscaling_v1.HorizontalPodAutoscaler()
    served.metadata.CopyFrom(stored.metadata)
    spec, rest = served.spec, autoscaling.HorizontalPodAutoscalerSpec()
    spec.scaleTargetRef.MergeFromString(stored.spec.scaleTargetRef.SerializeToString())
    _copy(spec, "minReplicas", stored.spec, "minReplicas")
    spec.maxReplicas = stored.spec.maxReplicas
    for metric in stored.spec.metrics:
        if _is_processor_use(metric) and not spec.HasField("targetCPUUtilizationPercentage"):
            spec.targetCPUUtilizationPercentage = metric.resource.target.averageUtilization
        else:
            rest.metrics.append(metric)
    if stored.spec.HasField("behavior"):
        rest.behavior.CopyFrom(stored.spec.behavior)
    if rest.metrics or rest.HasField("behavior"):
        served.metadata.annotations[AUTOSCALER_REST] = codec.to_json_bytes(rest).decode()
    status = stored.status
    for name in ("observedGeneration", "lastScaleTime"):
        _copy(served.status, name, status, name)
    served.status.currentReplicas, served.status.desiredReplicas = status.currentReplicas, status.desiredReplicas
    for seen in status.currentMetrics:
        if (
            seen.type == "Resource"
            and seen.resource.name == "cpu"
            and seen.resource.current.HasField("averageUtilization")
        ):
            served.status.currentCPUUtilizationPercentage = seen.resource.current.averageUtilization
    return served


def autoscaler_from_old(served: autoscaling_v1.HorizontalPodAutoscaler) -> autoscaling.HorizontalPodAutoscaler:
    """Return what is stored of an autoscaler of autoscaling/v1. Raises BadRequestError for a broken annotation."""
    stored = autoscaling.HorizontalPodAutoscaler()
    stored.metadata.CopyFrom(served.metadata)
    spec = stored.spec
    spec.scaleTargetRef.MergeFromString(served.spec.scaleTargetRef.SerializeToString())
    _copy(spec, "minReplicas", served.spec, "minReplicas")
    spec.maxReplicas = served.spec.maxReplicas
    if served.spec.HasField("targetCPUUtilizationPercentage"):
        metric = spec.metrics.add(type="Resource")
        metric.resource.name, metric.resource.target.type = "cpu", "Utilization"
        metric.resource.target.averageUtilization = served.spec.targetCPUUtilizationPercentage
    text = stored.metadata.annotations.pop(AUTOSCALER_REST, "")
    if text:
        try:
            rest = codec.from_json(text.encode(), autoscaling.HorizontalPodAutoscalerSpec, validation="Strict").message
        except BadRequestError as error:
            raise BadRequestError(f"metadata.annotations[{AUTOSCALER_REST}]: {error.message}") from error
        spec.metrics.extend(rest.metrics)
        if rest.HasField("behavior"):
            spec.behavior.CopyFrom(rest.behavior)
    for name in ("observedGeneration", "lastScaleTime"):
        _copy(stored.status, name, served.status, name)
    stored.status.currentReplicas = served.status.currentReplicas
    stored.status.desiredReplicas = served.status.desiredReplicas
    if served.status.HasField("currentCPUUtilizationPercentage"):
        seen = stored.status.currentMetrics.add(type="Resource")
        seen.resource.name = "cpu"
        seen.resource.current.averageUtilization = served.status.currentCPUUtilizationPercentage
    return stored


CONVERSIONS: Mapping[tuple[str, str, str], Conversion] = {
    ("events.k8s.io", "v1", "events"): Conversion(event_to_group, event_from_group),
    ("autoscaling", "v1", "horizontalpodautoscalers"): Conversion(autoscaler_to_old, autoscaler_from_old),
}
"""By group, version and resource of the kind that is served and not stored."""
