"""The words that tables share: ages, label selectors, joined lists, absent values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.api import times
from wharfinger.api.types import core, intstr, meta

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"

_OPERATORS = {"In": "in", "NotIn": "notin"}


def duration(seconds: float) -> str:
    """Return a duration as Kubernetes' tables show it: ``58s``, ``4m12s``, ``3h5m``, ``2d3h``, ``1y30d``.

    Two units while the larger one is small, one afterwards; below two minutes seconds alone.
    """
    if seconds < -1:
        return "<invalid>"
    total = max(int(seconds), 0)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(moment: meta.Time | meta.MicroTime, now: float) -> str:
    """Return the time since `moment`; ``<unknown>`` when there is none."""
    if times.is_zero(moment):
        return UNKNOWN
    return duration(now - moment.seconds - moment.nanos / 1e9)


def age(obj: Any, now: float) -> str:
    """Return how old an object is."""
    return since(obj.metadata.creationTimestamp, now)


def created(obj: Any) -> str:
    """Return when an object was created, as RFC 3339."""
    return times.to_text(obj.metadata.creationTimestamp)


def joined(values: Iterable[str], *, empty: str = "") -> str:
    """Join with commas."""
    return ",".join(values) or empty


def labels(mapping: Mapping[str, str]) -> str:
    """Write a map of labels as a selector: ``a=b,c=d``."""
    return ",".join(f"{key}={mapping[key]}" for key in sorted(mapping)) or NONE


def selector(value: meta.LabelSelector, *, present: bool = True) -> str:
    """Write a LabelSelector as text: ``app=web,tier in (a,b)``; an absent or empty one is ``<none>``."""
    if not present:
        return NONE
    parts: list[tuple[str, str]] = [(key, f"{key}={text}") for key, text in value.matchLabels.items()]
    for expression in value.matchExpressions:
        parts.append((expression.key, _requirement(expression.key, expression.operator, sorted(expression.values))))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0])) or NONE


def _requirement(key: str, operator: str, values: list[str]) -> str:
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {_OPERATORS.get(operator, operator)} ({','.join(values)})"


def container_names(spec: core.PodSpec) -> str:
    """Name a template's containers."""
    return joined(container.name for container in spec.containers)


def images(spec: core.PodSpec) -> str:
    """Name a template's images."""
    return joined(container.image for container in spec.containers)


def int_or_string(value: intstr.IntOrString) -> str:
    """Write a number or a percentage."""
    return value.strVal if value.type == 1 else str(value.intVal)
