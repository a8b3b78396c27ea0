"""The verbs of one kind on bytes, for callers that hold JSON text.

It exists for the command line, which hands manifests to the server as they were written, so that the server can say
which fields it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Unpack

from wharfinger.api.kinds import Kind
from wharfinger.client.options import DeleteOptions, PatchOptions, WriteOptions
from wharfinger.client.requests import JSON, Requests
from wharfinger.client.transport import Transport
from wharfinger.proto.native import resources_v1_pb2 as native


@dataclass(slots=True)
class RawObject:
    """An object as bytes: JSON or protobuf by its content type."""

    api_version: str
    kind: str
    data: bytes
    content_type: str = ""
    """Empty means protobuf."""
    warnings: Sequence[str] = field(default=())


class RawClient:
    """The verbs of one kind; errors are those of :class:`~wharfinger.client.verbs.ResourceClient`."""

    def __init__(self, transport: Transport, kind: Kind, fence: native.Fence | None = None) -> None:
        self.kind = kind
        self._requests = Requests(kind, fence)
        self._transport = transport

    @staticmethod
    def _decode(answer: native.Object) -> RawObject:
        type_meta = answer.object.typeMeta
        return RawObject(
            type_meta.apiVersion,
            type_meta.kind,
            answer.object.raw,
            answer.object.contentType,
            tuple(answer.warnings),
        )

    async def get(
        self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> RawObject:
        """Return one object."""
        request = self._requests.get(
            name, namespace=namespace, subresource=subresource, resource_version=resource_version
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.read(lambda endpoint: endpoint.resources.Get(request, metadata=metadata))
        )

    async def create(
        self,
        data: bytes,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        content_type: str = JSON,
        **options: Unpack[WriteOptions],
    ) -> RawObject:
        """Store a new object given as JSON (or YAML, or protobuf, by `content_type`)."""
        at = self._requests.reference(namespace=namespace, name=name, subresource=subresource)
        request = self._requests.create(data, at, content_type, **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Create(request, metadata=metadata))
        )

    async def update(
        self,
        data: bytes,
        *,
        name: str,
        namespace: str = "",
        subresource: str = "",
        content_type: str = JSON,
        **options: Unpack[WriteOptions],
    ) -> RawObject:
        """Replace an object by one given as JSON."""
        at = self._requests.reference(namespace=namespace, name=name, subresource=subresource)
        request = self._requests.update(data, at, content_type, **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Update(request, metadata=metadata))
        )

    async def patch(self, name: str, **options: Unpack[PatchOptions]) -> RawObject:
        """Change an object by a patch."""
        request = self._requests.patch(name, **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Patch(request, metadata=metadata))
        )

    async def delete(self, name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]) -> RawObject:
        """Delete an object, and return it (or a Status) as the server answered."""
        request = self._requests.delete(name, namespace=namespace, **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Delete(request, metadata=metadata))
        )
