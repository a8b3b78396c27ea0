"""One kind over HTTP, with the same methods as over gRPC, so that informers and leader election work on it unchanged.

Objects travel as Kubernetes' protobuf where the server has it, else as JSON. Fields that this schema does not know (a
newer Kubernetes' own) are read over. Lists are taken in pages; a watch asks for bookmarks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import orjson
from google.protobuf.message import DecodeError, Message

from wharfinger.api import codec, errors, storage
from wharfinger.api.kinds import Kind
from wharfinger.api.types import meta
from wharfinger.client.http.transport import JSON, PROTOBUF, HttpTransport, translated
from wharfinger.client.options import (
    CollectionDeleteOptions,
    DeleteOptions,
    ListOptions,
    PatchOptions,
    WatchOptions,
    WriteOptions,
    delete_call,
    patch_call,
)
from wharfinger.client.verbs import Event, EventType, ObjectList, ResourceClient

if TYPE_CHECKING:
    import aiohttp

M = TypeVar("M", bound=Message)

PAGE = 500
_INITIAL_END = "k8s.io/initial-events-end"
_NAMES: dict[str, EventType] = {
    "ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED", "BOOKMARK": "BOOKMARK",
}  # fmt: skip
_UNTOLD = frozenset({"brief", "lazy"})
"""Write options that only our own servers know."""
_OPTIONS = {
    "label_selector": "labelSelector",
    "field_selector": "fieldSelector",
    "limit": "limit",
    "continue_": "continue",
    "resource_version": "resourceVersion",
    "resource_version_match": "resourceVersionMatch",
    "field_manager": "fieldManager",
    "field_validation": "fieldValidation",
}


def path_of(kind: Kind, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, an object or a subresource."""
    parts = ["/apis", kind.group, kind.version] if kind.group else ["/api", kind.version]
    if namespace and kind.namespaced:
        parts += ["namespaces", namespace]
    parts += [part for part in (kind.resource, name, subresource) if part]
    return "/".join(parts)


def query_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options of lists and writes as a query. Raises TypeError for one that is unknown."""
    query: dict[str, str] = {}
    for name, value in options.items():
        if name == "dry_run":
            if value:
                query["dryRun"] = "All"
        elif name in _OPTIONS:
            if value:
                query[_OPTIONS[name]] = str(value)
        elif name not in _UNTOLD:
            raise TypeError(f"{name} is no option of a list or write; there are dry_run, {', '.join(_OPTIONS)}")
    return query


def read_object(data: bytes, content_type: str, message: type[M]) -> M:
    """Read an object in either form. Raises BadRequestError for what is none."""
    if content_type == PROTOBUF:
        try:
            return message.FromString(storage.unwrap(data)[2])
        except DecodeError as error:
            raise errors.BadRequestError(
                f"the apiserver's {message.DESCRIPTOR.name} cannot be read: {error}"
            ) from error
    return codec.from_json(data, message, validation="Ignore").message


class HttpResourceClient(ResourceClient[M]):
    """See :class:`~wharfinger.client.verbs.ResourceClient`."""

    progress_deadline = 150.0
    """Kubernetes sends bookmarks about every minute."""

    def __init__(self, transport: HttpTransport, kind: Kind, message: type[M]) -> None:
        super().__init__(kind, message)
        self._http = transport

    async def _call(self, method: str, path: str, *, query: Mapping[str, str], body: bytes | None = None,
                    content_type: str = "") -> M:  # fmt: skip
        data, answered = await self._http.call(method, path, query=query, body=body, content_type=content_type)
        return read_object(data, answered, self.message)

    def _wrapped(self, obj: M) -> bytes:
        return storage.wrap(self.kind.api_version, self.kind.kind, obj.SerializeToString())

    def _path(self, obj: Any, subresource: str = "", *, of_object: bool = True, namespace: str = "") -> str:
        metadata = obj.metadata
        return path_of(
            self.kind,
            namespace=namespace or metadata.namespace,
            name=metadata.name if of_object else "",
            subresource=subresource,
        )

    async def get(self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = "") -> M:
        """See ResourceClient.get."""
        path = path_of(self.kind, namespace=namespace, name=name, subresource=subresource)
        return await self._call("GET", path, query=query_of({"resource_version": resource_version}))

    async def list(self, *, namespace: str = "", **options: Unpack[ListOptions]) -> ObjectList[M]:
        """See ResourceClient.list; asked for in pages unless `limit` is given."""
        path = path_of(self.kind, namespace=namespace)
        if options.get("limit"):
            return await self._page(path, options)
        result: ObjectList[M] = ObjectList(items=[], resource_version="")
        continue_ = ""
        while True:
            try:
                page = await self._page(path, {**options, "limit": PAGE, "continue_": continue_})
            except errors.ExpiredError:
                if not continue_:
                    raise
                return await self._page(path, options)  # it took too long: all at once
            result.items.extend(page.items)
            result.resource_version = page.resource_version or result.resource_version
            continue_ = page.continue_
            if not continue_:
                return result

    async def _page(self, path: str, options: Mapping[str, Any]) -> ObjectList[M]:
        data, content_type = await self._http.call("GET", path, query=query_of(options))
        if content_type == PROTOBUF and self.kind.list_message is not None:
            listed: Any = read_object(data, content_type, self.kind.list_message)
            metadata = listed.metadata
            return ObjectList(
                items=list(listed.items),
                resource_version=metadata.resourceVersion,
                continue_=getattr(metadata, "continue"),
                remaining=metadata.remainingItemCount,
            )
        try:
            document = orjson.loads(data)
            metadata, items = document.get("metadata") or {}, document.get("items") or []
        except (ValueError, AttributeError) as error:
            raise errors.InternalError(
                f"the apiserver's list of {self.kind.resource} is no JSON list: {error}"
            ) from error
        return ObjectList(
            items=[codec.from_json(item, self.message, validation="Ignore").message for item in items],
            resource_version=str(metadata.get("resourceVersion", "")),
            continue_=str(metadata.get("continue", "")),
            remaining=int(metadata.get("remainingItemCount") or 0),
        )

    async def watch(
        self, *, namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[Sequence[Event[M]], None]:
        """See ResourceClient.watch."""
        given: dict[str, Any] = dict(options)
        seconds, initial = given.pop("timeout_seconds", None), given.pop("send_initial_events", False)
        query = query_of(given) | {"watch": "true", "allowWatchBookmarks": "true"}
        if seconds is not None:
            query["timeoutSeconds"] = str(seconds)
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        path = path_of(self.kind, namespace=namespace)
        with translated():
            async with self._http.open("GET", path, query=query, endless=True) as response:
                async for batch in self._batches(response):
                    yield batch

    async def _batches(self, response: aiohttp.ClientResponse) -> AsyncIterator[Sequence[Event[M]]]:
        binary = response.content_type == PROTOBUF
        buffer = b""
        async for chunk in response.content.iter_any():
            buffer += chunk
            frames, buffer = _split_frames(buffer) if binary else _split_lines(buffer)
            if frames:
                read = self._binary_event if binary else self._json_event
                yield [read(frame) for frame in frames]

    def _binary_event(self, frame: bytes) -> Event[M]:
        try:
            outer = meta.WatchEvent.FromString(frame)
        except DecodeError as error:
            raise errors.InternalError(
                f"an event of a watch on {self.kind.resource} cannot be read: {error}"
            ) from error
        if outer.type == "ERROR":
            raise errors.from_status(read_object(outer.object.raw, PROTOBUF, meta.Status))
        return self._event(outer.type, read_object(outer.object.raw, PROTOBUF, self.message))

    def _json_event(self, line: bytes) -> Event[M]:
        try:
            outer = orjson.loads(line)
            type_, document = outer["type"], outer["object"]
        except (ValueError, KeyError, TypeError) as error:
            raise errors.InternalError(
                f"an event of a watch on {self.kind.resource} cannot be read: {error}"
            ) from error
        if type_ == "ERROR":
            raise errors.from_status(codec.from_json(document, meta.Status, validation="Ignore").message)
        return self._event(type_, codec.from_json(document, self.message, validation="Ignore").message)

    def _event(self, type_: str, obj: Any) -> Event[M]:
        name = _NAMES.get(type_)
        if name is None:
            raise errors.InternalError(f"a watch on {self.kind.resource} brought an event of type {type_!r}")
        metadata = obj.metadata
        ended = name == "BOOKMARK" and metadata.annotations.get(_INITIAL_END) == "true"
        return Event(name, obj, metadata.resourceVersion, ended)

    async def create(self, obj: M, *, namespace: str = "", subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """See ResourceClient.create."""
        path = self._path(obj, subresource, of_object=bool(subresource), namespace=namespace)
        return await self._call("POST", path, query=query_of(options), body=self._wrapped(obj), content_type=PROTOBUF)

    async def update(self, obj: M, *, subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """See ResourceClient.update."""
        path = self._path(obj, subresource)
        return await self._call("PUT", path, query=query_of(options), body=self._wrapped(obj), content_type=PROTOBUF)

    async def patch(self, name: str, **options: Unpack[PatchOptions]) -> M:
        """See ResourceClient.patch."""
        call = patch_call(options)
        path = path_of(self.kind, namespace=call.namespace, name=name, subresource=call.subresource)
        return await self._call(
            "PATCH", path, query=query_of(call.options), body=call.body, content_type=call.content_type
        )

    async def delete(self, name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]) -> None:
        """See ResourceClient.delete."""
        chosen, rest = delete_call(options)
        path = path_of(self.kind, namespace=namespace, name=name)
        await self._http.call("DELETE", path, query=query_of(rest), body=_delete_body(chosen), content_type=JSON)

    async def delete_collection(
        self,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        **options: Unpack[CollectionDeleteOptions],
    ) -> None:
        """See ResourceClient.delete_collection."""
        chosen, rest = delete_call(options)
        query = query_of({**rest, "label_selector": label_selector, "field_selector": field_selector})
        path = path_of(self.kind, namespace=namespace)
        await self._http.call("DELETE", path, query=query, body=_delete_body(chosen), content_type=JSON)


def _delete_body(chosen: meta.DeleteOptions) -> bytes:
    body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if chosen.HasField("gracePeriodSeconds"):
        body["gracePeriodSeconds"] = chosen.gracePeriodSeconds
    if chosen.propagationPolicy:
        body["propagationPolicy"] = chosen.propagationPolicy
    preconditions = {
        name: getattr(chosen.preconditions, name)
        for name in ("uid", "resourceVersion")
        if chosen.HasField("preconditions") and getattr(chosen.preconditions, name)
    }
    if preconditions:
        body["preconditions"] = preconditions
    return orjson.dumps(body)


def _split_lines(buffer: bytes) -> tuple[list[bytes], bytes]:
    *lines, rest = buffer.split(b"\n")
    return [line for line in lines if line.strip()], rest


def _split_frames(buffer: bytes) -> tuple[list[bytes], bytes]:
    frames: list[bytes] = []
    at = 0
    while at + 4 <= len(buffer):
        end = at + 4 + int.from_bytes(buffer[at : at + 4], "big")
        if end > len(buffer):
            break
        frames.append(buffer[at + 4 : end])
        at = end
    return frames, buffer[at:]
