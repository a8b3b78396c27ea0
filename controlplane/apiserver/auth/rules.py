"""What the control plane's own daemons may do, as data, until roles (RBAC) are there.

The rules have the shape of RBAC's PolicyRules and follow the bootstrap roles of Kubernetes for the same users
(``system:kube-scheduler``, ``system:kube-controller-manager``), but give the controller-manager the sum of its
controllers' roles: ours runs all of them under one identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.apiserver.auth.authorizer import ALLOWED, Authorizer, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.apiserver.request import Request

READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"create", "update", "patch", "delete", "deletecollection"})
ANY = READ | WRITE


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of a group; ``*`` stands for all groups or resources."""

    verbs: frozenset[str]
    group: str
    resources: frozenset[str]
    """With subresources as ``pods/status``."""
    names: frozenset[str] = frozenset()
    """Empty: all."""

    def allows(self, request: Request) -> bool:
        """Whether the rule covers a request."""
        if request.verb not in self.verbs or self.group not in ("*", request.kind.group):
            return False
        if "*" not in self.resources:
            resource = request.kind.resource
            if (f"{resource}/{request.subresource}" if request.subresource else resource) not in self.resources:
                return False
        return not self.names or request.name in self.names


def _rule(verbs: frozenset[str], group: str, *resources: str, names: Sequence[str] = ()) -> Rule:
    return Rule(verbs, group, frozenset(resources), frozenset(names))


_SCHEDULER = (
    _rule(READ, "", "nodes", "namespaces", "pods", "services", "replicationcontrollers", "persistentvolumeclaims"),
    _rule(READ, "", "persistentvolumes", "configmaps", "endpoints"),
    _rule(READ, "apps", "replicasets", "statefulsets"),
    _rule(READ, "policy", "poddisruptionbudgets"),
    _rule(READ, "scheduling.k8s.io", "priorityclasses"),
    _rule(READ, "storage.k8s.io", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities"),
    _rule(READ, "storage.k8s.io", "volumeattachments"),
    _rule(READ, "resource.k8s.io", "resourceclaims", "resourceslices", "deviceclasses"),
    _rule(frozenset({"delete"}), "", "pods"),
    _rule(frozenset({"create"}), "", "bindings", "pods/binding"),
    _rule(frozenset({"update", "patch"}), "", "pods/status"),
    _rule(frozenset({"update", "patch"}), "", "persistentvolumeclaims", "persistentvolumes"),
    _rule(frozenset({"create", "update", "patch"}), "", "events"),
    _rule(frozenset({"create", "update", "patch"}), "events.k8s.io", "events"),
    _rule(READ | {"create"}, "coordination.k8s.io", "leases"),
    _rule(frozenset({"update", "patch"}), "coordination.k8s.io", "leases", names=["kube-scheduler"]),
)

_CONTROLLER_MANAGER = (
    # Garbage collection and the end of namespaces need every kind; the rest is the sum of the controllers' roles.
    _rule(READ | {"update", "patch", "delete", "deletecollection"}, "*", "*"),
    *(
        _rule(frozenset({"create"}), group, *resources)
        for group, resources in {
            "": (
                "pods", "events", "configmaps", "secrets", "serviceaccounts", "serviceaccounts/token", "endpoints",
                "persistentvolumes", "persistentvolumeclaims", "pods/eviction",
            ),
            "apps": ("replicasets", "controllerrevisions"),
            "batch": ("jobs",),
            "coordination.k8s.io": ("leases",),
            "discovery.k8s.io": ("endpointslices",),
            "events.k8s.io": ("events",),
            "authentication.k8s.io": ("tokenreviews",),
            "authorization.k8s.io": ("subjectaccessreviews",),
            "resource.k8s.io": ("resourceclaims",),
        }.items()
    ),
)  # fmt: skip

DAEMON_RULES: Mapping[str, tuple[Rule, ...]] = {
    "system:kube-scheduler": _SCHEDULER,
    "system:kube-controller-manager": _CONTROLLER_MANAGER,
}


class Daemons(Authorizer):
    """Allows the daemons what their rules say."""

    def __init__(self, rules: Mapping[str, tuple[Rule, ...]] = DAEMON_RULES) -> None:
        self._rules = rules

    def authorize(self, request: Request) -> Verdict | None:
        """Allow what a rule of the user covers; no opinion otherwise."""
        for rule in self._rules.get(request.user.name, ()):
            if rule.allows(request):
                return ALLOWED
        return None
