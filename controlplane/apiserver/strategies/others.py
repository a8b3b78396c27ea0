"""Kinds whose peculiarities are a line or two each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.strategies.base import Strategy
from wharfinger.api import times

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.types import core


class Counted(Strategy):
    """Kinds that count a generation without having a status."""

    generation = True


class Uncounted(Strategy):
    """Kinds with a status whose generation is not counted."""

    generation = False


class Versioned(Strategy):
    """Kinds that are only replaced by those who know their version."""

    unconditional_update = False


class VersionedUncounted(Uncounted):
    """Kinds with a status, no generation, and no blind updates."""

    unconditional_update = False


class VersionedCounted(Counted):
    """Kinds with a generation and no status that are only replaced by those who know their version."""

    unconditional_update = False


class CreateOnUpdate(Strategy):
    """Kinds that an update may create."""

    create_on_update = True


class Returned(Strategy):
    """Kinds whose delete answers with the object."""

    returns_deleted = True


class PodTemplateStrategy(Counted):
    """Pod templates: a generation that counts the template's changes."""

    returns_deleted = True


class ServiceAccountStrategy(Versioned):
    """Service accounts: no blind updates, because a controller adds to them."""

    returns_deleted = True


class PersistentVolumeStrategy(Uncounted):
    """Volumes start Pending."""

    returns_deleted = True

    def prepare_for_create(self, obj: core.PersistentVolume, request: Request) -> None:
        """Start in phase Pending, from now on."""
        super().prepare_for_create(obj, request)
        obj.status.phase = "Pending"
        obj.status.lastPhaseTransitionTime.CopyFrom(times.now())

    def prepare_for_status_update(self, obj: Any, old: Any, request: Request) -> None:
        """Note when the phase changes."""
        super().prepare_for_status_update(obj, old, request)
        if obj.status.phase != old.status.phase:
            obj.status.lastPhaseTransitionTime.CopyFrom(times.now())


class PersistentVolumeClaimStrategy(Uncounted):
    """Claims start Pending."""

    returns_deleted = True

    def prepare_for_create(self, obj: core.PersistentVolumeClaim, request: Request) -> None:
        """Start in phase Pending."""
        super().prepare_for_create(obj, request)
        obj.status.phase = "Pending"


class ResourceQuotaStrategy(Uncounted):
    """Quotas answer a delete with the object."""

    returns_deleted = True


class CertificateSigningRequestStrategy(Uncounted):
    """Requests for certificates carry who asked, as the server knows it."""

    def prepare_for_create(self, obj: Any, request: Request) -> None:
        """Write down who asks."""
        super().prepare_for_create(obj, request)
        spec = obj.spec
        spec.username, spec.uid = request.user.name, request.user.uid
        del spec.groups[:]
        spec.groups.extend(request.user.groups)
        spec.extra.clear()

    def prepare_for_update(self, obj: Any, old: Any, request: Request) -> None:
        """Only the metadata may change through the main resource."""
        super().prepare_for_update(obj, old, request)
        obj.spec.CopyFrom(old.spec)
