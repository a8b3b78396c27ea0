"""Admission: steps that complete an object before it is validated, and steps that judge it afterwards; a file each.

The order is that of the tables below, which is Kubernetes'. What is refused by the second kind is a sound object: so a
broken one is always told what is wrong with it (422), whatever else might be held against it (403).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from controlplane.apiserver.admission.claim_resize import PersistentVolumeClaimResize
from controlplane.apiserver.admission.default_classes import DefaultIngressClass, DefaultStorageClass
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

    def __init__(self, steps: Sequence[Step], checks: Sequence[Step] = ()) -> None:
        self._steps = tuple(steps)
        self._checks = tuple(checks)

    def steps(self, operation: Operation, kind: Kind) -> tuple[Step, ...]:
        """Return the steps before validation that concern such requests, in order."""
        return tuple(step for step in self._steps if step.concerns(operation, kind))

    def checks(self, operation: Operation, kind: Kind) -> tuple[Step, ...]:
        """Return the steps after validation that concern such requests, in order. They change nothing."""
        return tuple(step for step in self._checks if step.concerns(operation, kind))


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

    `last` are the last steps before validation. `not_ready` and `unreachable` are how many seconds pods stay on such
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
        DefaultIngressClass(cache),
    ]
    checking: list[Step] = [
        LimitRangerCheck(cache),
        PodSecurity(cache),
        PersistentVolumeClaimResize(cache),
        CertificateApproval(authorizers),
        CertificateSigning(authorizers),
        CertificateSubjectRestriction(),
        ResourceQuota(cache, store),
    ]
    return Admission([*completing, *last], checking)


__all__ = ["Admission", "Operation", "Step", "default_admission"]
