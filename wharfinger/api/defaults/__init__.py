"""Fills in what an object leaves open, as Kubernetes documents it for each kind.

:func:`apply` changes an object in place and may be called again: what is set stays. It needs nothing but the object.
What depends on other objects or on the request (addresses, accounts, priorities, generated names) is the server's
admission and comes later.

Some rules are conversions in Kubernetes: the two names of a pod's service account, the single and the listed addresses,
a secret's text. They stand here because an object in memory is the version that clients see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from wharfinger.api.defaults import basics, others, pods, services, workloads
from wharfinger.api.types import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    autoscaling,
    autoscaling_v1,
    batch,
    core,
    discovery,
    flowcontrol,
    gangs,
    networking,
    rbac,
    scheduling,
    storage,
)

__all__ = ["apply"]

_RULES: dict[type[Message], Callable[[Any], None]] = {
    core.Pod: pods.apply_pod,
    core.PodTemplate: workloads.apply_pod_template,
    core.Service: services.apply_service,
    core.Endpoints: services.apply_endpoints,
    discovery.EndpointSlice: services.apply_slice,
    core.Namespace: basics.apply_namespace,
    core.Node: basics.apply_node,
    core.Secret: basics.apply_secret,
    core.PersistentVolume: basics.apply_volume,
    core.PersistentVolumeClaim: basics.apply_claim,
    core.LimitRange: basics.apply_limits,
    core.ResourceQuota: basics.apply_quota,
    core.ReplicationController: workloads.apply_controller,
    scheduling.PriorityClass: basics.apply_priority,
    gangs.PodGroup: basics.apply_group,
    storage.StorageClass: basics.apply_storage_class,
    storage.CSIDriver: basics.apply_csi_driver,
    apps.ReplicaSet: workloads.apply_replica_set,
    apps.Deployment: workloads.apply_deployment,
    apps.DaemonSet: workloads.apply_daemon_set,
    apps.StatefulSet: workloads.apply_stateful_set,
    batch.Job: workloads.apply_job,
    batch.CronJob: workloads.apply_cron_job,
    rbac.RoleBinding: others.apply_binding,
    rbac.ClusterRoleBinding: others.apply_binding,
    networking.NetworkPolicy: others.apply_network_policy,
    networking.IngressClass: others.apply_ingress_class,
    autoscaling.HorizontalPodAutoscaler: others.apply_autoscaler,
    autoscaling_v1.HorizontalPodAutoscaler: others.apply_old_autoscaler,
    admissionregistration.MutatingWebhookConfiguration: others.apply_mutating_webhooks,
    admissionregistration.ValidatingWebhookConfiguration: others.apply_validating_webhooks,
    admissionregistration.ValidatingAdmissionPolicy: others.apply_admission_policy,
    admissionregistration.ValidatingAdmissionPolicyBinding: others.apply_admission_binding,
    apiregistration.APIService: others.apply_api_service,
    flowcontrol.FlowSchema: others.apply_flow_schema,
    flowcontrol.PriorityLevelConfiguration: others.apply_priority_level,
    apiextensions.CustomResourceDefinition: others.apply_definition,
}


def apply(obj: Message) -> None:
    """Fill in an object in place."""
    rule = _RULES.get(type(obj))
    if rule is not None:
        rule(obj)
