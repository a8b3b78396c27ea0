"""Probes and life cycle hooks of a container.

Rules: "Configure Liveness, Readiness and Startup Probes" and "Container Lifecycle Hooks" in Kubernetes' documentation.
"""

from __future__ import annotations

from typing import Any

from wharfinger.api.types import core
from wharfinger.api.validation import names
from wharfinger.api.validation.common import nonnegative, port_or_name
from wharfinger.api.validation.errors import Errors
from wharfinger.proto import options_pb2

SIGNALS_WINDOWS = ("SIGKILL", "SIGTERM")


def validate_lifecycle(
    lifecycle: core.Lifecycle, errors: Errors, path: str, *, grace_period: int | None, os: str
) -> None:
    """Judge hooks and the stop signal; `grace_period` is the pod's, in seconds."""
    if lifecycle.HasField("postStart"):
        _validate_handler(lifecycle.postStart, errors, f"{path}.postStart", grace_period)
    if lifecycle.HasField("preStop"):
        _validate_handler(lifecycle.preStop, errors, f"{path}.preStop", grace_period)
    if lifecycle.HasField("stopSignal"):
        _validate_signal(lifecycle.stopSignal, errors, f"{path}.stopSignal", os)


def _validate_signal(signal: str, errors: Errors, path: str, os: str) -> None:
    if not os:
        errors.forbidden(path, "may not be set for containers with empty `spec.os.name`")
    elif os == "windows" and signal not in SIGNALS_WINDOWS:
        errors.not_supported(path, signal, SIGNALS_WINDOWS)
    elif signal not in _SIGNALS:
        errors.not_supported(path, signal, _SIGNALS)


def _signals() -> tuple[str, ...]:
    options: Any = core.Lifecycle.DESCRIPTOR.fields_by_name["stopSignal"].GetOptions()
    return tuple(options.Extensions[options_pb2.field].enum)


_SIGNALS = _signals()


def validate_liveness(probe: core.Probe, errors: Errors, path: str) -> None:
    """Judge a liveness or startup probe, which succeeds at once."""
    _validate_probe(probe, errors, path)
    if probe.successThreshold != 1:
        errors.invalid(f"{path}.successThreshold", probe.successThreshold, "must be 1")


def validate_readiness(probe: core.Probe, errors: Errors, path: str) -> None:
    """Judge a readiness probe, which never ends a container."""
    _validate_probe(probe, errors, path)
    if probe.HasField("terminationGracePeriodSeconds"):
        errors.invalid(
            f"{path}.terminationGracePeriodSeconds",
            probe.terminationGracePeriodSeconds,
            "must not be set for readinessProbes",
        )


def _validate_probe(probe: core.Probe, errors: Errors, path: str) -> None:
    _validate_handler(probe.handler, errors, path, None)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        nonnegative(errors, f"{path}.{field}", getattr(probe, field))
    if probe.HasField("terminationGracePeriodSeconds") and probe.terminationGracePeriodSeconds <= 0:
        errors.invalid(
            f"{path}.terminationGracePeriodSeconds", probe.terminationGracePeriodSeconds, "must be greater than 0"
        )


_KINDS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _validate_handler(
    handler: core.ProbeHandler | core.LifecycleHandler, errors: Errors, path: str, grace_period: int | None
) -> None:
    fields = handler.DESCRIPTOR.fields_by_name
    present = [kind for kind in _KINDS if kind in fields and handler.HasField(kind)]
    if not present:
        errors.required(path, "must specify a handler type")
        return
    first = present[0]
    action = getattr(handler, first)
    at = f"{path}.{first}"
    if first == "exec":
        if not action.command:
            errors.required(f"{at}.command")
    elif first == "httpGet":
        _validate_http(action, errors, at)
    elif first == "tcpSocket":
        port_or_name(action.port, errors, f"{at}.port")
    elif first == "grpc":
        errors.complaints(f"{at}.port", action.port, names.port_number(action.port))
    elif grace_period is not None and not 0 <= action.seconds <= grace_period:
        errors.invalid(
            at, action.seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
        )
    for extra in present[1:]:
        errors.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")


def _validate_http(action: core.HTTPGetAction, errors: Errors, path: str) -> None:
    if not action.path:
        errors.required(f"{path}.path")
    port_or_name(action.port, errors, f"{path}.port")
    if action.scheme not in ("HTTP", "HTTPS"):
        errors.not_supported(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for header in action.httpHeaders:
        errors.complaints(f"{path}.httpHeaders", header.name, names.header_name(header.name))
