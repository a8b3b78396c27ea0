"""Objects, lists and errors as bytes in the form that was asked for.

An entry of the cache never changes, so its JSON and its canonical protobuf are made once and remembered with it: a list
of thousands is a join of ready bytes. Protobuf is encoded anew with the version in its place; what the gRPC front
sends (the stored bytes with the version appended) merges to the same object, but is not what Kubernetes would send.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from controlplane.apiserver.httpfront import media, rows
from controlplane.apiserver.httpfront.media import PARTIAL, PARTIAL_LIST, TABLE
from controlplane.apiserver.registry.deletion import STATUS
from controlplane.apiserver.request import JSON, PROTOBUF, YAML
from wharfinger.api import codec, storage
from wharfinger.api.codec.schema import descriptor_of, info_of
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    from controlplane.apiserver.httpfront.media import Form
    from controlplane.apiserver.registry.reader import Page
    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.request import Answer
    from controlplane.apiserver.store import Entry

T = TypeVar("T")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(tag: int, data: bytes) -> bytes:
    """Encode a length-delimited protobuf field; `tag` is its number times 8 plus 2."""
    return bytes((tag,)) + _varint(len(data)) + data


def dump(value: Any, form_media: str) -> bytes:
    """Return plain values as JSON or YAML."""
    if form_media == YAML:
        return codec.to_yaml(orjson.loads(orjson.dumps(value))).encode()
    return orjson.dumps(value) + b"\n"


def message_bytes(message: Message, form_media: str) -> bytes:
    """Return a message that knows its kind in a media type, with Kubernetes' envelope for protobuf."""
    if form_media == PROTOBUF:
        info = info_of(descriptor_of(message))
        return storage.wrap(info.api_version, info.kind, codec.canonical_bytes(message))
    if form_media == YAML:
        return codec.to_yaml(codec.to_json(message)).encode()
    return codec.to_json_bytes(message) + b"\n"


# --- entries of the cache ---------------------------------------------------------------------------------------------


class Shown:
    """How the entries of one resource look in each form."""

    def __init__(self, resource: StoredResource) -> None:
        self.resource = resource
        self.kind = resource.kind
        version = self.kind.api_version
        self._prefix = len(orjson.dumps({"kind": self.kind.kind, "apiVersion": version}))
        self._json_form = f"json {version}"
        self._partial_form = f"partial {version}{resource.state}"
        self._protobuf_form = f"canonical {version}"

    def message(self, entry: Entry) -> Any:
        """Return the object with its resourceVersion, as a message of its own."""
        return self.kind.message.FromString(self.resource.raw(entry))

    def json(self, entry: Entry) -> bytes:
        """Return the object as JSON."""
        if not self.kind.described:
            return self.resource.raw(entry)
        return entry.served(self._json_form, self._make_json)

    def _make_json(self, entry: Entry) -> bytes:
        return codec.to_json_bytes(self.message(entry))

    def json_item(self, entry: Entry) -> bytes:
        """Return the object as it stands in lists: without ``kind`` and ``apiVersion``, unless it is a custom one."""
        if not self.kind.described:
            return self.resource.raw(entry)
        return b"{" + self.json(entry)[self._prefix :]

    def metadata(self, entry: Entry) -> bytes:
        """Return the object's metadata as JSON."""
        return entry.served(self._partial_form, self._make_metadata)

    def _make_metadata(self, entry: Entry) -> bytes:
        return orjson.dumps(rows.metadata_of(self.message(entry)))

    def protobuf(self, entry: Entry) -> bytes:
        """Return the object's canonical protobuf bytes."""
        return entry.served(self._protobuf_form, self._make_protobuf)

    def _make_protobuf(self, entry: Entry) -> bytes:
        return codec.canonical_bytes(self.message(entry))


def _list_meta(page: Page) -> meta.ListMeta:
    made: Any = meta.ListMeta(resourceVersion=str(page.revision))
    if page.continue_:
        setattr(made, "continue", page.continue_)
    if page.remaining:
        made.remainingItemCount = page.remaining
    result: meta.ListMeta = made
    return result


_SLICE = 50
"""Entries that are rendered in one go; then others get their turn."""


async def _each(entries: Sequence[Entry], make: Callable[[Entry], T]) -> list[T]:
    made: list[T] = []
    for number, entry in enumerate(entries):
        if number % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        made.append(make(entry))
    return made


async def page_bytes(shown: Shown, page: Page, form: Form, include: str) -> bytes:
    """Return a list in the form that was asked for. Raises NotAcceptableError for a shape that lists do not have."""
    kind, entries = shown.kind, page.entries
    list_meta = _list_meta(page)
    if form.shape == PARTIAL:
        raise media.not_acceptable()
    if form.shape == PARTIAL_LIST:
        return await _partial_list(shown, page, form, list_meta)
    if form.shape == TABLE:
        maker = rows.Rows(kind, form, include)
        made = await _each(
            entries, lambda entry: maker.row(shown.message(entry), shown.metadata(entry), lambda: shown.json(entry))
        )
        return dump(maker.table(made, codec.to_json(list_meta)), form.media)
    if form.media == PROTOBUF:
        parts = [field(0x0A, codec.canonical_bytes(list_meta))]
        parts += await _each(entries, lambda entry: field(0x12, shown.protobuf(entry)))
        return storage.wrap(kind.api_version, kind.list_kind, b"".join(parts))
    items = await _each(entries, shown.json_item)
    shown_meta = codec.to_json(list_meta) if kind.described else {"continue": "", **codec.to_json(list_meta)}
    text = _json_list(kind.list_kind, kind.api_version, shown_meta, items)
    return text if form.media == JSON else dump(orjson.loads(text), form.media)


def _json_list(name: str, api_version: str, list_meta: dict[str, Any], items: Sequence[bytes] | None) -> bytes:
    """Join a list; None is written as null, as Kubernetes does for empty lists of bare metadata."""
    head = orjson.dumps({"kind": name, "apiVersion": api_version})[:-1]
    body = b"null" if items is None else b"[" + b",".join(items) + b"]"
    return b"".join((head, b',"metadata":', orjson.dumps(list_meta), b',"items":', body, b"}\n"))


async def _partial_list(shown: Shown, page: Page, form: Form, list_meta: meta.ListMeta) -> bytes:
    if form.media == PROTOBUF:
        parts = [field(0x0A, codec.canonical_bytes(list_meta))]
        parts += await _each(
            page.entries, lambda entry: field(0x12, codec.canonical_bytes(rows.partial(shown.message(entry))))
        )
        return storage.wrap(form.shape_api_version, PARTIAL_LIST, b"".join(parts))
    head = orjson.dumps({"kind": PARTIAL, "apiVersion": form.shape_api_version})[:-1]
    items = await _each(page.entries, lambda entry: head + b',"metadata":' + shown.metadata(entry) + b"}")
    text = _json_list(PARTIAL_LIST, form.shape_api_version, codec.to_json(list_meta), items if items else None)
    return text if form.media == JSON else dump(orjson.loads(text), form.media)


# --- single objects ---------------------------------------------------------------------------------------------------


def answer_bytes(answer: Answer, form: Form, include: str) -> bytes:
    """Return a single object in the form that was asked for; a Status keeps its own."""
    message: Any = answer.message()
    if answer.kind is STATUS or not form.shape:
        return message_bytes(message, form.media)
    if form.shape == PARTIAL_LIST:
        raise media.not_acceptable()
    if form.shape == PARTIAL:
        if form.media == PROTOBUF:
            return storage.wrap(form.shape_api_version, PARTIAL, codec.canonical_bytes(rows.partial(message)))
        return dump(rows.partial_json(rows.metadata_of(message), form), form.media)
    maker = rows.Rows(answer.kind, form, include)
    row = maker.row(message, orjson.dumps(rows.metadata_of(message)), lambda: codec.to_json_bytes(message))
    table = maker.table([row], {"resourceVersion": message.metadata.resourceVersion})
    return dump(table, form.media)
