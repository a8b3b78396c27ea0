"""Mode Node: what a node's agent may do, beyond what a role could say.

A role can give rights on all secrets or on named ones; a node needs those that its pods name, which changes with every
pod. So this authoriser decides for users ``system:node:<name>`` in the group ``system:nodes``: on some resources by
what is reachable from the node, on the others by the rules of the role ``system:node``, which is bound to nobody. What
a node writes is looked at once more by the admission step NodeRestriction, which sees the object.

Lists and watches of pods and nodes must carry the field selector that confines them, as in Kubernetes since 1.34.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.auth.attributes import exact
from controlplane.apiserver.auth.authorizer import ALLOWED, NO_OPINION, Authorizer, Rules, Verdict
from controlplane.apiserver.auth.bootstrap_roles import rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.auth.attributes import Attributes
    from controlplane.apiserver.auth.nodegraph import NodeGraph
    from controlplane.apiserver.request import User

_READ = ("get", "list", "watch")
_CHANGE = ("get", "update", "patch", "delete")
LEASES = "kube-node-lease"


class Nodes(Authorizer):
    """Decides for nodes; no opinion on others, and none on what it does not allow."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._rules = rules_of("system:node")

    def authorize(self, asked: Attributes) -> Verdict:
        """Allow what is the node's own."""
        node = asked.user.node_name
        if not node:
            return NO_OPINION
        check = _CHECKS.get((asked.group, asked.resource)) if not asked.path else None
        if check is not None:
            why = check(self, asked, node)
            return ALLOWED if why is None else Verdict(allowed=None, reason=why)
        for rule in self._rules:
            if asked.path:
                break  # the role has no paths
            if rule.on_resource(asked.verb, asked.group, asked.resource, asked.subresource):
                return ALLOWED
        return NO_OPINION

    def rules(self, user: User, namespace: str) -> Rules:
        """Nothing to list: it depends on the object."""
        if not user.node_name:
            return Rules()
        return Rules(incomplete="node authorizer does not support user rule resolution")

    # Each returns why the answer is not yes; None for yes.

    def _readable(self, asked: Attributes, node: str) -> str | None:
        """Secrets and config maps: those that pods name, one by one."""
        if asked.verb not in _READ:
            return "can only read resources of this type"
        if asked.subresource:
            return "cannot read subresource"
        if not asked.namespace:
            return "can only read namespaced object of this type"
        return self._related(asked, node)

    def _gettable(self, asked: Attributes, node: str) -> str | None:
        if asked.verb != "get":
            return "can only get individual resources of this type"
        if asked.subresource:
            return "cannot get subresource"
        return self._related(asked, node)

    def _related(self, asked: Attributes, node: str) -> str | None:
        if not asked.name:
            return "No Object name found"
        if self._graph.reaches(node, asked.resource, asked.namespace, asked.name):
            return None
        return f"no relationship found between node '{node}' and this object"

    def _claim(self, asked: Attributes, node: str) -> str | None:
        if asked.subresource == "status":
            if asked.verb not in ("update", "patch"):
                return "can only update and patch status of this type"
            return self._related(asked, node)
        return self._gettable(asked, node)

    def _account(self, asked: Attributes, node: str) -> str | None:
        if asked.subresource == "token":
            if asked.verb != "create":
                return "can only create tokens for individual service accounts"
            return self._related(asked, node)
        return self._gettable(asked, node)

    def _node(self, asked: Attributes, node: str) -> str | None:
        if not asked.subresource:
            if asked.verb in ("create", "update", "patch"):
                return None  # NodeRestriction sees which one it is
            if asked.verb in _READ:
                if asked.name == node:
                    return None
                if not asked.name:
                    return f"node '{node}' cannot read all nodes, only its own Node object"
                return f"node '{node}' cannot read '{asked.name}', only its own Node object"
        elif asked.subresource == "status" and asked.verb in ("update", "patch"):
            return None
        return f"node '{node}' may not do this with nodes"

    def _pod(self, asked: Attributes, node: str) -> str | None:
        match asked.subresource, asked.verb:
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return None  # NodeRestriction sees whose pod it is
            case ("", "get"):
                return self._own_pod(asked, node)
            case ("", "list" | "watch"):
                if asked.name:
                    return self._own_pod(asked, node)
                if exact(asked.field_selector, "spec.nodeName") == node:
                    return None
                return "can only list/watch pods with spec.nodeName field selector"
        return f"node '{node}' may not do this with pods"

    def _own_pod(self, asked: Attributes, node: str) -> str | None:
        if self._graph.pod_node(asked.namespace, asked.name) == node:
            return None
        return f"no relationship found between node '{node}' and this object"

    def _lease(self, asked: Attributes, node: str) -> str | None:
        if asked.verb != "create" and asked.verb not in _CHANGE:
            return "can only get, create, update, patch, or delete a node lease"
        if asked.namespace != LEASES:
            return f'can only access leases in the "{LEASES}" system namespace'
        if asked.verb != "create" and asked.name != node:
            return "can only access node lease with the same name as the requesting node"
        return None

    def _csi_node(self, asked: Attributes, node: str) -> str | None:
        if asked.verb != "create" and asked.verb not in _CHANGE:
            return "can only get, create, update, patch, or delete a CSINode"
        if asked.subresource:
            return "cannot authorize CSINode subresources"
        if asked.verb != "create" and asked.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return None

    def _slice(self, asked: Attributes, node: str) -> str | None:
        if asked.subresource:
            return "cannot authorize ResourceSlice subresources"
        if asked.verb == "create":
            return None  # NodeRestriction sees the slice's node
        if asked.verb in _CHANGE:
            return self._related(asked, node)
        if asked.verb in ("list", "watch", "deletecollection"):
            if exact(asked.field_selector, "spec.nodeName") == node:
                return None
            return "can only list/watch/deletecollection resourceslices with spec.nodeName field selector"
        return (
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete"
        )


_CHECKS: dict[tuple[str, str], Callable[[Nodes, Attributes, str], str | None]] = {
    ("", "secrets"): Nodes._readable,
    ("", "configmaps"): Nodes._readable,
    ("", "persistentvolumeclaims"): Nodes._claim,
    ("", "persistentvolumes"): Nodes._gettable,
    ("resource.k8s.io", "resourceclaims"): Nodes._gettable,
    ("storage.k8s.io", "volumeattachments"): Nodes._gettable,
    ("", "serviceaccounts"): Nodes._account,
    ("coordination.k8s.io", "leases"): Nodes._lease,
    ("storage.k8s.io", "csinodes"): Nodes._csi_node,
    ("resource.k8s.io", "resourceslices"): Nodes._slice,
    ("", "nodes"): Nodes._node,
    ("", "pods"): Nodes._pod,
}
