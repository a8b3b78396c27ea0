"""What a fresh cluster begins with: four namespaces, the system priority classes, the range of services' addresses.

Several apiservers may start at once: each makes what is missing, and finds that another one was faster. What exists is
left as it is, whoever changed it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from controlplane.apiserver.request import Request, User
from wharfinger.api import defaults, errors, kinds
from wharfinger.api.types import core, networking, scheduling

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


async def run(api: Api, service_cidr: str) -> None:
    """Make what is missing. Raises StatusError when the store refuses."""
    for obj in objects(service_cidr):
        kind = kinds.of(obj)
        registry = api.registry(kind)
        name = obj.metadata.name  # type: ignore[attr-defined]
        if api.cache.get(kind.etcd_key(name)) is not None:
            continue
        defaults.apply(obj)
        try:
            await registry.writer.create(Request(SERVER, "create", kind, name=name), obj)
        except errors.AlreadyExistsError:
            continue
        log.info("created", extra={"kind": kind.kind, "object": name})
