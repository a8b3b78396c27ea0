"""Deployments."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CONTAINERS, IMAGES, NAME, SELECTOR, Cell, Column, Table
from wharfinger.api.types import apps


def _row(obj: apps.Deployment, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        f"{obj.status.readyReplicas}/{obj.spec.replicas}",
        obj.status.updatedReplicas,
        obj.status.availableReplicas,
        text.age(obj, now),
        text.container_names(obj.spec.template.spec),
        text.images(obj.spec.template.spec),
        text.selector(obj.spec.selector, present=obj.spec.HasField("selector")),
    ]


TABLE = Table(
    (
        NAME,
        Column("Ready", description="Pods that are ready, of those wanted."),
        Column("Up-to-date", description="Pods of the newest template."),
        Column("Available", description="Pods that have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    _row,
)
