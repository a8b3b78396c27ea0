"""What is special about custom objects: their parts are plain values, and every change counts as a generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.strategies.base import ScaleView, Strategy
from wharfinger.api.custom.values import same
from wharfinger.api.errors import InternalError
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.custom import CustomKind


class CustomStrategy(Strategy):
    """One strategy for all custom kinds: what differs stands in the definition."""

    kind: CustomKind
    generation = True
    unconditional_update = False

    def __init__(self, kind: CustomKind) -> None:
        self.kind = kind
        self.has_status = "status" in kind.subresources
        self.counts_generation = True

    def prepare_for_create(self, obj: Any, request: Request) -> None:
        """Make a new object ready."""
        if self.has_status:
            obj.content = _without_status(obj.content)
        obj.metadata.generation = 1

    def prepare_for_update(self, obj: Any, old: Any, request: Request) -> None:
        """Keep the status where it has a subresource of its own; count what changes beside the metadata."""
        if self.has_status:
            content = _without_status(obj.content)
            if "status" in old.content:
                content["status"] = old.content["status"]
            obj.content = content
        changed = 0 if same(obj.content, old.content) else 1
        obj.metadata.generation = old.metadata.generation + changed

    def prepare_for_status_update(self, obj: Any, old: Any, request: Request) -> None:
        """Take the status alone, and who owns it."""
        content = _without_status(old.content)
        if "status" in obj.content:
            content["status"] = obj.content["status"]
        obj.content = content
        owners = list(obj.metadata.managedFields)
        kept = meta.ObjectMeta()
        kept.CopyFrom(old.metadata)
        del kept.managedFields[:]
        kept.managedFields.extend(owners)
        obj.metadata = kept

    def read_scale(self, obj: Any) -> ScaleView:
        """Return the numbers at the places that the definition names."""
        paths = self.kind.scale
        assert paths is not None  # the subresource exists only with them
        replicas = paths.replicas.get(obj.content)
        if not isinstance(replicas, int):
            raise InternalError(f'the spec replicas field "{paths.replicas}" does not exist')
        selector = paths.selector.get(obj.content) if paths.selector is not None else ""
        return ScaleView(
            replicas, paths.status_replicas.get(obj.content) or 0, selector if isinstance(selector, str) else ""
        )

    def scale_document(self, replicas: int) -> dict[str, Any]:
        """Put a number of replicas where the definition says, in an otherwise empty object."""
        paths = self.kind.scale
        assert paths is not None
        return dict(paths.replicas.set({}, replicas))

    def write_scale(self, obj: Any, replicas: int) -> None:
        """Put a number of replicas where the definition says."""
        paths = self.kind.scale
        assert paths is not None
        obj.content = paths.replicas.set(obj.content, replicas)


def _without_status(content: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in content.items() if name != "status"}
