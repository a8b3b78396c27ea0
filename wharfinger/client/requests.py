"""The gRPC requests of one resource: what the clients of messages, of bytes and the write stream send alike."""

from __future__ import annotations

from typing import Unpack

from google.protobuf.message import Message

from wharfinger.api.kinds import Kind
from wharfinger.api.types import runtime
from wharfinger.client.options import (
    CollectionDeleteOptions,
    DeleteOptions,
    PatchOptions,
    SelectOptions,
    WriteOptions,
    delete_call,
    list_options,
    patch_call,
    write_options,
)
from wharfinger.proto.native import resources_v1_pb2 as native

JSON = "application/json"


def unknown(kind: Kind, raw: bytes, content_type: str = "") -> runtime.Unknown:
    """Wrap an object's bytes for the wire; an empty `content_type` means protobuf where the kind has that."""
    if not kind.described:
        content_type = content_type or JSON
    return runtime.Unknown(
        typeMeta=runtime.TypeMeta(apiVersion=kind.api_version, kind=kind.kind), raw=raw, contentType=content_type
    )


class Requests:
    """Builds the requests of one resource; every write carries `fence`, if there is one."""

    def __init__(self, kind: Kind, fence: native.Fence | None = None) -> None:
        self.kind = kind
        self.fence = fence

    def reference(self, *, namespace: str = "", name: str = "", subresource: str = "") -> native.Reference:
        """Address a collection, an object or a subresource."""
        kind = self.kind
        return native.Reference(
            group=kind.group,
            version=kind.version,
            resource=kind.resource,
            namespace=namespace,
            name=name,
            subresource=subresource,
        )

    def of(self, obj: Message, subresource: str = "") -> native.Reference:
        """Address the place where an object belongs."""
        metadata = obj.metadata  # type: ignore[attr-defined]
        return self.reference(namespace=metadata.namespace, name=metadata.name, subresource=subresource)

    def get(
        self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> native.GetRequest:
        """Build a read of one object."""
        return native.GetRequest(
            reference=self.reference(namespace=namespace, name=name, subresource=subresource),
            resource_version=resource_version,
        )

    def create(
        self, raw: bytes, at: native.Reference, content_type: str = "", **options: Unpack[WriteOptions]
    ) -> native.CreateRequest:
        """Build a create of what `raw` holds."""
        return native.CreateRequest(
            reference=at, object=unknown(self.kind, raw, content_type), options=write_options(self.fence, **options)
        )

    def update(
        self, raw: bytes, at: native.Reference, content_type: str = "", **options: Unpack[WriteOptions]
    ) -> native.UpdateRequest:
        """Build an update to what `raw` holds."""
        return native.UpdateRequest(
            reference=at, object=unknown(self.kind, raw, content_type), options=write_options(self.fence, **options)
        )

    def patch(self, name: str, **options: Unpack[PatchOptions]) -> native.PatchRequest:
        """Build a patch."""
        call = patch_call(options)
        return native.PatchRequest(
            reference=self.reference(namespace=call.namespace, name=name, subresource=call.subresource),
            patch_type=call.content_type,
            patch=call.body,
            options=write_options(self.fence, **call.options),
        )

    def delete(self, name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]) -> native.DeleteRequest:
        """Build a delete."""
        chosen, rest = delete_call(options)
        return native.DeleteRequest(
            reference=self.reference(namespace=namespace, name=name),
            delete_options=chosen,
            options=write_options(self.fence, **rest),
        )

    def delete_collection(
        self, *, namespace: str, selected: SelectOptions, options: CollectionDeleteOptions
    ) -> native.DeleteCollectionRequest:
        """Build a delete of all that is `selected`."""
        chosen, rest = delete_call(options)
        return native.DeleteCollectionRequest(
            reference=self.reference(namespace=namespace),
            list_options=list_options(**selected),
            delete_options=chosen,
            options=write_options(self.fence, **rest),
        )
