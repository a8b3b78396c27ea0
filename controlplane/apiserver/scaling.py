"""The scale subresource: the number of replicas alone, whatever the kind that has them.

A Scale is a view: it carries the parent's name, uid, version and replicas, and writing it changes only the parent's
``spec.replicas``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from controlplane.apiserver import patching
from controlplane.apiserver.request import Answer
from wharfinger.api import codec, errors, kinds
from wharfinger.api.errors import FieldError
from wharfinger.api.types import autoscaling_v1

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.registry.registry import Registry
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.strategies import Strategy

SCALE = kinds.of(autoscaling_v1.Scale)


def view(parent: Any, strategy: Strategy) -> autoscaling_v1.Scale:
    """Return the scale of an object."""
    scale = autoscaling_v1.Scale()
    for name in ("name", "namespace", "uid", "resourceVersion"):
        setattr(scale.metadata, name, getattr(parent.metadata, name))
    scale.metadata.creationTimestamp.CopyFrom(parent.metadata.creationTimestamp)
    shown = strategy.read_scale(parent)
    scale.spec.replicas, scale.status.replicas = shown.replicas, shown.status_replicas
    scale.status.selector = shown.selector
    return scale


async def get(registry: Registry, request: Request, version: str) -> Answer:
    """Return an object's scale."""
    entry = await registry.reader.entry(request.namespace, request.name, version)
    return _answer(registry.resource.message(entry.value, entry.mod_revision), registry)


async def update(
    registry: Registry, request: Request, make: Callable[[autoscaling_v1.Scale], Any], *, patching: bool
) -> Answer:
    """Change an object's replicas through what `make` makes of its scale."""

    def parent(old: Any) -> Any:
        scale = make(view(old, registry.strategy))
        if scale.spec.replicas < 0:
            cause = FieldError.invalid("spec.replicas", scale.spec.replicas, "must be greater than or equal to 0")
            raise errors.invalid("Scale", "autoscaling", request.name, [cause])
        if scale.metadata.name and scale.metadata.name != request.name:
            raise errors.BadRequestError(
                f"the name of the object ({scale.metadata.name}) does not match the name on the URL ({request.name})"
            )
        new = type(old)()
        new.CopyFrom(old)
        registry.strategy.write_scale(new, scale.spec.replicas)
        new.metadata.resourceVersion = scale.metadata.resourceVersion or old.metadata.resourceVersion
        new.metadata.uid = scale.metadata.uid or old.metadata.uid
        return new

    def prepare(new: Any, old: Any) -> None:
        registry.strategy.prepare_for_update(new, old, request)

    answer = await registry.writer.update(request, parent, prepare=prepare, patching=patching)
    parent_now = registry.kind.message.FromString(answer.raw)
    return _answer(parent_now, registry)


async def apply(registry: Registry, request: Request, patch: bytes) -> Answer:
    """Apply a scale: the manager owns the parent's replicas from now on, through this subresource.

    Raises BadRequestError, ConflictError when another manager owns them, NotFoundError.
    """
    documents = codec.load_documents(patch)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise errors.BadRequestError("an apply patch must be one object, in YAML or JSON")
    scale = codec.from_json(documents[0], autoscaling_v1.Scale, validation="Strict").message
    if scale.metadata.name != request.name:
        raise errors.BadRequestError(
            f"the name of the object ({scale.metadata.name}) does not match the name on the URL ({request.name})"
        )
    if scale.spec.replicas < 0:
        cause = FieldError.invalid("spec.replicas", scale.spec.replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", "autoscaling", request.name, [cause])
    wanted = "replicas" in (documents[0].get("spec") or {})
    kind = registry.kind
    document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": request.name, **({"namespace": request.namespace} if request.namespace else {})},
        **(registry.strategy.scale_document(scale.spec.replicas) if wanted else {}),
    }
    make = patching.compile_apply(orjson.dumps(document), request)

    def prepare(new: Any, old: Any) -> None:
        registry.strategy.prepare_for_update(new, old, request)

    answer = await registry.writer.update(request, make, prepare=prepare, patching=True)
    return _answer(answer.message(), registry)


def _answer(parent: Any, registry: Registry) -> Answer:
    return Answer(
        SCALE, codec.canonical_bytes(view(parent, registry.strategy)), int(parent.metadata.resourceVersion or 0)
    )
