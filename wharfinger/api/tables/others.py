"""Kinds whose tables are seldom looked at: admission, storage drivers, flow control, addresses, devices, scales."""

from __future__ import annotations

from typing import Any

from wharfinger.api import quantity
from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import (
    admissionregistration,
    apiregistration,
    autoscaling_v1,
    core,
    flowcontrol,
    networking,
    resource,
    storage,
)


def _webhooks_row(obj: Any, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.webhooks), text.age(obj, now)]


def _param_kind(spec: Any) -> str:
    kind = spec.paramKind
    return f"{kind.apiVersion}/{kind.kind}" if spec.HasField("paramKind") else text.UNSET


def _policy_row(obj: admissionregistration.ValidatingAdmissionPolicy, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.spec.validations), _param_kind(obj.spec), text.age(obj, now)]


def _mutating_policy_row(obj: admissionregistration.MutatingAdmissionPolicy, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.spec.mutations), _param_kind(obj.spec), text.age(obj, now)]


def _policy_binding_row(obj: Any, now: float) -> list[Cell]:
    spec = obj.spec
    reference = text.UNSET
    if spec.HasField("paramRef"):
        named = spec.paramRef.name
        reference = f"{spec.paramRef.namespace}/{named}" if spec.paramRef.namespace else named
    return [obj.metadata.name, spec.policyName, reference, text.age(obj, now)]


def _node_drivers_row(obj: storage.CSINode, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.spec.drivers), text.age(obj, now)]


def _driver_row(obj: storage.CSIDriver, now: float) -> list[Cell]:
    spec = obj.spec
    return [
        obj.metadata.name,
        spec.attachRequired if spec.HasField("attachRequired") else True,
        spec.podInfoOnMount,
        spec.storageCapacity,
        text.joined((request.audience for request in spec.tokenRequests), empty=text.UNSET),
        spec.requiresRepublish,
        text.joined(spec.volumeLifecycleModes, empty=text.NONE),
        text.age(obj, now),
    ]


def _capacity_row(obj: storage.CSIStorageCapacity, now: float) -> list[Cell]:
    capacity = quantity.canonical(obj.capacity.string) if obj.HasField("capacity") else text.UNSET
    return [obj.metadata.name, obj.storageClassName, capacity, text.age(obj, now)]


def _attachment_row(obj: storage.VolumeAttachment, now: float) -> list[Cell]:
    spec = obj.spec
    volume = spec.source.persistentVolumeName
    return [obj.metadata.name, spec.attacher, volume, spec.nodeName, obj.status.attached, text.age(obj, now)]


def _attributes_row(obj: storage.VolumeAttributesClass, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.driverName, text.age(obj, now)]


def _flow_row(obj: flowcontrol.FlowSchema, now: float) -> list[Cell]:
    spec = obj.spec
    dangling = next((item.status for item in obj.status.conditions if item.type == "Dangling"), "?")
    return [
        obj.metadata.name,
        spec.priorityLevelConfiguration.name,
        spec.matchingPrecedence,
        spec.distinguisherMethod.type if spec.HasField("distinguisherMethod") else text.NONE,
        text.age(obj, now),
        dangling,
    ]


def _level_row(obj: flowcontrol.PriorityLevelConfiguration, now: float) -> list[Cell]:
    spec = obj.spec
    shares: Cell = text.NONE
    queues: list[Cell] = [text.NONE, text.NONE, text.NONE]
    if spec.HasField("limited"):
        shares = spec.limited.nominalConcurrencyShares
        queuing = spec.limited.limitResponse.queuing
        if spec.limited.limitResponse.HasField("queuing"):
            queues = [queuing.queues, queuing.handSize, queuing.queueLengthLimit]
    elif spec.HasField("exempt"):
        shares = spec.exempt.nominalConcurrencyShares
    return [obj.metadata.name, spec.type, shares, *queues, text.age(obj, now)]


def _range_row(obj: networking.ServiceCIDR, now: float) -> list[Cell]:
    return [obj.metadata.name, text.joined(obj.spec.cidrs), text.age(obj, now)]


def _address_row(obj: networking.IPAddress, now: float) -> list[Cell]:
    parent = obj.spec.parentRef
    group = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
    place = "/".join(part for part in (group, parent.namespace, parent.name) if part)
    return [obj.metadata.name, place, text.age(obj, now)]


def _named_row(obj: Any, now: float) -> list[Cell]:
    return [obj.metadata.name, text.age(obj, now)]


def _claim_row(obj: resource.ResourceClaim, now: float) -> list[Cell]:
    states = ["deleted"] if obj.metadata.HasField("deletionTimestamp") else []
    if obj.status.HasField("allocation"):
        states.append("allocated")
        if obj.status.reservedFor:
            states.append("reserved")
    else:
        states.append("pending")
    return [obj.metadata.name, text.joined(states), text.age(obj, now)]


def _slice_row(obj: resource.ResourceSlice, now: float) -> list[Cell]:
    spec = obj.spec
    return [obj.metadata.name, spec.nodeName or text.UNSET, spec.driver, spec.pool.name, text.age(obj, now)]


def _service_row(obj: apiregistration.APIService, now: float) -> list[Cell]:
    spec = obj.spec
    place = f"{spec.service.namespace}/{spec.service.name}" if spec.HasField("service") else "Local"
    available = next((item for item in obj.status.conditions if item.type == "Available"), None)
    state = "Unknown" if available is None else available.status
    if available is not None and available.status != "True":
        state = f"{available.status} ({available.reason})"
    return [obj.metadata.name, place, state, text.age(obj, now)]


def _definition_row(obj: Any, now: float) -> list[Cell]:
    return [obj.metadata.name, text.created(obj)]


def _component_row(obj: core.ComponentStatus, now: float) -> list[Cell]:
    healthy = next((item for item in obj.conditions if item.type == "Healthy"), core.ComponentCondition())
    state = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.status, "Unknown")
    return [obj.metadata.name, state, healthy.message, healthy.error]


def _scale_row(obj: autoscaling_v1.Scale, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.spec.replicas, obj.status.replicas, text.age(obj, now)]


def _old_scaler_row(obj: autoscaling_v1.HorizontalPodAutoscaler, now: float) -> list[Cell]:
    spec, status = obj.spec, obj.status
    target = text.NONE
    if spec.HasField("targetCPUUtilizationPercentage"):
        used = (
            f"{status.currentCPUUtilizationPercentage}%" if status.HasField("currentCPUUtilizationPercentage") else ""
        )
        target = f"cpu: {used or text.UNKNOWN}/{spec.targetCPUUtilizationPercentage}%"
    return [
        obj.metadata.name,
        f"{spec.scaleTargetRef.kind}/{spec.scaleTargetRef.name}",
        target,
        str(spec.minReplicas) if spec.HasField("minReplicas") else text.UNSET,
        spec.maxReplicas,
        status.currentReplicas,
        text.age(obj, now),
    ]


def _column(name: str, description: str, kind: str = "string") -> Column:
    return Column(name, kind, description=description)


_PARAM_KIND = _column("ParamKind", "What kind of object parameterises it.")
WEBHOOKS = Table((NAME, _column("Webhooks", "How many webhooks it has.", "integer"), AGE), _webhooks_row)
POLICIES = Table((NAME, _column("Validations", "How many validations.", "integer"), _PARAM_KIND, AGE), _policy_row)
MUTATING_POLICIES = Table(
    (NAME, _column("Mutations", "How many mutations.", "integer"), _PARAM_KIND, AGE), _mutating_policy_row
)
POLICY_BINDINGS = Table(
    (NAME, _column("PolicyName", "The policy that is bound."), _column("ParamRef", "Its parameters."), AGE),
    _policy_binding_row,
)
NODE_DRIVERS = Table((NAME, _column("Drivers", "How many drivers the node has.", "integer"), AGE), _node_drivers_row)
DRIVERS = Table(
    (
        NAME,
        _column("AttachRequired", "Whether volumes are attached before they are mounted.", "boolean"),
        _column("PodInfoOnMount", "Whether the driver is told about the pod.", "boolean"),
        _column("StorageCapacity", "Whether the driver says how much room it has.", "boolean"),
        _column("TokenRequests", "For whom tokens are handed to the driver."),
        _column("RequiresRepublish", "Whether volumes are published again and again.", "boolean"),
        _column("Modes", "Kinds of volumes that the driver knows."),
        AGE,
    ),
    _driver_row,
)
CAPACITIES = Table(
    (NAME, _column("StorageClassName", "The class that it is about."), _column("Capacity", "How much room."), AGE),
    _capacity_row,
)
ATTACHMENTS = Table(
    (
        NAME,
        Column("Attacher", format="name", description="Who attaches."),
        _column("PV", "The volume."),
        _column("Node", "The node."),
        _column("Attached", "Whether it is attached.", "boolean"),
        AGE,
    ),
    _attachment_row,
)
ATTRIBUTES = Table((NAME, _column("DriverName", "The driver."), AGE), _attributes_row)
FLOWS = Table(
    (
        NAME,
        _column("PriorityLevel", "The level that its requests get."),
        _column("MatchingPrecedence", "Lower ones are asked first.", "integer"),
        _column("DistinguisherMethod", "What makes flows of requests."),
        AGE,
        _column("MissingPL", "Whether its level is missing."),
    ),
    _flow_row,
)
LEVELS = Table(
    (
        NAME,
        _column("Type", "Limited or Exempt."),
        _column("NominalConcurrencyShares", "Its share of what the server does at once."),
        _column("Queues", "How many queues."),
        _column("HandSize", "How many queues a flow is dealt."),
        _column("QueueLengthLimit", "Requests in one queue at most."),
        AGE,
    ),
    _level_row,
)
RANGES = Table((NAME, _column("CIDRs", "The ranges."), AGE), _range_row)
ADDRESSES = Table((NAME, _column("ParentRef", "Who uses the address."), AGE), _address_row)
NAMED = Table((NAME, AGE), _named_row)
CLAIMS = Table((NAME, _column("State", "How far it has come."), AGE), _claim_row)
SLICES = Table(
    (NAME, _column("Node", "The node."), _column("Driver", "The driver."), _column("Pool", "The pool."), AGE),
    _slice_row,
)
SERVICES = Table(
    (NAME, _column("Service", "Who serves it."), _column("Available", "Whether it can be used."), AGE), _service_row
)
DEFINITIONS = Table((NAME, Column("Created At", "date", description="When it was created.")), _definition_row)
COMPONENTS = Table(
    (
        NAME,
        _column("Status", "Whether it is well."),
        _column("Message", "What it says."),
        _column("Error", "What is wrong."),
    ),
    _component_row,
)
SCALES = Table(
    (
        Column("Name", description="The name of the object that is scaled."),
        _column("Desired", "Replicas wanted.", "integer"),
        _column("Available", "Replicas there are.", "integer"),
        AGE,
    ),
    _scale_row,
)
OLD_SCALERS = Table(
    (
        NAME,
        _column("Reference", "What is scaled."),
        _column("Targets", "Measures now and as wanted."),
        _column("MinPods", "Fewest replicas."),
        _column("MaxPods", "Most replicas."),
        _column("Replicas", "Replicas there are."),
        AGE,
    ),
    _old_scaler_row,
)
