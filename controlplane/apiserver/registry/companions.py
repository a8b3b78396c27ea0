"""Keys under ``/wharfinger/`` that are written together with objects, in the same transaction.

*Guards.* ``/wharfinger/nodes/<node>`` is rewritten by everything that places a pod on a node: a bind, or a create with
``spec.nodeName``. Whoever wants to place a pod only if nothing else was placed there meanwhile compares it.

*Fences.* ``/wharfinger/fences/<namespace>/<lease>`` is rewritten when a Lease changes hands (or is taken anew). Its
mod_revision is the new leader's term, the same number as the Lease's resourceVersion at that moment, because both are
written by one transaction. A write that carries a fence compares it, so a leader that was replaced cannot write any
more, whatever it believes about the time. Renewals do not touch it. Node heartbeats are no leadership: no fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver import addresses
from controlplane.apiserver.store import Compare, Put
from wharfinger.api.errors import ConflictError

if TYPE_CHECKING:
    from controlplane.apiserver.request import Fence
    from controlplane.apiserver.store import CompareFailed
    from wharfinger.api.kinds import Kind

_HEARTBEATS = "kube-node-lease"
_LEASES = "leases.coordination.k8s.io"


def guard_key(node: str) -> str:
    """Return the key that everything rewrites that places a pod on a node."""
    return f"/wharfinger/nodes/{node}"


def guard(node: str, uid: str) -> Put:
    """Return the rewriting of a node's guard by the placing of a pod."""
    return Put(guard_key(node), uid.encode())


def fence_key(namespace: str, lease: str) -> str:
    """Return the key whose mod_revision is the term of a lease's holder."""
    return f"/wharfinger/fences/{namespace}/{lease}"


def fence_compares(fence: Fence | None) -> list[Compare]:
    """Return the condition that a write under a fence has."""
    return [Compare(fence_key(fence.namespace, fence.lease), fence.term)] if fence is not None else []


def check_fence(fence: Fence | None, failed: CompareFailed) -> None:
    """Raise ConflictError when a write was refused because its fence has fallen."""
    if fence is None:
        return
    key = fence_key(fence.namespace, fence.lease)
    if key not in failed.current:
        return
    current = failed.current[key]
    revision = current.mod_revision if current is not None else 0
    if revision != fence.term:
        raise ConflictError(
            f'the lease "{fence.namespace}/{fence.lease}" is no longer held in term {fence.term}: '
            f"{f'the term is {revision} now' if revision else 'nobody holds it'}",
            name=fence.lease,
            kind="leases",
            group="coordination.k8s.io",
        )


def on_write(kind: Kind, new: Any, old: Any | None) -> list[Put]:
    """Return what is written along with an object's new state (`old` is None for a create)."""
    if kind.group_resource == "pods":
        node = new.spec.nodeName
        if node and (old is None or old.spec.nodeName != node):
            return [guard(node, new.metadata.uid)]
    elif kind.group_resource == _LEASES and new.metadata.namespace != _HEARTBEATS:
        holder = new.spec.holderIdentity
        before = old.spec.holderIdentity if old is not None else ""
        # A leader that lost its lease for a while and takes it again under its name begins a new term, too: it counts
        # a transition.
        again = old is not None and new.spec.leaseTransitions != old.spec.leaseTransitions
        if holder != before or again:
            stamp = f"{holder} {new.metadata.uid} {old.metadata.resourceVersion if old is not None else 0}"
            return [Put(fence_key(new.metadata.namespace, new.metadata.name), stamp.encode())]
    return []


def on_delete(kind: Kind, old: Any) -> list[str]:
    """Return the keys that go with an object: a deleted Lease has no holder, a service needs no address any more."""
    if kind.group_resource == "services":
        return addresses.released(old)
    if kind.group_resource == _LEASES and old.metadata.namespace != _HEARTBEATS:
        return [fence_key(old.metadata.namespace, old.metadata.name)]
    return []
