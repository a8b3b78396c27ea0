"""NodeRestriction: an agent writes only what is its own, whatever the Node authoriser could tell from the address.

The rules are those of Kubernetes' step of this name ("Admission Control", NodeRestriction): pods of the node alone,
only mirror pods may be created; a Node's taints, owners and most labels of kubernetes.io are not the node's to change;
tokens are for accounts of pods that are there; leases and CSINodes bear the node's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cryptography import x509
from cryptography.x509.oid import NameOID

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.auth.nodegraph import MIRROR, references
from controlplane.apiserver.strategies.base import all_same, same
from wharfinger.api import errors
from wharfinger.api.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PODS, _NODES = "/registry/pods/", "/registry/minions/"
_LEASES = "kube-node-lease"
_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_RESTRICTED = "node-restriction.kubernetes.io"
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region", "node.kubernetes.io/windows-build",
    }
)  # fmt: skip
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_MAY_NOT_NAME = frozenset({"secrets", "configmaps", "persistentvolumeclaims", "resourceclaims"})


class NodeRestriction(Step):
    """Checks what agents write."""

    name: ClassVar[str] = "NodeRestriction"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Whatever a node may write at all, except events."""
        return (kind.group, kind.resource) in _CHECKS

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse what is not the agent's own."""
        node = request.user.node_name
        if node:
            why = _CHECKS[request.kind.group, request.kind.resource](self, node, request, obj, old)
            if why:
                raise _forbidden(request, (obj if obj is not None else old).metadata.name or request.name, why)
        return None

    # Each returns why not; empty when the node may.

    def _pod(self, node: str, request: Request, obj: Any, old: Any) -> str:
        match request.subresource:
            case "":
                if obj is None:
                    if old.spec.nodeName != node:
                        return f'node "{node}" can only delete pods with spec.nodeName set to itself'
                    return ""
                if old is None:
                    return self._mirror(node, obj)
                return f'unexpected operation "update", node "{node}" can only create and delete mirror pods'
            case "status":
                return self._pod_status(node, obj, old)
            case "eviction":
                if old is not None and old.spec.nodeName != node:
                    return f"node {node} can only evict pods with spec.nodeName set to itself"
                return ""
        return f'unexpected pod subresource "{request.subresource}", only "status" and "eviction" are allowed'

    @staticmethod
    def _pod_status(node: str, obj: Any, old: Any) -> str:
        if old.spec.nodeName != node:
            return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
        if dict(obj.metadata.labels) != dict(old.metadata.labels):
            return f'node "{node}" cannot update labels through pod status'
        if not all_same(obj.metadata.ownerReferences, old.metadata.ownerReferences):
            return f'node "{node}" cannot update ownerReferences through pod status'
        if not all_same(obj.status.resourceClaimStatuses, old.status.resourceClaimStatuses):
            return f'node "{node}" cannot update resource claim statuses'
        return ""

    def _mirror(self, node: str, pod: Any) -> str:
        if MIRROR not in pod.metadata.annotations:
            return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
        if pod.spec.nodeName != node:
            return f'node "{node}" can only create pods with spec.nodeName set to itself'
        owners = pod.metadata.ownerReferences
        if len(owners) != 1:
            return f'node "{node}" can only create pods with a single owner reference set to itself'
        owner = owners[0]
        if (owner.apiVersion, owner.kind, owner.name) != ("v1", "Node", node):
            return f'node "{node}" can only create pods with an owner reference set to itself'
        if not owner.controller:
            return f'node "{node}" can only create pods with a controller owner reference set to itself'
        if owner.blockOwnerDeletion:
            return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
        entry = self._cache.get(_NODES + node)
        uid = entry.decoded.metadata.uid if entry is not None else ""
        if owner.uid != uid:
            return f"node {node} UID mismatch: expected {uid} got {owner.uid}"
        if pod.spec.serviceAccountName:
            return f'node "{node}" can not create pods that reference a service account'
        # Without the annotation, which makes a pod of no account for what it names.
        plain = type(pod)()
        plain.CopyFrom(pod)
        del plain.metadata.annotations[MIRROR]
        for resource, _ in sorted(references(plain)):
            if resource in _MAY_NOT_NAME:
                return f'node "{node}" can not create pods that reference {resource}'
        for volume in pod.spec.volumes:
            if any(source.HasField("serviceAccountToken") for source in volume.volumeSource.projected.sources):
                return f'node "{node}" can not create pods that reference serviceaccounts'
            if any(source.HasField("clusterTrustBundle") for source in volume.volumeSource.projected.sources):
                return f'node "{node}" can not create pods that reference clustertrustbundles'
        return ""

    def _node(self, node: str, request: Request, obj: Any, old: Any) -> str:
        name = obj.metadata.name if obj is not None else old.metadata.name
        if old is None:
            forbidden = sorted(label for label in obj.metadata.labels if not _may_set(label))
            if forbidden:
                return f'node "{node}" is not allowed to set the following labels: {", ".join(forbidden)}'
        if name != node:
            return f'node "{node}" is not allowed to modify node "{name}"'
        if obj is None:
            return f'node "{node}" is not allowed to delete nodes'
        if old is not None:
            if not all_same(obj.spec.taints, old.spec.taints):
                return f'node "{node}" is not allowed to modify taints'
            if not all_same(obj.metadata.ownerReferences, old.metadata.ownerReferences):
                return f'node "{node}" is not allowed to modify ownerReferences'
            changed = sorted(
                label for label in _changed(obj.metadata.labels, old.metadata.labels) if not _may_set(label)
            )
            if changed:
                return f"is not allowed to modify labels: {', '.join(changed)}"
        return ""

    @staticmethod
    def _claim(node: str, request: Request, obj: Any, old: Any) -> str:
        if request.subresource != "status" or obj is None or old is None:
            return "may only update PVC status"
        mine, theirs = type(obj)(), type(old)()
        for copy, source in ((mine, obj), (theirs, old)):
            copy.CopyFrom(source)
            copy.metadata.resourceVersion = ""
            del copy.metadata.managedFields[:]
            for field in ("capacity", "allocatedResources", "allocatedResourceStatuses"):
                getattr(copy.status, field).clear()
            del copy.status.conditions[:]
            for field in ("modifyVolumeStatus", "currentVolumeAttributesClassName"):
                copy.status.ClearField(field)
        if not same(mine, theirs):
            return f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
        return ""

    def _account(self, node: str, request: Request, obj: Any, old: Any) -> str:
        if request.subresource != "token":
            return ""
        return self.token_refusal(node, request.namespace, request.name, obj)

    def token_refusal(self, node: str, namespace: str, account: str, asked: Any) -> str:
        """Return why a node may not have a token of an account; empty when it may. `asked` is the TokenRequest."""
        reference = asked.spec.boundObjectRef
        if (reference.kind, reference.apiVersion) != ("Pod", "v1") or not reference.name:
            return "node requested token not bound to a pod"
        if not reference.uid:
            return "node requested token with a pod binding without a uid"
        entry = self._cache.get(f"{_PODS}{namespace}/{reference.name}")
        if entry is None:
            raise errors.not_found("pods", reference.name)
        pod = entry.decoded
        if reference.uid != pod.metadata.uid:
            return f"the UID in the bound object reference ({reference.uid}) does not match the UID in record"
        if pod.spec.nodeName != node:
            return "node requested token bound to a pod scheduled on a different node"
        if pod.spec.serviceAccountName != account:
            return f'the pod does not run as the account "{account}"'
        known = {
            source.serviceAccountToken.audience
            for volume in pod.spec.volumes
            for source in volume.volumeSource.projected.sources
        }
        for audience in asked.spec.audiences:
            if audience not in known:
                return f'audience "{audience}" not found in pod spec volume'
        return ""

    @staticmethod
    def _lease(node: str, request: Request, obj: Any, old: Any) -> str:
        if request.namespace != _LEASES:
            return f'can only access leases in the "{_LEASES}" system namespace'
        if (obj if obj is not None else old).metadata.name != node:
            return "can only access node lease with the same name as the requesting node"
        return ""

    @staticmethod
    def _csi_node(node: str, request: Request, obj: Any, old: Any) -> str:
        if (obj if obj is not None else old).metadata.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return ""

    @staticmethod
    def _slice(node: str, request: Request, obj: Any, old: Any) -> str:
        if any(item is not None and item.spec.nodeName != node for item in (obj, old)):
            return "can only access ResourceSlice with the same NodeName as the requesting node"
        return ""

    @staticmethod
    def _signing_request(node: str, request: Request, obj: Any, old: Any) -> str:
        if old is not None or obj is None or obj.spec.signerName not in _SIGNERS:
            return ""
        try:
            subject = x509.load_pem_x509_csr(obj.spec.request).subject
        except ValueError as error:
            return f"unable to parse csr: {error}"
        names = [str(item.value) for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if names != [f"system:node:{node}"]:
            return f"can only create a node CSR with CN=system:node:{node}"
        return ""


_CHECKS: dict[tuple[str, str], Callable[[NodeRestriction, str, Request, Any, Any], str]] = {
    ("", "pods"): NodeRestriction._pod,
    ("", "nodes"): NodeRestriction._node,
    ("", "persistentvolumeclaims"): lambda self, *rest: self._claim(*rest),
    ("", "serviceaccounts"): NodeRestriction._account,
    ("coordination.k8s.io", "leases"): lambda self, *rest: self._lease(*rest),
    ("storage.k8s.io", "csinodes"): lambda self, *rest: self._csi_node(*rest),
    ("resource.k8s.io", "resourceslices"): lambda self, *rest: self._slice(*rest),
    ("certificates.k8s.io", "certificatesigningrequests"): lambda self, *rest: self._signing_request(*rest),
}


def _changed(new: Mapping[str, str], old: Mapping[str, str]) -> Iterable[str]:
    return (label for label in {*new, *old} if new.get(label) != old.get(label) or (label in new) != (label in old))


def _may_set(label: str) -> bool:
    """Whether a node may give itself a label, or take it off."""
    domain, slash, _ = label.partition("/")
    if not slash:
        return True
    if domain == _RESTRICTED or domain.endswith(f".{_RESTRICTED}"):
        return False
    if not any(domain == ours or domain.endswith(f".{ours}") for ours in ("kubernetes.io", "k8s.io")):
        return True
    if label in _OWN_LABELS:
        return True
    return any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS)


def _forbidden(request: Request, name: str, why: str) -> ForbiddenError:
    kind = request.kind
    return ForbiddenError(
        f'{kind.group_resource} "{name}" is forbidden: {why}', name=name, kind=kind.resource, group=kind.group
    )
