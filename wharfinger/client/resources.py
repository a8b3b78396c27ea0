"""One kind over gRPC, with message objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar, Unpack

import grpc
from google.protobuf.message import Message

from wharfinger.api import errors
from wharfinger.api.kinds import Kind
from wharfinger.api.types import meta
from wharfinger.client.options import (
    CollectionDeleteOptions,
    DeleteOptions,
    ListOptions,
    PatchOptions,
    WatchOptions,
    WriteOptions,
    list_options,
    watch_options,
)
from wharfinger.client.requests import Requests
from wharfinger.client.transport import Transport
from wharfinger.client.verbs import Event, EventType, ObjectList, ResourceClient
from wharfinger.proto.native import resources_v1_pb2 as native

M = TypeVar("M", bound=Message)

_EVENT_NAMES: dict[int, EventType] = {
    native.ADDED: "ADDED",
    native.MODIFIED: "MODIFIED",
    native.DELETED: "DELETED",
    native.BOOKMARK: "BOOKMARK",
}


class GrpcResourceClient(ResourceClient[M]):
    """See :class:`~wharfinger.client.verbs.ResourceClient`."""

    progress_deadline = 30.0
    """The servers send a bookmark every 5 s."""

    def __init__(self, transport: Transport, kind: Kind, message: type[M], fence: native.Fence | None = None) -> None:
        super().__init__(kind, message)
        self._requests = Requests(kind, fence)
        self._transport = transport

    def _decode(self, answer: native.Object) -> M:
        return self.message.FromString(answer.object.raw)

    async def get(self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = "") -> M:
        """See ResourceClient.get."""
        request = self._requests.get(
            name, namespace=namespace, subresource=subresource, resource_version=resource_version
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.read(lambda endpoint: endpoint.resources.Get(request, metadata=metadata))
        )

    async def list(self, *, namespace: str = "", **options: Unpack[ListOptions]) -> ObjectList[M]:
        """See ResourceClient.list."""
        request = native.ListRequest(
            reference=self._requests.reference(namespace=namespace), options=list_options(**options)
        )
        message, metadata = self.message, self._transport.metadata

        async def collect(endpoint: Any) -> ObjectList[M]:
            result: ObjectList[M] = ObjectList(items=[], resource_version="")
            async for chunk in endpoint.resources.List(request, metadata=metadata):
                result.items.extend(message.FromString(item) for item in chunk.items)
                result.resource_version = chunk.resource_version or result.resource_version
                result.continue_ = getattr(chunk, "continue")
                result.remaining = chunk.remaining_item_count
            return result

        return await self._transport.read(collect)

    async def watch(
        self, *, namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[Sequence[Event[M]], None]:
        """See ResourceClient.watch."""
        request = native.WatchRequest(
            reference=self._requests.reference(namespace=namespace), options=watch_options(**options)
        )
        endpoint = self._transport.endpoint()
        call = endpoint.resources.Watch(request, metadata=self._transport.metadata)
        try:
            with endpoint.lasting(call):
                async for batch in call:
                    endpoint.hear()
                    yield [self._event(event) for event in batch.events]
        except grpc.aio.AioRpcError as error:
            raise self._transport.translate(endpoint, error) from error
        finally:
            call.cancel()

    def _event(self, event: native.WatchEvent) -> Event[M]:
        if event.type == native.ERROR:
            raise errors.from_status(meta.Status.FromString(event.object))
        return Event(
            _EVENT_NAMES[event.type],
            self.message.FromString(event.object),
            str(event.resource_version),
            event.initial_events_end,
        )

    async def create(self, obj: M, *, namespace: str = "", subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """See ResourceClient.create."""
        at = self._requests.of(obj, subresource)
        if namespace:
            at.namespace = namespace
        request = self._requests.create(obj.SerializeToString(), at, **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Create(request, metadata=metadata))
        )

    async def update(self, obj: M, *, subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """See ResourceClient.update."""
        request = self._requests.update(obj.SerializeToString(), self._requests.of(obj, subresource), **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Update(request, metadata=metadata))
        )

    async def patch(self, name: str, **options: Unpack[PatchOptions]) -> M:
        """See ResourceClient.patch."""
        request = self._requests.patch(name, **options)
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Patch(request, metadata=metadata))
        )

    async def delete(self, name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]) -> None:
        """See ResourceClient.delete."""
        request = self._requests.delete(name, namespace=namespace, **options)
        metadata = self._transport.metadata
        await self._transport.write(lambda endpoint: endpoint.resources.Delete(request, metadata=metadata))

    async def delete_collection(
        self,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        **options: Unpack[CollectionDeleteOptions],
    ) -> None:
        """See ResourceClient.delete_collection."""
        request = self._requests.delete_collection(
            namespace=namespace,
            selected={"label_selector": label_selector, "field_selector": field_selector},
            options=options,
        )
        metadata = self._transport.metadata
        await self._transport.write(lambda endpoint: endpoint.resources.DeleteCollection(request, metadata=metadata))
