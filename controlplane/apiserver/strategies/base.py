"""What is special about a kind: the hooks that the generic registry calls, with what most kinds need as defaults.

A strategy is pure: it is given messages and changes the new one. Nothing here reads the store. The hooks follow the
create and update strategies of Kubernetes' registries: clients own ``spec`` through the main resource, controllers
own ``status`` through the subresource, and the server alone counts ``metadata.generation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from wharfinger.api import labels
from wharfinger.api.codec import canonical_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.request import Request
    from wharfinger.api.kinds import Kind
    from wharfinger.api.types import meta

GarbagePolicy = Literal["Background", "Orphan", "Unsupported"]


def same(one: Any, other: Any) -> bool:
    """Whether two messages mean the same: fields that are unset and fields that are zero count as equal."""
    return bool(one == other) or canonical_bytes(one) == canonical_bytes(other)


def all_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists of messages mean the same, in the same order."""
    return len(some) == len(others) and all(map(same, some, others))


class ScaleView(NamedTuple):
    """What the scale subresource shows of an object."""

    replicas: int
    status_replicas: int
    selector: str


class Strategy:
    """The defaults: nothing special beyond the split of spec and status."""

    generation: ClassVar[bool | None] = None
    """Whether ``metadata.generation`` is counted; None: when the kind has both a spec and a status."""
    unconditional_update: ClassVar[bool] = True
    """Whether an update without a resourceVersion is accepted."""
    create_on_update: ClassVar[bool] = False
    """Whether an update of a missing object creates it."""
    returns_deleted: ClassVar[bool] = False
    """Whether a delete answers with the object instead of a Status."""
    garbage_policy: ClassVar[GarbagePolicy] = "Background"
    """What a delete without a propagationPolicy does with dependents."""
    keeps_status_on_create: ClassVar[bool] = False
    graceful: ClassVar[bool] = False
    """Whether a delete may leave the object for a grace period."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        names = {field.name for field in kind.message.DESCRIPTOR.fields}
        self.has_status = "status" in names and "status" in kind.subresources
        self.counts_generation = self.generation if self.generation is not None else self.has_status and "spec" in names

    def prepare_for_create(self, obj: Any, request: Request) -> None:
        """Make a new object ready: reset what clients may not set."""
        if self.has_status and not self.keeps_status_on_create:
            obj.ClearField("status")
        obj.metadata.generation = 1 if self.counts_generation else 0

    def prepare_for_update(self, obj: Any, old: Any, request: Request) -> None:
        """Make a replacement ready: keep the status, count the generation."""
        if self.has_status:
            obj.status.CopyFrom(old.status)
        obj.metadata.generation = old.metadata.generation
        if self.counts_generation and self.changes_generation(obj, old):
            obj.metadata.generation += 1

    def changes_generation(self, obj: Any, old: Any) -> bool:
        """Whether an update changes what a controller acts on: anything but metadata and status."""
        return not same(self._own_part(obj), self._own_part(old))

    def _own_part(self, obj: Any) -> Any:
        part = type(obj)()
        part.CopyFrom(obj)
        part.ClearField("metadata")
        if self.has_status:
            part.ClearField("status")
        return part

    def prepare_for_status_update(self, obj: Any, old: Any, request: Request) -> None:
        """Make a status update ready: everything but metadata and status stays as it was."""
        result = type(old)()
        result.CopyFrom(old)
        result.status.CopyFrom(obj.status)
        result.metadata.CopyFrom(obj.metadata)
        result.metadata.generation = old.metadata.generation
        self.keep_metadata(result, old)
        obj.CopyFrom(result)

    def keep_metadata(self, obj: Any, old: Any) -> None:
        """Restore what a status update of this kind may not change in the metadata; by default all may change."""

    def check_graceful_delete(self, obj: Any, options: meta.DeleteOptions) -> bool:
        """For graceful kinds: settle ``options.gracePeriodSeconds``; False deletes at once without a mark."""
        return False

    def begin_delete(self, obj: Any) -> bool:
        """For kinds with an end of their own: mark an object as deleted; False leaves it to the usual way."""
        return False

    def read_scale(self, obj: Any) -> ScaleView:
        """Return what the scale subresource shows of an object."""
        selector = obj.spec.selector
        chosen = labels.from_label_selector(selector) if hasattr(selector, "matchLabels") else labels.from_map(selector)
        return ScaleView(obj.spec.replicas, obj.status.replicas, str(chosen))

    def scale_document(self, replicas: int) -> dict[str, Any]:
        """Return the part of an object's JSON that says how many replicas it wants."""
        return {"spec": {"replicas": replicas}}

    def write_scale(self, obj: Any, replicas: int) -> None:
        """Put a new number of replicas into an object."""
        obj.spec.replicas = replicas

    def finished(self, obj: Any) -> bool:
        """Whether an object that is marked as deleted may go; False while something else holds it."""
        return True
