"""What a fresh cluster begins with: four namespaces, priority classes, the range of services' addresses, default roles.

Several apiservers may start at once: each makes what is missing, and finds that another one was faster. What exists is
left as it is, whoever changed it; only roles and bindings are brought up to date, as Kubernetes does it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.auth import bootstrap_roles
from controlplane.apiserver.request import Request, User
from wharfinger.api import defaults, errors, kinds
from wharfinger.api.types import core, meta, networking, rbac, scheduling

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from controlplane.apiserver.chain import Api

log = logging.getLogger(__name__)

SERVER = User("system:apiserver", ("system:masters",))
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def objects(service_cidr: str) -> list[Message]:
    """Return the objects to make."""
    made: list[Message] = []
    for name in NAMESPACES:
        namespace = core.Namespace()
        namespace.metadata.name = name
        made.append(namespace)
    for name, value, text in (
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, "
            "but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ):
        priority = scheduling.PriorityClass(value=value, description=text)
        priority.metadata.name = name
        made.append(priority)
    cidr = networking.ServiceCIDR()
    cidr.metadata.name = "kubernetes"
    cidr.spec.cidrs.append(service_cidr)
    made.append(cidr)
    return made


async def run(api: Api, service_cidr: str, *, roles: bool = True) -> None:
    """Make what is missing; with `roles` the roles and bindings, too. Raises StatusError when the store refuses."""
    for obj in objects(service_cidr):
        if not _exists(api, obj):
            await _create(api, obj)
    if roles:
        # Side by side, so that they share transactions; roles before those who are bound to them.
        await asyncio.gather(*(_reconcile(api, role) for role in bootstrap_roles.roles()))
        await asyncio.gather(*(_reconcile(api, binding) for binding in bootstrap_roles.bindings()))


def _exists(api: Api, obj: Any) -> bool:
    key = kinds.of(obj).etcd_key(obj.metadata.name, obj.metadata.namespace)
    return api.cache.get(key) is not None


async def _create(api: Api, obj: Any) -> None:
    kind = kinds.of(obj)
    metadata = obj.metadata
    defaults.apply(obj)
    try:
        await api.registry(kind).writer.create(_request(obj, "create"), obj)
    except errors.AlreadyExistsError:
        return
    level = logging.DEBUG if kind.group == bootstrap_roles.GROUP else logging.INFO  # those are many
    log.log(level, "created", extra={"kind": kind.kind, "object": metadata.name})


def _request(obj: Any, verb: Any) -> Request:
    return Request(SERVER, verb, kinds.of(obj), obj.metadata.namespace, obj.metadata.name)


async def _reconcile(api: Api, wanted: Any) -> None:
    """Make a role or binding, or add what is missing of it."""
    kind, metadata = kinds.of(wanted), wanted.metadata
    entry = api.cache.get(kind.etcd_key(metadata.name, metadata.namespace))
    if entry is None:
        await _create(api, wanted)
        return
    is_binding = isinstance(wanted, rbac.ClusterRoleBinding | rbac.RoleBinding)
    try:
        if is_binding and bootstrap_roles.refers_elsewhere(wanted, entry.decoded):
            # A binding's role cannot be changed; Kubernetes makes it anew, too.
            await api.registry(kind).deleter.delete(_request(wanted, "delete"), meta.DeleteOptions())
            await _create(api, wanted)
        elif bootstrap_roles.reconciled(wanted, entry.decoded) != entry.decoded:
            await api.registry(kind).writer.update(
                _request(wanted, "update"), lambda old: bootstrap_roles.reconciled(wanted, old)
            )
        else:
            return
    except errors.NotFoundError:
        await _create(api, wanted)
    log.info("brought up to date", extra={"kind": kind.kind, "object": metadata.name})
