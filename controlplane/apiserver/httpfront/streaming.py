"""A watch as a chunked answer: JSON objects, a line each, or protobuf in frames with a length of four bytes before.

What is ready goes out together. A client that does not read blocks only its own task; the cache closes its watch when
it is too far behind, and a write that does not get through in time (``--request-timeout``) cuts the connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from controlplane.apiserver import watchstream
from controlplane.apiserver.httpfront import media, render, rows
from controlplane.apiserver.httpfront.connection import cut_off
from controlplane.apiserver.httpfront.media import PARTIAL, PARTIAL_LIST, TABLE
from controlplane.apiserver.request import JSON, PROTOBUF, YAML
from controlplane.apiserver.store import EventType
from wharfinger.api import codec, errors, storage
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from controlplane.apiserver.httpfront.media import Form
    from controlplane.apiserver.httpfront.render import Shown
    from controlplane.apiserver.registry.reader import Watching
    from controlplane.apiserver.store import WatchEvent

log = logging.getLogger(__name__)

INITIAL_END = "k8s.io/initial-events-end"


def content_type(form: Form) -> str:
    """Return the content type of a watch. Raises NotAcceptableError for YAML, which cannot be streamed."""
    if form.media == YAML:
        raise media.not_acceptable()
    return f"{PROTOBUF};stream=watch" if form.media == PROTOBUF else JSON


class Encoder:
    """Makes the bytes of events in one form."""

    def __init__(self, shown: Shown, form: Form, include: str) -> None:
        self._shown = shown
        self._form = form
        self._include = include
        self._first = True
        version = shown.kind.api_version
        self._name = f"http {form.media} {form.shape} {form.version} {version}{shown.resource.state}"

    def event(self, event: WatchEvent) -> bytes:
        """Return an event's bytes; empty for one that has none in this form."""
        shape, initial_end = self._form.shape, event.initial_end
        if shape == PARTIAL_LIST:
            return b""
        if shape == TABLE:
            return self._table_event(event, initial_end=initial_end)
        if event.type == EventType.BOOKMARK:
            return self._bookmark(event.revision, initial_end=initial_end)
        return event.served(self._name, self._make)

    def _make(self, event: WatchEvent) -> bytes:
        entry, shown, form = event.entry, self._shown, self._form
        if form.media == PROTOBUF:
            if form.shape == PARTIAL:
                partial = codec.canonical_bytes(rows.partial(shown.message(entry)))
                return self._frame(event.type.name, storage.wrap(form.shape_api_version, PARTIAL, partial))
            kind = shown.kind
            return self._frame(event.type.name, storage.wrap(kind.api_version, kind.kind, shown.protobuf(entry)))
        if form.shape == PARTIAL:
            obj = orjson.dumps(rows.partial_json(orjson.Fragment(shown.metadata(entry)), form))
        else:
            obj = shown.json(entry)
        return _line(event.type.name, obj)

    def _blank(self, revision: int, *, initial_end: bool) -> Any:
        message: Any = self._shown.kind.message()
        message.metadata.resourceVersion = str(revision)
        if initial_end:
            message.metadata.annotations[INITIAL_END] = "true"
        return message

    def _bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        message, form = self._blank(revision, initial_end=initial_end), self._form
        if form.media == PROTOBUF:
            if form.shape == PARTIAL:
                wrapped = storage.wrap(form.shape_api_version, PARTIAL, codec.canonical_bytes(rows.partial(message)))
            else:
                wrapped = render.message_bytes(message, PROTOBUF)
            return self._frame("BOOKMARK", wrapped)
        if form.shape == PARTIAL:
            return _line("BOOKMARK", orjson.dumps(rows.partial_json(rows.metadata_of(message), form)))
        return _line("BOOKMARK", codec.to_json_bytes(message))

    def _table_event(self, event: WatchEvent, *, initial_end: bool) -> bytes:
        shown = self._shown
        if event.type == EventType.BOOKMARK:
            message = self._blank(event.revision, initial_end=initial_end)
            metadata, whole = orjson.dumps(rows.metadata_of(message)), lambda: codec.to_json_bytes(message)
        else:
            entry = event.entry
            message, metadata, whole = shown.message(entry), shown.metadata(entry), lambda: shown.json(entry)
        maker = rows.Rows(shown.kind, self._form, self._include)
        row = maker.row(message, metadata, whole)
        table = maker.table([row], {"resourceVersion": message.metadata.resourceVersion}, with_columns=self._first)
        self._first = False
        return _line(event.type.name, orjson.dumps(table))

    def error(self, status: meta.Status) -> bytes:
        """Return the event that ends a watch with an error."""
        if self._form.media == PROTOBUF:
            return self._frame("ERROR", render.message_bytes(status, PROTOBUF))
        return _line("ERROR", codec.to_json_bytes(status))

    @staticmethod
    def _frame(kind: str, wrapped: bytes) -> bytes:
        body = render.field(0x0A, kind.encode()) + render.field(0x12, render.field(0x0A, wrapped))
        return len(body).to_bytes(4, "big") + body


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"


class _Sink:
    """Writes to a client, and cuts it off when it does not read."""

    def __init__(self, http: web.BaseRequest, response: web.StreamResponse, patience: float) -> None:
        self._http = http
        self._response = response
        self._patience = patience

    async def write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._response.write(data)
        except TimeoutError as error:
            log.info("a watcher that does not read is cut off", extra={"peer": str(self._http.remote)})
            cut_off(self._http)
            raise ConnectionResetError("the client does not read") from error


async def serve(
    http: web.BaseRequest, watching: Watching, encoder: Encoder, headers: dict[str, str], kind: str, *, patience: float
) -> web.StreamResponse:
    """Stream a watch until its time is over, the client goes or the cache ends it.

    `patience`: seconds that a client has to take what it was sent.
    """
    async with watching.watcher as watcher:
        response = web.StreamResponse(headers={**headers, "Content-Type": kind})
        response.enable_chunked_encoding()
        await response.prepare(http)
        sink = _Sink(http, response, patience)
        try:
            async with asyncio.timeout(watching.timeout):
                async for piece in watchstream.pieces(watcher, watching, encoder.event):
                    await sink.write(piece)
        except TimeoutError:
            log.debug("a watch's time is over")
        except errors.StatusError as error:
            await sink.write(encoder.error(error.to_status()))
        except ConnectionError:
            return response  # the client is gone
        await response.write_eof()
        return response
