"""PodDisruptionBudgets, PriorityClasses, PodGroups, RuntimeClasses, Leases, autoscalers and revisions."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import apps, autoscaling, coordination, core, gangs, node, policy, scheduling


def _budget_row(obj: policy.PodDisruptionBudget, now: float) -> list[Cell]:
    spec = obj.spec
    return [
        obj.metadata.name,
        text.int_or_string(spec.minAvailable) if spec.HasField("minAvailable") else "N/A",
        text.int_or_string(spec.maxUnavailable) if spec.HasField("maxUnavailable") else "N/A",
        obj.status.disruptionsAllowed,
        text.age(obj, now),
    ]


def _priority_row(obj: scheduling.PriorityClass, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.value, obj.globalDefault, text.age(obj, now), obj.preemptionPolicy]


def _group_row(obj: gangs.PodGroup, now: float) -> list[Cell]:
    status = obj.status
    why = next((one.reason for one in status.conditions if one.type == "Scheduled"), "")
    return [
        obj.metadata.name,
        status.phase or "Pending",
        obj.spec.minMember,
        status.members,
        status.scheduled,
        text.age(obj, now),
        status.succeeded,
        why or text.NONE,
    ]


def _runtime_row(obj: node.RuntimeClass, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.handler, text.age(obj, now)]


def _lease_row(obj: coordination.Lease, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.spec.holderIdentity, text.age(obj, now)]


def _revision_row(obj: apps.ControllerRevision, now: float) -> list[Cell]:
    owner = next((one for one in obj.metadata.ownerReferences if one.controller), None)
    group = owner.apiVersion.rpartition("/")[0] if owner is not None else ""
    named = f"{owner.kind.lower()}{'.' + group if group else ''}/{owner.name}" if owner is not None else text.NONE
    return [obj.metadata.name, named, obj.revision, text.age(obj, now)]


def _template_row(obj: core.PodTemplate, now: float) -> list[Cell]:
    template = obj.template
    return [
        obj.metadata.name,
        text.container_names(template.spec),
        text.images(template.spec),
        text.labels(template.metadata.labels),
    ]


_METRICS_SHOWN = 2
_METRIC_FIELDS = {
    "Resource": "resource", "ContainerResource": "containerResource", "Pods": "pods", "Object": "object",
    "External": "external",
}  # fmt: skip


def _target(metric: autoscaling.MetricSpec, current: autoscaling.MetricStatus | None) -> str:
    kind = metric.type
    field = _METRIC_FIELDS.get(kind)
    if field is None:
        return text.UNKNOWN
    wanted = getattr(metric, field)
    seen = getattr(current, field).current if current is not None else None
    target = wanted.target
    label = f"{wanted.name}: " if field in ("resource", "containerResource") else ""
    if target.HasField("averageUtilization") and field in ("resource", "containerResource"):
        used = f"{seen.averageUtilization}%" if seen is not None and seen.HasField("averageUtilization") else ""
        return f"{label}{used or text.UNKNOWN}/{target.averageUtilization}%"
    if target.HasField("averageValue"):
        used = seen.averageValue.string if seen is not None else ""
        suffix = " (avg)" if field in ("object", "external") else ""
        return f"{label}{used or text.UNKNOWN}/{target.averageValue.string}{suffix}"
    used = seen.value.string if seen is not None else ""
    return f"{label}{used or text.UNKNOWN}/{target.value.string}"


def _scaler_row(obj: autoscaling.HorizontalPodAutoscaler, now: float) -> list[Cell]:
    current = list(obj.status.currentMetrics)
    targets = [
        _target(metric, current[index] if index < len(current) and current[index].type == metric.type else None)
        for index, metric in enumerate(obj.spec.metrics)
    ]
    shown = ", ".join(targets[:_METRICS_SHOWN]) or text.NONE
    if len(targets) > _METRICS_SHOWN:
        shown += f" + {len(targets) - _METRICS_SHOWN} more..."
    reference = obj.spec.scaleTargetRef
    return [
        obj.metadata.name,
        f"{reference.kind}/{reference.name}",
        shown,
        str(obj.spec.minReplicas) if obj.spec.HasField("minReplicas") else text.UNSET,
        obj.spec.maxReplicas,
        obj.status.currentReplicas,
        text.age(obj, now),
    ]


BUDGETS = Table(
    (
        NAME,
        Column("Min Available", description="How many pods must stay available."),
        Column("Max Unavailable", description="How many pods may be unavailable."),
        Column("Allowed Disruptions", type="integer", description="How many pods may be evicted now."),
        AGE,
    ),
    _budget_row,
)
PRIORITY_CLASSES = Table(
    (
        NAME,
        Column("Value", type="integer", description="The priority that pods of the class get."),
        Column("Global-Default", type="boolean", description="Whether pods without a class get it."),
        AGE,
        Column("PreemptionPolicy", description="Whether its pods may displace others."),
    ),
    _priority_row,
)
POD_GROUPS = Table(
    (
        NAME,
        Column("Phase", description="How far the group has come."),
        Column("Min-Member", type="integer", description="How many members must be able to run at the same time."),
        Column("Members", type="integer", description="How many members there are."),
        Column("Scheduled", type="integer", description="How many members have a node."),
        AGE,
        Column("Succeeded", type="integer", priority=1, description="How many members have succeeded."),
        Column("Reason", priority=1, description="Why the group has, or has not, its nodes."),
    ),
    _group_row,
)
RUNTIME_CLASSES = Table((NAME, Column("Handler", description="The runtime's configuration."), AGE), _runtime_row)
LEASES = Table((NAME, Column("Holder", description="Who holds the lease."), AGE), _lease_row)
REVISIONS = Table(
    (
        NAME,
        Column("Controller", description="Whose revision it is."),
        Column("Revision", description="Its number."),
        AGE,
    ),
    _revision_row,
)
TEMPLATES = Table(
    (
        NAME,
        Column("Containers", description="Names of the template's containers."),
        Column("Images", description="Images of the template's containers."),
        Column("Pod Labels", description="Labels of the template."),
    ),
    _template_row,
)
SCALERS = Table(
    (
        NAME,
        Column("Reference", description="What is scaled."),
        Column("Targets", description="Each metric: what it is, and what it shall be."),
        Column("MinPods", description="How few pods there may be."),
        Column("MaxPods", description="How many pods there may be."),
        Column("Replicas", description="How many pods there are."),
        AGE,
    ),
    _scaler_row,
)
