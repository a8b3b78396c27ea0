"""Horizontal autoscalers. Rules: "Horizontal Pod Autoscaling" in Kubernetes' documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wharfinger.api.types import autoscaling, autoscaling_v1
from wharfinger.api.types import quantity as messages
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import amount, nonnegative, one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_MAX_STABILIZATION = 3600
_MAX_PERIOD = 1800
_TARGET_TYPES = ("AverageValue", "Utilization", "Value")


def _create(scaler: autoscaling.HorizontalPodAutoscaler, errors: Errors) -> None:
    metadata.validate_kind(scaler.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _validate_spec(scaler.spec, errors)


def _validate_counts(
    spec: autoscaling.HorizontalPodAutoscalerSpec | autoscaling_v1.HorizontalPodAutoscalerSpec, errors: Errors
) -> None:
    least, most = spec.minReplicas, spec.maxReplicas
    if spec.HasField("minReplicas") and least < 1:
        errors.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if not most:
        errors.required("spec.maxReplicas")
    elif most < 1:
        errors.invalid("spec.maxReplicas", most, "must be greater than 0")
    if spec.HasField("minReplicas") and most < least:
        errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    _validate_reference(spec.scaleTargetRef, errors, "spec.scaleTargetRef")


def _validate_spec(spec: autoscaling.HorizontalPodAutoscalerSpec, errors: Errors) -> None:
    _validate_counts(spec, errors)
    _validate_metrics(spec, errors)
    if spec.HasField("behavior"):
        for field in ("scaleUp", "scaleDown"):
            if spec.behavior.HasField(field):
                _validate_rules(getattr(spec.behavior, field), errors, f"spec.behavior.{field}")


def _validate_reference(
    reference: autoscaling.CrossVersionObjectReference | autoscaling_v1.CrossVersionObjectReference,
    errors: Errors,
    path: str,
) -> None:
    for field in ("kind", "name"):
        value = getattr(reference, field)
        if not value:
            errors.required(f"{path}.{field}")
        else:
            errors.complaints(f"{path}.{field}", value, names.path_segment(value))
    text = reference.apiVersion
    group, slash, version = text.rpartition("/")
    if not version or "/" in group or (slash and not group):
        errors.invalid(f"{path}.apiVersion", text, "must be a version such as 'v1' or 'apps/v1'")
        return
    if group:
        errors.complaints(f"{path}.apiVersion", group, names.dns1123_subdomain(group))
    errors.complaints(f"{path}.apiVersion", version, names.dns1035_label(version))


def _validate_metrics(spec: autoscaling.HorizontalPodAutoscalerSpec, errors: Errors) -> None:
    path = "spec.metrics"
    for index, metric in enumerate(spec.metrics):
        _validate_metric(metric, errors, f"{path}[{index}]")
    to_zero = spec.HasField("minReplicas") and not spec.minReplicas
    if to_zero and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        errors.forbidden(path, "must specify at least one Object or External metric to scale to zero replicas")


def _validate_metric(metric: autoscaling.MetricSpec, errors: Errors, path: str) -> None:
    kind = metric.type
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        errors.not_supported(f"{path}.type", kind, sorted(_SOURCES))
    present = [field for field, _ in _SOURCES.values() if metric.HasField(field)]
    if present:
        first = present[0]
        rule = next(rule for field, rule in _SOURCES.values() if field == first)
        rule(getattr(metric, first), errors, f"{path}.{first}")
    if kind in _SOURCES:
        wanted = _SOURCES[kind][0]
        if wanted not in present:
            errors.required(f"{path}.{wanted}", "must populate information for the given metric source")
    else:
        # The reference asks twice what kind of metric it is.
        errors.not_supported(f"{path}.type", kind, sorted(_SOURCES))
        wanted = ""
    if len(present) > 1:
        for field in sorted(present):
            if field != wanted:
                errors.forbidden(f"{path}.{field}", "must populate the given metric source only")


def _validate_identifier(metric: autoscaling.MetricIdentifier, errors: Errors, path: str) -> None:
    if not metric.name:
        errors.required(f"{path}.name", "must specify a metric name")
    else:
        errors.complaints(f"{path}.name", metric.name, names.path_segment(metric.name))


def _validate_target(target: autoscaling.MetricTarget, errors: Errors, path: str) -> None:
    if not target.type:
        errors.required(f"{path}.type", "must specify a metric target type")
    one_of(errors, f"{path}.type", target.type, _TARGET_TYPES)
    for field in ("value", "averageValue"):
        if target.HasField(field):
            _positive(getattr(target, field), errors, f"{path}.{field}")
    if target.HasField("averageUtilization") and target.averageUtilization < 1:
        errors.invalid(f"{path}.averageUtilization", target.averageUtilization, "must be greater than 0")


def _positive(value: messages.Quantity, errors: Errors, path: str) -> None:
    if amount(value).nanos <= 0:
        errors.invalid(path, value.string, "must be positive")


def _object(source: autoscaling.ObjectMetricSource, errors: Errors, path: str) -> None:
    _validate_reference(source.describedObject, errors, f"{path}.describedObject")
    _validate_identifier(source.metric, errors, f"{path}.metric")
    _validate_target(source.target, errors, f"{path}.target")
    if not source.target.HasField("value") and not source.target.HasField("averageValue"):
        errors.required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external(source: autoscaling.ExternalMetricSource, errors: Errors, path: str) -> None:
    _validate_identifier(source.metric, errors, f"{path}.metric")
    _validate_target(source.target, errors, f"{path}.target")
    has_value, has_average = source.target.HasField("value"), source.target.HasField("averageValue")
    if not has_value and not has_average:
        errors.required(f"{path}.target.averageValue", "must set either a target value for metric or a per-pod target")
    if has_value and has_average:
        errors.forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")


def _pods(source: autoscaling.PodsMetricSource, errors: Errors, path: str) -> None:
    _validate_identifier(source.metric, errors, f"{path}.metric")
    _validate_target(source.target, errors, f"{path}.target")
    if not source.target.HasField("averageValue") or amount(source.target.averageValue).nanos <= 0:
        errors.required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(
    source: autoscaling.ResourceMetricSource | autoscaling.ContainerResourceMetricSource, errors: Errors, path: str
) -> None:
    if not source.name:
        errors.required(f"{path}.name", "must specify a resource name")
    if isinstance(source, autoscaling.ContainerResourceMetricSource) and not source.container:
        errors.required(f"{path}.container", "must specify a container")
    target = source.target
    _validate_target(target, errors, f"{path}.target")
    if not target.HasField("averageUtilization") and not target.HasField("averageValue"):
        errors.required(f"{path}.target.averageUtilization", "must set either a raw value or a target utilization")
    if target.HasField("averageUtilization") and target.HasField("averageValue"):
        errors.forbidden(f"{path}.target.averageValue", "may not set both a raw value and a target utilization")


_SOURCES: dict[str, tuple[str, Callable[[Any, Errors, str], None]]] = {
    "Object": ("object", _object),
    "External": ("external", _external),
    "Pods": ("pods", _pods),
    "Resource": ("resource", _resource),
    "ContainerResource": ("containerResource", _resource),
}
"""By type: the field that holds the source, and its rule."""


def _validate_rules(rules: autoscaling.HPAScalingRules, errors: Errors, path: str) -> None:
    if rules.HasField("stabilizationWindowSeconds"):
        seconds = rules.stabilizationWindowSeconds
        if not 0 <= seconds <= _MAX_STABILIZATION:
            errors.invalid(f"{path}.stabilizationWindowSeconds", seconds, f"must be between 0 and {_MAX_STABILIZATION}")
    if rules.HasField("selectPolicy"):
        one_of(errors, f"{path}.selectPolicy", rules.selectPolicy, ("Disabled", "Max", "Min"))
    if not rules.policies:
        errors.required(f"{path}.policies", "must specify at least one Policy")
    _validate_policies(rules.policies, errors, f"{path}.policies")
    if rules.HasField("tolerance") and amount(rules.tolerance).nanos < 0:
        errors.invalid(f"{path}.tolerance", rules.tolerance.string, "must be greater than or equal to 0")


def _validate_policies(policies: Sequence[autoscaling.HPAScalingPolicy], errors: Errors, path: str) -> None:
    for index, policy in enumerate(policies):
        at = f"{path}[{index}]"
        one_of(errors, f"{at}.type", policy.type, ("Percent", "Pods"))
        if policy.value <= 0:
            errors.invalid(f"{at}.value", policy.value, "must be greater than zero")
        if not 0 < policy.periodSeconds <= _MAX_PERIOD:
            errors.invalid(f"{at}.periodSeconds", policy.periodSeconds, f"must be between 1 and {_MAX_PERIOD}")


def _update(
    scaler: autoscaling.HorizontalPodAutoscaler, old: autoscaling.HorizontalPodAutoscaler, errors: Errors
) -> None:
    metadata.validate_kind_update(scaler.metadata, old.metadata, errors)
    _create(scaler, errors)


def _update_status(scaler: Any, old: Any, errors: Errors) -> None:
    metadata.validate_kind_update(scaler.metadata, old.metadata, errors)
    nonnegative(errors, "status.currentReplicas", scaler.status.currentReplicas)
    nonnegative(errors, "status.desiredReplicas", scaler.status.desiredReplicas)


def _create_old(scaler: autoscaling_v1.HorizontalPodAutoscaler, errors: Errors) -> None:
    metadata.validate_kind(scaler.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _validate_counts(scaler.spec, errors)
    if scaler.spec.HasField("targetCPUUtilizationPercentage") and scaler.spec.targetCPUUtilizationPercentage < 1:
        # Reported where the newer version keeps it.
        errors.invalid(
            "spec.metrics[0].resource.target.averageUtilization",
            scaler.spec.targetCPUUtilizationPercentage,
            "must be greater than 0",
        )


def _update_old(
    scaler: autoscaling_v1.HorizontalPodAutoscaler, old: autoscaling_v1.HorizontalPodAutoscaler, errors: Errors
) -> None:
    metadata.validate_kind_update(scaler.metadata, old.metadata, errors)
    _create_old(scaler, errors)


RULES: dict[Any, Rules] = {
    autoscaling.HorizontalPodAutoscaler: Rules(create=_create, update=_update, subresources={"status": _update_status}),
    autoscaling_v1.HorizontalPodAutoscaler: Rules(
        create=_create_old, update=_update_old, subresources={"status": _update_status}
    ),
}
