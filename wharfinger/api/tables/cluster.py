"""Namespaces, limits and quotas."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CREATED, NAME, Cell, Column, Table
from wharfinger.api.types import core


def _namespace_row(obj: core.Namespace, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.status.phase, text.age(obj, now)]


def _limit_row(obj: core.LimitRange, now: float) -> list[Cell]:
    return [obj.metadata.name, text.created(obj)]


def _quota_row(obj: core.ResourceQuota, now: float) -> list[Cell]:
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(obj.status.hard):
        used = obj.status.used[name].string if name in obj.status.used else "0"
        entry = f"{name}: {used}/{obj.status.hard[name].string}"
        (limits if name.startswith("limits") else requests).append(entry)
    return [obj.metadata.name, ", ".join(requests), ", ".join(limits), text.age(obj, now)]


NAMESPACES = Table((NAME, Column("Status", description="Active, or on its way out."), AGE), _namespace_row)
LIMITS = Table((NAME, CREATED), _limit_row)
QUOTAS = Table(
    (
        NAME,
        Column("Request", description="Used of what may be requested and made."),
        Column("Limit", description="Used of what limits may add up to."),
        AGE,
    ),
    _quota_row,
)
