"""Who may do what: users, and rows of what each of them asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMESPACE = "who"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:robot"
USERS: dict[str, tuple[str, list[str]] | None] = {
    "anonymous": None,
    "plain": ("alice", ["devs"]),
    "viewer": ("vera", []),
    "own": ("system:node:own", ["system:nodes"]),
    "other": ("system:node:other", ["system:nodes"]),
    "account": (ACCOUNT, ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]),
    "joining": ("system:bootstrap:abcdef", ["system:bootstrappers"]),
    "scheduler": ("system:kube-scheduler", []),
    "manager": ("system:kube-controller-manager", []),
    "admin": ("root", ["system:masters"]),
}


@dataclass(frozen=True)
class Row:
    """One thing to do; writes are dry runs."""

    verb: str
    path: str
    """``RESOURCE[/NAME[/SUBRESOURCE]]``, with the group after a dot; ``who:`` in front puts it into the namespace."""
    allowed: frozenset[str]
    selector: str = ""
    body: Any = None
    code: int = 0
    """What those get who may, if not success: the thing is not there, or cannot be done."""

    def expected(self, who: str, *, success: int = 200) -> int:
        """Return the code of the answer to a user."""
        return 403 if who not in self.allowed else self.code or success

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.selector}".strip()


def _row(verb: str, path: str, allowed: set[str], *, selector: str = "", body: Any = None, code: int = 0) -> Row:
    return Row(verb, path, frozenset(allowed | {"admin"}), selector, body, code)


_SPEC = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": _SPEC}
_RUNNING = {"status": {"message": "hello"}}
_LABEL = {"metadata": {"labels": {"who": "me"}}}
_EVERYBODY = set(USERS) - {"anonymous"}
_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}
_RULES = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
TABLE = [
    # secrets and config maps
    _row("get", "who:secrets/mine", {"own", "manager"}),
    _row("get", "who:secrets/elsewhere", {"manager", "other"}),
    _row("get", "who:secrets/unused", {"manager"}),
    _row("list", "who:secrets", {"manager"}),
    _row("list", "secrets", {"manager"}),
    _row("list", "who:secrets", {"own", "manager"}, selector="metadata.name=mine"),
    _row("get", "who:configmaps/settings", {"viewer", "account", "manager"}),
    _row("list", "who:configmaps", {"viewer", "account", "manager"}),
    _row("list", "configmaps", {"manager"}),
    _row("create", "who:configmaps", {"account", "manager"}, body={"metadata": {"name": "new"}, "data": {}}),
    _row("patch", "who:configmaps/settings", {"account", "manager"}, body=_LABEL),
    _row("patch", "who:configmaps/locked", {"manager"}, body=_LABEL),
    _row("delete", "who:configmaps/settings", {"manager"}),
    # pods
    _row("get", "who:pods/mine", {"viewer", "own", "scheduler", "manager"}),
    _row("get", "who:pods/theirs", {"viewer", "other", "scheduler", "manager"}),
    _row("list", "pods", {"scheduler", "manager"}),
    _row("list", "pods", {"own", "scheduler", "manager"}, selector="spec.nodeName=own"),
    _row("list", "who:pods", {"viewer", "scheduler", "manager"}),
    _row("create", "who:pods", {"manager"}, body=_POD),
    _row("patch", "who:pods/mine/status", {"own", "scheduler", "manager"}, body=_RUNNING),
    _row("patch", "who:pods/theirs/status", {"other", "scheduler", "manager"}, body=_RUNNING),
    _row("patch", "who:pods/mine", {"manager"}, body=_LABEL),
    _row("delete", "who:pods/mine", {"own", "scheduler", "manager"}),
    _row("delete", "who:pods/theirs", {"other", "scheduler", "manager"}),
    # nodes and leases
    _row("get", "nodes/own", {"own", "scheduler", "manager"}),
    _row("list", "nodes", {"scheduler", "manager"}),
    _row("patch", "nodes/own", {"own", "manager"}, body=_LABEL),
    _row("patch", "nodes/other", {"other", "manager"}, body=_LABEL),
    _row("patch", "nodes/own", {"manager"}, body={"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    _row("patch", "nodes/own", {"manager"}, body={"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}}),
    _row("delete", "nodes/own", {"manager"}),
    _row("list", "kube-node-lease:leases.coordination.k8s.io", {"manager"}),
    # rights themselves
    _row("list", "clusterroles.rbac.authorization.k8s.io", {"manager"}),
    _row(
        "create", "who:roles.rbac.authorization.k8s.io", set(),
        body={"metadata": {"name": "grab"}, "rules": _RULES},
    ),
    _row(
        "create", "clusterrolebindings.rbac.authorization.k8s.io", set(),
        body={
            "metadata": {"name": "grab"}, "subjects": [{"kind": "User", "name": "alice"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        },
    ),
    _row("get", "namespaces/who", {"viewer", "scheduler", "manager"}),
    _row("create", "namespaces", set(), body={"metadata": {"name": "new"}}),
    _row("delete", "namespaces/who", {"manager"}),
    # every other verb
    _row("watch", "who:secrets", {"manager"}),
    _row("watch", "who:secrets", {"own", "manager"}, selector="metadata.name=mine"),
    _row("watch", "who:configmaps", {"viewer", "manager"}),
    _row("watch", "pods", {"scheduler", "manager"}),
    _row("watch", "pods", {"own", "scheduler", "manager"}, selector="spec.nodeName=own"),
    _row("watch", "pods", {"other", "scheduler", "manager"}, selector="spec.nodeName=other"),
    _row("watch", "nodes", {"scheduler", "manager"}),
    _row("watch", "nodes", {"own", "scheduler", "manager"}, selector="metadata.name=own"),
    _row("update", "who:configmaps/settings", {"manager"}, body={"metadata": {"name": "settings"}, "data": {"a": "b"}}),
    _row("update", "who:secrets/mine", {"manager"}, body={"metadata": {"name": "mine"}}),
    _row("deletecollection", "who:configmaps", {"manager"}),
    _row("deletecollection", "who:secrets", {"manager"}),
    _row("deletecollection", "who:pods", {"manager"}),
    _row("deletecollection", "nodes", {"manager"}),
    # subresources
    _row("create", "who:pods/mine/eviction", {"own"}, body={**_EVICTION, "metadata": {"name": "mine"}}),
    _row("create", "who:pods/theirs/eviction", {"other"}, body={**_EVICTION, "metadata": {"name": "theirs"}}),
    _row("patch", "nodes/own/status", {"own", "manager"}, body={"status": {"phase": "x"}}),
    _row("patch", "nodes/other/status", {"other", "manager"}, body={"status": {"phase": "x"}}),
    _row("patch", "who:pods/mine/ephemeralcontainers", {"manager"}, body={"spec": {}}),
    _row("create", "who:serviceaccounts/robot/token", {"manager"}, body={"kind": "TokenRequest"}, code=503),
    # what a node needs and no more
    _row("get", "kube-node-lease:leases.coordination.k8s.io/own", {"own", "manager"}, code=404),
    _row("get", "kube-node-lease:leases.coordination.k8s.io/other", {"other", "manager"}, code=404),
    _row(
        "create", "kube-node-lease:leases.coordination.k8s.io", {"own", "scheduler", "manager"},
        body={"metadata": {"name": "own"}},
    ),
    _row("list", "services", {"own", "other", "scheduler", "manager"}),
    _row("get", "persistentvolumes/none", {"scheduler", "manager"}, code=404),
    _row("list", "persistentvolumes", {"scheduler", "manager"}),
    _row("get", "who:serviceaccounts/robot", {"manager"}),
    _row("create", "nodes", set(), body={"metadata": {"name": "third"}}),
    # reviews
    _row("create", "selfsubjectreviews.authentication.k8s.io", _EVERYBODY, body={}),
    _row(
        "create", "tokenreviews.authentication.k8s.io", {"own", "other", "scheduler", "manager"},
        body={"spec": {"token": "x"}},
    ),
    _row(
        "create", "subjectaccessreviews.authorization.k8s.io", {"own", "other", "scheduler", "manager"},
        body={"spec": {"user": "alice", "nonResourceAttributes": {"path": "/api", "verb": "get"}}},
    ),
    # other kinds
    _row("list", "who:deployments.apps", {"manager"}),
    _row("get", "who:deployments.apps/none", {"manager"}, code=404),
    _row("list", "customresourcedefinitions.apiextensions.k8s.io", {"manager"}),
    _row("list", "certificatesigningrequests.certificates.k8s.io", {"own", "other", "joining", "manager"}),
    _row("list", "priorityclasses.scheduling.k8s.io", {"scheduler", "manager"}),
    _row("list", "storageclasses.storage.k8s.io", {"scheduler", "manager"}),
    _row("list", "mutatingwebhookconfigurations.admissionregistration.k8s.io", {"manager"}),
]  # fmt: skip
PATHS = {
    "/version": set(USERS),
    "/healthz": set(USERS),
    "/readyz": set(USERS),
    "/readyz/etcd": {"admin"},
    "/api": set(USERS) - {"anonymous"},
    "/apis/apps/v1": set(USERS) - {"anonymous"},
    "/openapi/v3": set(USERS) - {"anonymous"},
    "/metrics": {"admin"},
    "/": {"admin"},
    "/logs/x": {"admin"},
}
