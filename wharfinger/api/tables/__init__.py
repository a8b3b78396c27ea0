"""Tables: what ``get`` shows of each kind.

One module holds the columns of one kind, or of a few that belong together, and one line here says which. The module
is imported when its table is first asked for; kinds without one show name and age.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind

__all__ = ["Cell", "Column", "Table", "table_for"]

_TABLES: dict[tuple[str, str], str] = {
    ("", "Pod"): "pods",
    ("", "Node"): "nodes",
    ("", "Namespace"): "cluster:NAMESPACES",
    ("", "LimitRange"): "cluster:LIMITS",
    ("", "ResourceQuota"): "cluster:QUOTAS",
    ("", "Service"): "services",
    ("", "Endpoints"): "endpoints",
    ("discovery.k8s.io", "EndpointSlice"): "endpoints:SLICES",
    ("", "Event"): "events",
    ("events.k8s.io", "Event"): "events:NEW",
    ("", "ConfigMap"): "configuration:CONFIG_MAPS",
    ("", "Secret"): "configuration:SECRETS",
    ("", "ServiceAccount"): "configuration:ACCOUNTS",
    ("", "PodTemplate"): "policies:TEMPLATES",
    ("", "ReplicationController"): "replicasets:CONTROLLERS",
    ("", "PersistentVolume"): "volumes:VOLUMES",
    ("", "PersistentVolumeClaim"): "volumes:CLAIMS",
    ("storage.k8s.io", "StorageClass"): "volumes:CLASSES",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "DaemonSet"): "daemonsets",
    ("apps", "ControllerRevision"): "policies:REVISIONS",
    ("batch", "Job"): "jobs",
    ("batch", "CronJob"): "jobs:CRON",
    ("autoscaling", "HorizontalPodAutoscaler"): "policies:SCALERS",
    ("coordination.k8s.io", "Lease"): "policies:LEASES",
    ("policy", "PodDisruptionBudget"): "policies:BUDGETS",
    ("scheduling.k8s.io", "PriorityClass"): "policies:PRIORITY_CLASSES",
    ("scheduling.wharfinger.dev", "PodGroup"): "policies:POD_GROUPS",
    ("node.k8s.io", "RuntimeClass"): "policies:RUNTIME_CLASSES",
    ("networking.k8s.io", "Ingress"): "ingresses",
    ("networking.k8s.io", "IngressClass"): "ingresses:CLASSES",
    ("networking.k8s.io", "NetworkPolicy"): "ingresses:POLICIES",
    ("rbac.authorization.k8s.io", "Role"): "access:ROLES",
    ("rbac.authorization.k8s.io", "ClusterRole"): "access:ROLES",
    ("rbac.authorization.k8s.io", "RoleBinding"): "access:BINDINGS",
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): "access:BINDINGS",
    ("certificates.k8s.io", "CertificateSigningRequest"): "access:REQUESTS",
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): "others:WEBHOOKS",
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): "others:WEBHOOKS",
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): "others:POLICIES",
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): "others:POLICY_BINDINGS",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): "others:MUTATING_POLICIES",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): "others:POLICY_BINDINGS",
    ("storage.k8s.io", "CSINode"): "others:NODE_DRIVERS",
    ("storage.k8s.io", "CSIDriver"): "others:DRIVERS",
    ("storage.k8s.io", "CSIStorageCapacity"): "others:CAPACITIES",
    ("storage.k8s.io", "VolumeAttachment"): "others:ATTACHMENTS",
    ("storage.k8s.io", "VolumeAttributesClass"): "others:ATTRIBUTES",
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): "others:FLOWS",
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): "others:LEVELS",
    ("networking.k8s.io", "ServiceCIDR"): "others:RANGES",
    ("networking.k8s.io", "IPAddress"): "others:ADDRESSES",
    ("resource.k8s.io", "DeviceClass"): "others:NAMED",
    ("resource.k8s.io", "ResourceClaim"): "others:CLAIMS",
    ("resource.k8s.io", "ResourceClaimTemplate"): "others:NAMED",
    ("resource.k8s.io", "ResourceSlice"): "others:SLICES",
    ("apiregistration.k8s.io", "APIService"): "others:SERVICES",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "others:DEFINITIONS",
    ("", "ComponentStatus"): "others:COMPONENTS",
    ("autoscaling", "Scale"): "others:SCALES",
}


def _generic_row(obj: Any, now: float) -> list[Cell]:
    from wharfinger.api.tables import text

    return [obj.metadata.name, text.age(obj, now)]


GENERIC = Table((NAME, AGE), _generic_row)
"""Name and age, for kinds without a table of their own."""


@cache
def _load(target: str) -> Table:
    module, _, attribute = target.partition(":")
    table: Table = getattr(importlib.import_module(f"{__name__}.{module}"), attribute or "TABLE")
    return table


def table_for(kind: Kind) -> Table:
    """Return the table of a kind."""
    if kind.table is not None:
        return kind.table
    if (kind.version, kind.kind) == ("v1", "HorizontalPodAutoscaler"):
        return _load("others:OLD_SCALERS")
    target = _TABLES.get((kind.group, kind.kind))
    return _load(target) if target else GENERIC
