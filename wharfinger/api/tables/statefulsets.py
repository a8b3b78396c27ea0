"""StatefulSets."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CONTAINERS, IMAGES, NAME, Cell, Column, Table
from wharfinger.api.types import apps


def _row(obj: apps.StatefulSet, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        f"{obj.status.readyReplicas}/{obj.spec.replicas}",
        text.age(obj, now),
        text.container_names(obj.spec.template.spec),
        text.images(obj.spec.template.spec),
    ]


TABLE = Table(
    (NAME, Column("Ready", description="Pods that are ready, of those wanted."), AGE, CONTAINERS, IMAGES), _row
)
