"""Kinds whose peculiarities are a line or two each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.strategies.base import Strategy
from wharfinger.api import times
from wharfinger.api.custom import naming

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


class DefinitionStrategy(Versioned):
    """Definitions of custom resources remember in which versions objects may be stored."""

    def prepare_for_create(self, obj: Any, request: Request) -> None:
        """Begin with the version that is stored now."""
        super().prepare_for_create(obj, request)
        obj.status.storedVersions.extend(item.name for item in obj.spec.versions if item.storage)

    def prepare_for_update(self, obj: Any, old: Any, request: Request) -> None:
        """Add the version that is stored from now on."""
        super().prepare_for_update(obj, old, request)
        known = set(obj.status.storedVersions)
        obj.status.storedVersions.extend(
            item.name for item in obj.spec.versions if item.storage and item.name not in known
        )

    def begin_delete(self, obj: Any) -> bool:
        """Hold the definition until its objects are gone."""
        obj.metadata.deletionTimestamp.CopyFrom(times.now())
        if naming.FINALIZER not in obj.metadata.finalizers:
            obj.metadata.finalizers.append(naming.FINALIZER)
        naming.set_condition(
            obj,
            naming.TERMINATING,
            "True",
            "InstanceDeletionPending",
            "the definition is marked for deletion; its objects are deleted next",
        )
        return True


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
        for key, values in request.user.extra:
            spec.extra[key].items.extend(values)

    def prepare_for_update(self, obj: Any, old: Any, request: Request) -> None:
        """Only the metadata may change through the main resource."""
        super().prepare_for_update(obj, old, request)
        obj.spec.CopyFrom(old.spec)

    def prepare_for_status_update(self, obj: Any, old: Any, request: Request) -> None:
        """Write down when conditions changed; decisions stay as they are."""
        decisions = [item for item in old.status.conditions if item.type in _DECISIONS]
        own = [item for item in obj.status.conditions if item.type not in _DECISIONS]
        new = [item for item in obj.status.conditions if item.type in _DECISIONS]
        known = {item.type: item for item in decisions}
        for item in new:  # what is said again about a decision changes nothing
            if item.type in known and item.status == known[item.type].status:
                item.CopyFrom(known[item.type])
        super().prepare_for_status_update(obj, old, request)
        if own:
            _date_conditions(obj, old)

    def prepare_for_approval(self, obj: Any, old: Any) -> None:
        """Take the conditions alone, and write down when they changed."""
        result = type(old)()
        result.CopyFrom(old)
        result.metadata.resourceVersion = obj.metadata.resourceVersion
        del result.status.conditions[:]
        result.status.conditions.extend(obj.status.conditions)
        obj.CopyFrom(result)
        _date_conditions(obj, old)


_DECISIONS = ("Approved", "Denied")


def _date_conditions(obj: Any, old: Any) -> None:
    """Give each condition its times: the update now unless it is as before, the transition when its status is new."""
    before = {item.type: item for item in old.status.conditions}
    now = times.now()
    for item in obj.status.conditions:
        known = before.get(item.type)
        if not item.HasField("lastUpdateTime") or not item.lastUpdateTime.seconds:
            item.lastUpdateTime.CopyFrom(known.lastUpdateTime if known is not None else now)
        if not item.HasField("lastTransitionTime") or not item.lastTransitionTime.seconds:
            same = known is not None and known.status == item.status
            item.lastTransitionTime.CopyFrom(known.lastTransitionTime if same and known is not None else now)
