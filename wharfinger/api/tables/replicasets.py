"""ReplicaSets and ReplicationControllers, which show the same columns."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CONTAINERS, IMAGES, NAME, SELECTOR, Cell, Column, Table
from wharfinger.api.types import apps, core

_COLUMNS = (
    NAME,
    Column("Desired", type="integer", description="How many pods there shall be."),
    Column("Current", type="integer", description="How many pods there are."),
    Column("Ready", type="integer", description="How many of them are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def _row(obj: apps.ReplicaSet, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.spec.replicas,
        obj.status.replicas,
        obj.status.readyReplicas,
        text.age(obj, now),
        text.container_names(obj.spec.template.spec),
        text.images(obj.spec.template.spec),
        text.selector(obj.spec.selector, present=obj.spec.HasField("selector")),
    ]


def _controller_row(obj: core.ReplicationController, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.spec.replicas,
        obj.status.replicas,
        obj.status.readyReplicas,
        text.age(obj, now),
        text.container_names(obj.spec.template.spec),
        text.images(obj.spec.template.spec),
        text.labels(obj.spec.selector),
    ]


TABLE = Table(_COLUMNS, _row)
CONTROLLERS = Table(_COLUMNS, _controller_row)
