"""Objects, lists and errors as bytes in the form that was asked for.

An entry of the cache never changes, so its JSON and its canonical protobuf are made once and remembered with it: a list
of thousands is a join of ready bytes. Protobuf is encoded anew with the version in its place; what the gRPC front
sends (the stored bytes with the version appended) merges to the same object, but is not what Kubernetes would send.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from controlplane.apiserver.httpfront import media, rows
from controlplane.apiserver.httpfront.media import PARTIAL, PARTIAL_LIST, TABLE
from controlplane.apiserver.registry.deletion import STATUS
from controlplane.apiserver.request import JSON, PROTOBUF, YAML
from wharfinger.api import codec, storage
from wharfinger.api.codec.schema import descriptor_of, info_of
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from controlplane.apiserver.httpfront.media import Form
    from controlplane.apiserver.registry.reader import Page
    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.request import Answer
    from controlplane.apiserver.store import Entry
    from wharfinger.api.kinds import Kind

CONTENT_TYPES = {JSON: JSON, YAML: YAML, PROTOBUF: PROTOBUF}


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
        self._partial_form = f"partial {version}"
        self._protobuf_form = f"canonical {version}"

    def message(self, entry: Entry) -> Any:
        """Return the object with its resourceVersion, as a message of its own."""
        return self.kind.message.FromString(self.resource.raw(entry))

    def json(self, entry: Entry) -> bytes:
        """Return the object as JSON."""
        return entry.served(self._json_form, self._make_json)

    def _make_json(self, entry: Entry) -> bytes:
        return codec.to_json_bytes(self.message(entry))

    def json_item(self, entry: Entry) -> bytes:
        """Return the object as JSON without ``kind`` and ``apiVersion``, as it stands in lists."""
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


@cache
def _list_name(kind: Kind) -> str:
    return f"{kind.kind}List"


def _list_meta(page: Page) -> meta.ListMeta:
    made: Any = meta.ListMeta(resourceVersion=str(page.revision))
    if page.continue_:
        setattr(made, "continue", page.continue_)
    if page.remaining:
        made.remainingItemCount = page.remaining
    result: meta.ListMeta = made
    return result


def page_bytes(shown: Shown, page: Page, form: Form, include: str) -> bytes:
    """Return a list in the form that was asked for. Raises NotAcceptableError for a shape that lists do not have."""
    kind = shown.kind
    list_meta = _list_meta(page)
    if form.shape == PARTIAL:
        raise media.not_acceptable()
    if form.shape == PARTIAL_LIST:
        return _partial_list(shown, page, form, list_meta)
    if form.shape == TABLE:
        table = rows.table(
            kind, [(shown.message(entry), shown.metadata(entry), shown.json(entry)) for entry in page.entries],
            form=form, include=include, list_meta=codec.to_json(list_meta),
        )  # fmt: skip
        return dump(table, form.media)
    if form.media == PROTOBUF:
        parts = [field(0x0A, codec.canonical_bytes(list_meta))]
        parts += [field(0x12, shown.protobuf(entry)) for entry in page.entries]
        return storage.wrap(kind.api_version, _list_name(kind), b"".join(parts))
    if form.media == YAML:
        items = [orjson.loads(shown.json_item(entry)) for entry in page.entries]
        value = {"kind": _list_name(kind), "apiVersion": kind.api_version, "metadata": codec.to_json(list_meta)}
        return codec.to_yaml({**value, "items": items}).encode()
    return _json_list(_list_name(kind), kind.api_version, list_meta, [shown.json_item(entry) for entry in page.entries])


def _json_list(name: str, api_version: str, list_meta: meta.ListMeta, items: Sequence[bytes] | None) -> bytes:
    """Join a list; None is written as null, as Kubernetes does for empty lists of bare metadata."""
    head = orjson.dumps({"kind": name, "apiVersion": api_version})[:-1]
    body = b"null" if items is None else b"[" + b",".join(items) + b"]"
    return b"".join((head, b',"metadata":', codec.to_json_bytes(list_meta), b',"items":', body, b"}\n"))


def _partial_list(shown: Shown, page: Page, form: Form, list_meta: meta.ListMeta) -> bytes:
    if form.media == PROTOBUF:
        parts = [field(0x0A, codec.canonical_bytes(list_meta))]
        for entry in page.entries:
            partial = rows.partial(shown.message(entry))
            parts.append(field(0x12, codec.canonical_bytes(partial)))
        return storage.wrap(form.shape_api_version, PARTIAL_LIST, b"".join(parts))
    head = orjson.dumps({"kind": PARTIAL, "apiVersion": form.shape_api_version})[:-1]
    items = [head + b',"metadata":' + shown.metadata(entry) + b"}" for entry in page.entries]
    text = _json_list(PARTIAL_LIST, form.shape_api_version, list_meta, items if items else None)
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
    table = rows.table(
        answer.kind,
        [(message, orjson.dumps(rows.metadata_of(message)), codec.to_json_bytes(message))],
        form=form,
        include=include,
        list_meta={"resourceVersion": message.metadata.resourceVersion},
    )
    return dump(table, form.media)
