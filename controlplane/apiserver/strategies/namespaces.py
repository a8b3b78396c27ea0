"""Namespaces: their end takes two steps, through ``spec.finalizers`` and the finalize subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.types import core

FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """How namespaces differ."""

    generation = False
    returns_deleted = True

    def prepare_for_create(self, obj: core.Namespace, request: Request) -> None:
        """Start Active, held by the namespace controller's finalizer."""
        obj.ClearField("status")
        obj.status.phase = "Active"
        if FINALIZER not in obj.spec.finalizers:
            obj.spec.finalizers.append(FINALIZER)
        obj.metadata.generation = 0
        obj.metadata.labels["kubernetes.io/metadata.name"] = obj.metadata.name

    def prepare_for_update(self, obj: core.Namespace, old: core.Namespace, request: Request) -> None:
        """Keep the finalizers of the spec: they only change through the finalize subresource."""
        super().prepare_for_update(obj, old, request)
        obj.spec.CopyFrom(old.spec)
        obj.metadata.labels["kubernetes.io/metadata.name"] = obj.metadata.name

    def prepare_for_finalize(self, obj: core.Namespace, old: core.Namespace) -> None:
        """Only the finalizers of the spec may change."""
        finalizers = list(obj.spec.finalizers)
        obj.CopyFrom(old)
        del obj.spec.finalizers[:]
        obj.spec.finalizers.extend(finalizers)

    def finished(self, obj: core.Namespace) -> bool:
        """A namespace goes when its spec holds no finalizers any more."""
        return not obj.spec.finalizers
