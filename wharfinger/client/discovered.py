"""Custom kinds as discovery tells them: without a schema, with all that clients need to ask for and show objects.

Objects of such kinds are :class:`~wharfinger.api.custom.CustomObject`; every client and informer handles them like
messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wharfinger.api import kinds
from wharfinger.api.custom import PrinterColumn, bare_kind, versions

if TYPE_CHECKING:
    from wharfinger.api.custom import CustomKind
    from wharfinger.api.kinds import Kind
    from wharfinger.proto.native import resources_v1_pb2 as native


def kind_of(info: native.ResourceInfo) -> Kind | None:
    """Return the kind that discovery describes: of the schema, or a custom one; None when it is neither."""
    known = kinds.by_resource(info.group, info.version, info.resource)
    if known is not None or not info.HasField("custom"):
        return known
    return custom_kind(info)


def custom_kind(info: native.ResourceInfo) -> CustomKind:
    """Make the kind of a custom resource."""
    custom = info.custom
    return bare_kind(
        group=info.group,
        version=info.version,
        kind=info.kind,
        resource=info.resource,
        namespaced=info.namespaced,
        short_names=info.short_names,
        categories=info.categories,
        verbs=info.verbs,
        subresources=info.subresources,
        singular=custom.singular,
        list_kind=custom.list_kind,
        storage_version=custom.storage_version,
        columns=[
            PrinterColumn(item.name, item.type, item.json_path, item.format, item.description, item.priority)
            for item in custom.columns
        ],
    )


def custom_kinds(served: Iterable[native.ResourceInfo]) -> list[CustomKind]:
    """Return all custom kinds that are served, the preferred version of each first."""
    found = [custom_kind(info) for info in served if info.HasField("custom")]
    return sorted(found, key=lambda kind: (kind.group, kind.resource, versions.priority(kind.version)))


def one_each(found: Sequence[Kind]) -> list[Kind]:
    """Return one version of each resource: the first in order."""
    chosen: dict[str, Kind] = {}
    for kind in found:
        chosen.setdefault(kind.group_resource, kind)
    return list(chosen.values())
