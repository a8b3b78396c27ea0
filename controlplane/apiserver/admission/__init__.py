"""Admission: the steps between decoding and validation, one file each, in the order of the table below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from controlplane.apiserver.admission.default_storage_class import DefaultStorageClass
from controlplane.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from controlplane.apiserver.admission.limit_ranger import LimitRanger, LimitRangerCheck
from controlplane.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from controlplane.apiserver.admission.node_restriction import NodeRestriction
from controlplane.apiserver.admission.pod_security import PodSecurity
from controlplane.apiserver.admission.priority import Priority
from controlplane.apiserver.admission.resource_quota import ResourceQuota
from controlplane.apiserver.admission.runtime_class import RuntimeClass
from controlplane.apiserver.admission.service_account import ServiceAccount
from controlplane.apiserver.admission.storage_protection import StorageProtection
from controlplane.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.store import Cache, Store
    from wharfinger.api.kinds import Kind


class Admission:
    """The steps, asked for by operation and kind."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def steps(self, operation: Operation, kind: Kind) -> tuple[Step, ...]:
        """Return the steps that concern such requests, in order."""
        return tuple(step for step in self._steps if step.concerns(operation, kind))


def default_admission(
    cache: Cache,
    store: Store,
    authorizers: Authorizers,
    *,
    last: Sequence[Step] = (),
    not_ready: int = 300,
    unreachable: int = 300,
    mounts_tokens: bool = False,
) -> Admission:
    """Return the steps of a server in Kubernetes' order.

    `last` are steps that come after all others. `not_ready` and `unreachable` are how many seconds pods stay on such
    nodes when they do not say. `mounts_tokens`: whether tokens of service accounts can be had.
    """
    completing: list[Step] = [
        NamespaceLifecycle(cache),
        LimitRanger(cache),
        ServiceAccount(cache, mounts=mounts_tokens),
        NodeRestriction(cache),
        TaintNodesByCondition(),
        Priority(cache),
        DefaultTolerationSeconds(not_ready, unreachable),
        DefaultStorageClass(cache),
        StorageProtection(),
        RuntimeClass(cache),
    ]
    checking: list[Step] = [
        LimitRangerCheck(cache),
        PodSecurity(cache),
        CertificateApproval(authorizers),
        CertificateSigning(authorizers),
        CertificateSubjectRestriction(),
    ]
    return Admission([*completing, *checking, ResourceQuota(cache, store), *last])


__all__ = ["Admission", "Operation", "Step", "default_admission"]
