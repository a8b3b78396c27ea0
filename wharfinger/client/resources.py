"""Clients of one resource: typed (message objects) and raw (bytes with a content type).

Both build the same requests; the raw one exists for the command line, which hands manifests to the server as they
were written, so that the server can say which fields it does not know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import grpc
import orjson
from google.protobuf.message import Message

from wharfinger.api import errors
from wharfinger.api.kinds import Kind
from wharfinger.api.types import meta, runtime
from wharfinger.client.transport import Transport
from wharfinger.proto.native import resources_v1_pb2 as native

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

M = TypeVar("M", bound=Message)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
PatchType = Literal["json", "merge", "strategic", "apply"]
JSON = "application/json"
PATCH_TYPES: dict[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_EVENT_NAMES: dict[int, EventType] = {
    native.ADDED: "ADDED",
    native.MODIFIED: "MODIFIED",
    native.DELETED: "DELETED",
    native.BOOKMARK: "BOOKMARK",
}


@dataclass(slots=True)
class Event(Generic[M]):
    """One change of one object; BOOKMARK events have no object."""

    type: EventType
    object: M
    resource_version: str
    initial_events_end: bool = False


@dataclass(slots=True)
class ObjectList(Generic[M]):
    """What a list answered, all under one resourceVersion."""

    items: list[M]
    resource_version: str
    continue_: str = ""
    remaining: int = 0


@dataclass(slots=True)
class RawObject:
    """An object as bytes: JSON or protobuf by its content type."""

    api_version: str
    kind: str
    data: bytes
    content_type: str = ""
    """Empty means protobuf."""
    warnings: Sequence[str] = field(default=())


def write_options(
    *,
    dry_run: bool = False,
    field_manager: str = "",
    field_validation: str = "",
    fence: native.Fence | None = None,
    brief: bool = False,
    lazy: bool = False,
    force: bool = False,
) -> native.WriteOptions:
    """Build the options that every write takes."""
    options = native.WriteOptions(
        dry_run=dry_run,
        field_manager=field_manager,
        field_validation=field_validation,
        brief=brief,
        lazy=lazy,
        force=force,
    )
    if fence is not None:
        options.fence.CopyFrom(fence)
    return options


def list_options(
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = 0,
    continue_: str = "",
    resource_version: str = "",
    resource_version_match: str = "",
) -> meta.ListOptions:
    """Build the options of lists and watches."""
    options = meta.ListOptions(
        labelSelector=label_selector,
        fieldSelector=field_selector,
        limit=limit,
        resourceVersion=resource_version,
        resourceVersionMatch=resource_version_match,
    )
    setattr(options, "continue", continue_)
    return options


def delete_options(
    *,
    grace_period_seconds: int | None = None,
    propagation_policy: str | None = None,
    uid: str | None = None,
    resource_version: str | None = None,
) -> meta.DeleteOptions:
    """Build the options of a delete; what is None is left to the server."""
    options = meta.DeleteOptions()
    if grace_period_seconds is not None:
        options.gracePeriodSeconds = grace_period_seconds
    if propagation_policy is not None:
        options.propagationPolicy = propagation_policy
    if uid is not None:
        options.preconditions.uid = uid
    if resource_version is not None:
        options.preconditions.resourceVersion = resource_version
    return options


def patch_bytes(patch: bytes | Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Return a patch as JSON text."""
    return patch if isinstance(patch, bytes) else orjson.dumps(patch)


def unknown(kind: Kind, raw: bytes, content_type: str = "") -> runtime.Unknown:
    """Wrap an object's bytes for the wire."""
    if not kind.described:
        content_type = content_type or JSON
    return runtime.Unknown(
        typeMeta=runtime.TypeMeta(apiVersion=kind.api_version, kind=kind.kind), raw=raw, contentType=content_type
    )


class Requests:
    """Builds the requests of one resource; shared by the clients and by the write stream."""

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

    def options(self, **options: Any) -> native.WriteOptions:
        """Build write options with this client's fence."""
        return write_options(fence=self.fence, **options)

    def patch(
        self,
        name: str,
        *,
        patch: bytes | Mapping[str, Any] | Sequence[Any],
        patch_type: PatchType,
        namespace: str,
        subresource: str,
        options: Mapping[str, Any],
    ) -> native.PatchRequest:
        """Build a patch; `options` is what :func:`write_options` takes."""
        return native.PatchRequest(
            reference=self.reference(namespace=namespace, name=name, subresource=subresource),
            patch_type=PATCH_TYPES[patch_type],
            patch=patch_bytes(patch),
            options=self.options(**options),
        )

    def delete(
        self, name: str, *, namespace: str, chosen: meta.DeleteOptions, options: Mapping[str, Any]
    ) -> native.DeleteRequest:
        """Build a delete; `options` is what :func:`write_options` takes."""
        return native.DeleteRequest(
            reference=self.reference(namespace=namespace, name=name),
            delete_options=chosen,
            options=self.options(**options),
        )


class ResourceClient(Generic[M]):
    """All verbs on one kind, with message objects."""

    progress_deadline = 30.0
    """Seconds after which a watch without event or bookmark must be taken for dead; the servers send one every 5 s."""

    def __init__(self, transport: Transport, kind: Kind, message: type[M], fence: native.Fence | None = None) -> None:
        self.kind = kind
        self.message = message
        self.requests = Requests(kind, fence)
        self._transport = transport

    def _decode(self, answer: native.Object) -> M:
        return self.message.FromString(answer.object.raw)

    async def get(self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = "") -> M:
        """Return one object. Raises NotFoundError."""
        request = native.GetRequest(
            reference=self.requests.reference(namespace=namespace, name=name, subresource=subresource),
            resource_version=resource_version,
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.read(lambda endpoint: endpoint.resources.Get(request, metadata=metadata))
        )

    async def list(self, *, namespace: str = "", **options: Any) -> ObjectList[M]:
        """Return the objects of a namespace (empty: of all). Takes what :func:`list_options` takes."""
        request = native.ListRequest(
            reference=self.requests.reference(namespace=namespace), options=list_options(**options)
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
        self,
        *,
        namespace: str = "",
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
    ) -> AsyncIterator[Sequence[Event[M]]]:
        """Yield changes after `resource_version` in batches, BOOKMARKs included.

        Ends when the server ends it. Raises ExpiredError when the version is too old, ServiceUnavailableError when
        the connection is lost.
        """
        options = list_options(
            label_selector=label_selector, field_selector=field_selector, resource_version=resource_version
        )
        options.watch = options.allowWatchBookmarks = True
        if timeout_seconds is not None:
            options.timeoutSeconds = timeout_seconds
        if send_initial_events:
            options.sendInitialEvents = True
            options.resourceVersionMatch = "NotOlderThan"
        request = native.WatchRequest(reference=self.requests.reference(namespace=namespace), options=options)
        message = self.message
        endpoint = self._transport.endpoint()
        call = endpoint.resources.Watch(request, metadata=self._transport.metadata)
        try:
            with endpoint.lasting(call):
                async for batch in call:
                    events = []
                    for event in batch.events:
                        if event.type == native.ERROR:
                            raise errors.from_status(meta.Status.FromString(event.object))
                        events.append(
                            Event(
                                _EVENT_NAMES[event.type],
                                message.FromString(event.object),
                                str(event.resource_version),
                                event.initial_events_end,
                            )
                        )
                    yield events
        except grpc.aio.AioRpcError as error:
            raise self._transport.translate(endpoint, error) from error
        finally:
            call.cancel()

    async def create(self, obj: M, *, namespace: str = "", subresource: str = "", **options: Any) -> M:
        """Store a new object and return it as stored. Takes what :func:`write_options` takes."""
        reference = self.requests.of(obj, subresource)
        if namespace:
            reference.namespace = namespace
        request = native.CreateRequest(
            reference=reference,
            object=unknown(self.kind, obj.SerializeToString()),
            options=self.requests.options(**options),
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Create(request, metadata=metadata))
        )

    async def update(self, obj: M, *, subresource: str = "", **options: Any) -> M:
        """Replace an object; with a resourceVersion in it, only if it has not changed since (ConflictError)."""
        request = native.UpdateRequest(
            reference=self.requests.of(obj, subresource),
            object=unknown(self.kind, obj.SerializeToString()),
            options=self.requests.options(**options),
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Update(request, metadata=metadata))
        )

    async def update_status(self, obj: M, **options: Any) -> M:
        """Replace an object's status."""
        return await self.update(obj, subresource="status", **options)

    async def patch(
        self,
        name: str,
        *,
        patch: bytes | Mapping[str, Any] | Sequence[Any],
        patch_type: PatchType = "merge",
        namespace: str = "",
        subresource: str = "",
        **options: Any,
    ) -> M:
        """Change an object by a patch (JSON text, or what becomes it) and return the result."""
        request = self.requests.patch(
            name, patch=patch, patch_type=patch_type, namespace=namespace, subresource=subresource, options=options
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Patch(request, metadata=metadata))
        )

    async def delete(
        self,
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        **options: Any,
    ) -> None:
        """Delete an object, or begin to (grace period, finalizers)."""
        request = self.requests.delete(
            name,
            namespace=namespace,
            chosen=delete_options(
                grace_period_seconds=grace_period_seconds,
                propagation_policy=propagation_policy,
                uid=uid,
                resource_version=resource_version,
            ),
            options=options,
        )
        metadata = self._transport.metadata
        await self._transport.write(lambda endpoint: endpoint.resources.Delete(request, metadata=metadata))

    async def delete_collection(
        self,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        **options: Any,
    ) -> None:
        """Delete every object of a namespace that the selectors choose."""
        request = native.DeleteCollectionRequest(
            reference=self.requests.reference(namespace=namespace),
            list_options=list_options(label_selector=label_selector, field_selector=field_selector),
            delete_options=delete_options(
                grace_period_seconds=grace_period_seconds, propagation_policy=propagation_policy
            ),
            options=self.requests.options(**options),
        )
        metadata = self._transport.metadata
        await self._transport.write(lambda endpoint: endpoint.resources.DeleteCollection(request, metadata=metadata))


class RawClient:
    """The verbs of one kind on bytes, for callers that hold JSON text."""

    def __init__(self, transport: Transport, kind: Kind, fence: native.Fence | None = None) -> None:
        self.kind = kind
        self.requests = Requests(kind, fence)
        self._transport = transport

    @staticmethod
    def _decode(answer: native.Object) -> RawObject:
        meta_type = answer.object.typeMeta
        return RawObject(
            meta_type.apiVersion,
            meta_type.kind,
            answer.object.raw,
            answer.object.contentType,
            tuple(answer.warnings),
        )

    async def get(
        self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> RawObject:
        """Return one object."""
        request = native.GetRequest(
            reference=self.requests.reference(namespace=namespace, name=name, subresource=subresource),
            resource_version=resource_version,
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
        **options: Any,
    ) -> RawObject:
        """Store a new object given as JSON (or YAML, or protobuf, by `content_type`)."""
        request = native.CreateRequest(
            reference=self.requests.reference(namespace=namespace, name=name, subresource=subresource),
            object=unknown(self.kind, data, content_type),
            options=self.requests.options(**options),
        )
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
        **options: Any,
    ) -> RawObject:
        """Replace an object by one given as JSON."""
        request = native.UpdateRequest(
            reference=self.requests.reference(namespace=namespace, name=name, subresource=subresource),
            object=unknown(self.kind, data, content_type),
            options=self.requests.options(**options),
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Update(request, metadata=metadata))
        )

    async def patch(
        self,
        name: str,
        *,
        patch: bytes | Mapping[str, Any] | Sequence[Any],
        patch_type: PatchType = "merge",
        namespace: str = "",
        subresource: str = "",
        **options: Any,
    ) -> RawObject:
        """Change an object by a patch."""
        request = self.requests.patch(
            name, patch=patch, patch_type=patch_type, namespace=namespace, subresource=subresource, options=options
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Patch(request, metadata=metadata))
        )

    async def delete(
        self,
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        **options: Any,
    ) -> RawObject:
        """Delete an object, and return it (or a Status) as the server answered."""
        request = self.requests.delete(
            name,
            namespace=namespace,
            chosen=delete_options(
                grace_period_seconds=grace_period_seconds,
                propagation_policy=propagation_policy,
                uid=uid,
                resource_version=resource_version,
            ),
            options=options,
        )
        metadata = self._transport.metadata
        return self._decode(
            await self._transport.write(lambda endpoint: endpoint.resources.Delete(request, metadata=metadata))
        )
