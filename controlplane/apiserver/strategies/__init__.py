"""The table of strategies: one line a kind that differs from the defaults.

Adding a kind is its messages in ``proto/``, and a line here if it needs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies import others
from controlplane.apiserver.strategies.base import Strategy
from controlplane.apiserver.strategies.deployments import DaemonSetStrategy, DeploymentStrategy
from controlplane.apiserver.strategies.events import EventStrategy
from controlplane.apiserver.strategies.jobs import JobStrategy
from controlplane.apiserver.strategies.leases import LeaseStrategy
from controlplane.apiserver.strategies.namespaces import NamespaceStrategy
from controlplane.apiserver.strategies.nodes import NodeStrategy
from controlplane.apiserver.strategies.pods import PodStrategy
from controlplane.apiserver.strategies.priorityclasses import PriorityClassStrategy
from controlplane.apiserver.strategies.replicasets import ReplicationControllerStrategy
from controlplane.apiserver.strategies.secrets import SecretStrategy
from controlplane.apiserver.strategies.services import ServiceStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.kinds import Kind

STRATEGIES: Mapping[tuple[str, str], type[Strategy]] = {
    ("", "pods"): PodStrategy,
    ("", "nodes"): NodeStrategy,
    ("", "namespaces"): NamespaceStrategy,
    ("", "services"): ServiceStrategy,
    ("", "secrets"): SecretStrategy,
    ("", "events"): EventStrategy,
    ("", "endpoints"): others.CreateOnUpdate,
    ("", "limitranges"): others.CreateOnUpdate,
    ("", "persistentvolumes"): others.PersistentVolumeStrategy,
    ("", "persistentvolumeclaims"): others.PersistentVolumeClaimStrategy,
    ("", "podtemplates"): others.PodTemplateStrategy,
    ("", "replicationcontrollers"): ReplicationControllerStrategy,
    ("", "resourcequotas"): others.ResourceQuotaStrategy,
    ("", "serviceaccounts"): others.ServiceAccountStrategy,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): others.VersionedCounted,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): others.VersionedCounted,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): others.VersionedCounted,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): others.VersionedCounted,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): others.Versioned,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): others.VersionedCounted,
    ("apiextensions.k8s.io", "customresourcedefinitions"): others.DefinitionStrategy,
    ("apiregistration.k8s.io", "apiservices"): others.VersionedUncounted,
    ("apps", "daemonsets"): DaemonSetStrategy,
    ("apps", "deployments"): DeploymentStrategy,
    ("autoscaling", "horizontalpodautoscalers"): others.Uncounted,
    ("batch", "jobs"): JobStrategy,
    ("certificates.k8s.io", "certificatesigningrequests"): others.CertificateSigningRequestStrategy,
    ("coordination.k8s.io", "leases"): LeaseStrategy,
    ("discovery.k8s.io", "endpointslices"): others.Counted,
    ("events.k8s.io", "events"): EventStrategy,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): others.Versioned,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): others.Versioned,
    ("networking.k8s.io", "ingressclasses"): others.Counted,
    ("networking.k8s.io", "networkpolicies"): others.Counted,
    ("networking.k8s.io", "servicecidrs"): others.Uncounted,
    ("node.k8s.io", "runtimeclasses"): others.Versioned,
    ("policy", "poddisruptionbudgets"): others.Versioned,
    ("rbac.authorization.k8s.io", "clusterroles"): others.CreateOnUpdate,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): others.CreateOnUpdate,
    ("rbac.authorization.k8s.io", "roles"): others.CreateOnUpdate,
    ("rbac.authorization.k8s.io", "rolebindings"): others.CreateOnUpdate,
    ("resource.k8s.io", "resourceclaims"): others.Uncounted,
    ("resource.k8s.io", "resourceslices"): others.Counted,
    ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy,
    ("storage.k8s.io", "csidrivers"): others.Versioned,
    ("storage.k8s.io", "csinodes"): others.VersionedUncounted,
    ("storage.k8s.io", "volumeattachments"): others.VersionedUncounted,
}


def strategy_for(kind: Kind) -> Strategy:
    """Return the strategy of a kind."""
    return STRATEGIES.get((kind.group, kind.resource), Strategy)(kind)


__all__ = ["STRATEGIES", "Strategy", "strategy_for"]
