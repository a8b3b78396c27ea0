"""What a node's agent may do: only what concerns its own node and the pods that are on it.

Kubernetes splits this between the Node authoriser (reads) and the NodeRestriction admission step (writes). Here the
authoriser answers for reads and for what can be told from the address; whether a written pod is the node's own is
asked of the watch cache, through `pods_of`. Lists and watches of pods and nodes must carry the field selector that
confines them, as Kubernetes demands since 1.34.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controlplane.apiserver.auth.authorizer import ALLOWED, Authorizer, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.request import Request
    from wharfinger.api.types import core

_READ = ("get", "list", "watch")
_LEASES = "kube-node-lease"


class PodLookup(Protocol):
    """What this authoriser asks about pods."""

    def node_of(self, namespace: str, name: str) -> str | None:
        """Return the pod's node (empty: none yet), or None when there is no such pod."""
        ...

    def pods_on(self, node: str) -> Iterable[core.Pod]:
        """Return the pods that are on a node."""
        ...


class Nodes(Authorizer):
    """Decides for users ``system:node:<name>`` in group ``system:nodes``; no opinion on others."""

    def __init__(self, pods: PodLookup) -> None:
        self._pods = pods

    def authorize(self, request: Request) -> Verdict | None:
        """Allow what is the node's own; deny the rest with the reason."""
        node = request.user.node_name
        if not node:
            return None
        key = (request.kind.group, request.kind.resource)
        check = _CHECKS.get(key)
        if check is None:
            return Verdict(allowed=False, reason=f"a node has no business with {request.kind.group_resource}")
        reason = check(self, request, node)
        return ALLOWED if reason is None else Verdict(allowed=False, reason=reason)

    def _nodes(self, request: Request, node: str) -> str | None:
        if request.verb in ("list", "watch"):
            if f"metadata.name={node}" in request.field_selector.split(",") or request.name == node:
                return None
            return f"a node may only list and watch itself; use the field selector metadata.name={node}"
        if request.subresource not in ("", "status"):
            return "a node may not use this subresource"
        if request.verb in ("deletecollection", "delete"):
            return "a node may not delete nodes"
        # The name of a create stands in the body; the chain asks again when it is known.
        if request.name and request.name != node:
            return f'node "{node}" may only touch itself'
        return None

    def _pod(self, request: Request, node: str) -> str | None:
        if request.verb in ("list", "watch"):
            if f"spec.nodeName={node}" in request.field_selector.split(","):
                return None
            return f"a node may only list and watch its own pods; use the field selector spec.nodeName={node}"
        if request.verb == "create" and not request.subresource:
            return "mirror pods are not supported: a node may not create pods"
        if request.verb == "deletecollection" or request.subresource not in ("", "status", "eviction"):
            return "a node may not do this with pods"
        if request.verb in ("update", "patch") and request.subresource != "status":
            return "a node may only write the status of pods"
        of = self._pods.node_of(request.namespace, request.name)
        if of is None or of == node:
            return None  # an unknown pod becomes a 404
        return f'the pod is not on node "{node}"'

    def _lease(self, request: Request, node: str) -> str | None:
        if request.namespace != _LEASES:
            return f"a node may only use leases in the namespace {_LEASES}"
        if request.verb in ("list", "watch", "deletecollection"):
            return "a node may not list leases"
        if request.name and request.name != node:
            return "a node may only use the lease of its own name"
        return None

    def _events(self, request: Request, node: str) -> str | None:
        return None if request.verb in ("create", "update", "patch") else "a node may only write events"

    def _read_only(self, request: Request, node: str) -> str | None:
        return None if request.verb in _READ else f"a node may only read {request.kind.group_resource}"

    def _referenced(self, request: Request, node: str) -> str | None:
        """Secrets, config maps and claims: only those that a pod of the node names."""
        name = request.name
        if request.verb in ("list", "watch"):
            terms = [term for term in request.field_selector.split(",") if term.startswith("metadata.name=")]
            name = terms[0].partition("=")[2] if terms else ""
        elif request.verb != "get":
            return f"a node may only read {request.kind.group_resource}"
        if not name:
            return "a node may only read what its pods name, one by one"
        for pod in self._pods.pods_on(node):
            if pod.metadata.namespace == request.namespace and name in _references(pod, request.kind.resource):
                return None
        return f'no pod on node "{node}" refers to it'

    def _accounts(self, request: Request, node: str) -> str | None:
        if request.verb == "get" and not request.subresource:
            return self._referenced(request, node)
        if request.verb == "create" and request.subresource == "token":
            for pod in self._pods.pods_on(node):
                if (pod.metadata.namespace, pod.spec.serviceAccountName) == (request.namespace, request.name):
                    return None
        return f'no pod on node "{node}" runs as this account'


_CHECKS = {
    ("", "nodes"): Nodes._nodes,
    ("", "pods"): Nodes._pod,
    ("coordination.k8s.io", "leases"): Nodes._lease,
    ("", "events"): Nodes._events,
    ("events.k8s.io", "events"): Nodes._events,
    ("", "services"): Nodes._read_only,
    ("", "namespaces"): Nodes._read_only,
    ("node.k8s.io", "runtimeclasses"): Nodes._read_only,
    ("storage.k8s.io", "csidrivers"): Nodes._read_only,
    ("", "persistentvolumes"): Nodes._read_only,
    ("", "secrets"): Nodes._referenced,
    ("", "configmaps"): Nodes._referenced,
    ("", "persistentvolumeclaims"): Nodes._referenced,
    ("", "serviceaccounts"): Nodes._accounts,
}


def _references(pod: core.Pod, resource: str) -> set[str]:
    """Return the names of objects of one resource that a pod refers to."""
    names: set[str] = set()
    spec = pod.spec
    if resource == "serviceaccounts":
        return {spec.serviceAccountName}
    for volume in spec.volumes:
        source = volume.volumeSource
        if resource == "secrets":
            names.add(source.secret.secretName)
            names.update(projected.secret.localObjectReference.name for projected in source.projected.sources)
        elif resource == "configmaps":
            names.add(source.configMap.localObjectReference.name)
            names.update(projected.configMap.localObjectReference.name for projected in source.projected.sources)
        elif resource == "persistentvolumeclaims":
            names.add(source.persistentVolumeClaim.claimName)
    if resource == "secrets":
        names.update(entry.name for entry in spec.imagePullSecrets)
    for container in (*spec.initContainers, *spec.containers):
        for env in container.env:
            if resource == "secrets":
                names.add(env.valueFrom.secretKeyRef.localObjectReference.name)
            elif resource == "configmaps":
                names.add(env.valueFrom.configMapKeyRef.localObjectReference.name)
        for entry in container.envFrom:
            if resource == "secrets":
                names.add(entry.secretRef.localObjectReference.name)
            elif resource == "configmaps":
                names.add(entry.configMapRef.localObjectReference.name)
    names.discard("")
    return names
