"""DaemonSets."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CONTAINERS, IMAGES, NAME, SELECTOR, Cell, Column, Table
from wharfinger.api.types import apps


def _row(obj: apps.DaemonSet, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.status.desiredNumberScheduled,
        obj.status.currentNumberScheduled,
        obj.status.numberReady,
        obj.status.updatedNumberScheduled,
        obj.status.numberAvailable,
        text.labels(obj.spec.template.spec.nodeSelector),
        text.age(obj, now),
        text.container_names(obj.spec.template.spec),
        text.images(obj.spec.template.spec),
        text.selector(obj.spec.selector, present=obj.spec.HasField("selector")),
    ]


TABLE = Table(
    (
        NAME,
        Column("Desired", type="integer", description="Nodes that shall run the pod."),
        Column("Current", type="integer", description="Nodes that have the pod."),
        Column("Ready", type="integer", description="Nodes whose pod is ready."),
        Column("Up-to-date", type="integer", description="Nodes whose pod has the newest template."),
        Column("Available", type="integer", description="Nodes whose pod has been ready for long enough."),
        Column("Node Selector", description="Which nodes are meant."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    _row,
)
