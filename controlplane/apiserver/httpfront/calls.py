"""The verbs: an addressed request to a call of the chain, and its answer to bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.httpfront import media, options, render, routing, rows, streaming
from controlplane.apiserver.httpfront.media import Form
from controlplane.apiserver.patching import APPLY_PATCH
from controlplane.apiserver.request import JSON, PROTOBUF, YAML, Answer, Body, Request
from wharfinger.api import errors, patch, storage
from wharfinger.api.errors import BadRequestError, MethodNotAllowedError, UnsupportedMediaTypeError
from wharfinger.api.types import meta, runtime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.httpfront.routing import Address
    from controlplane.apiserver.registry.reader import Watching
    from controlplane.apiserver.request import User, Verb, WriteOptions
    from wharfinger.api.kinds import Kind

_BODIES = (JSON, YAML, PROTOBUF)


@dataclass(slots=True)
class Incoming:
    """One HTTP request with its body read."""

    user: User
    method: str
    address: Address
    query: Mapping[str, str]
    accept: str = ""
    content_type: str = ""
    """As the header says; empty when there is none."""
    data: bytes = b""
    warnings: list[str] = field(default_factory=list)
    """Filled while the request is worked on, also when it fails."""


@dataclass(slots=True)
class Reply:
    """A finished answer."""

    code: int
    body: bytes
    content_type: str


@dataclass(slots=True)
class Stream:
    """A watch that is open and waits to be streamed."""

    watching: Watching
    encoder: streaming.Encoder
    content_type: str


def method_not_allowed(method: str) -> MethodNotAllowedError:
    """Return the 405 for a method that the path does not know."""
    return MethodNotAllowedError(
        f"the server does not allow this method on the requested resource: {method}", details={}
    )


class Calls:
    """Serves resources."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._shown: dict[Kind, render.Shown] = {}
        self._changes = 0

    def shown(self, kind: Kind) -> render.Shown:
        """Return how a kind's entries are shown."""
        if self._changes != self.api.changes:  # custom kinds come and go
            self._changes = self.api.changes
            self._shown = {known: shown for known, shown in self._shown.items() if known.described}
        found = self._shown.get(kind)
        if found is None:
            found = self._shown[kind] = render.Shown(self.api.readable(kind).resource)
        return found

    def _kind(self, address: Address) -> Kind:
        kind = self.api.kind(address.group, address.version, address.resource)
        if address.namespace and not kind.namespaced:
            raise routing.not_found(f"{kind.group_resource} live in no namespace")
        if kind.namespaced and not address.namespace and address.name:
            raise routing.not_found(f"{kind.group_resource} live in namespaces")
        if address.subresource and address.subresource not in kind.subresources:
            raise routing.not_found(f"{kind.group_resource} have no {address.subresource}")
        return kind

    async def serve(self, incoming: Incoming) -> Reply | Stream:
        """Do what a request asks for, on what is served by now. Raises StatusError."""
        return await self.api.retried(self._serve, incoming)

    async def _serve(self, incoming: Incoming) -> Reply | Stream:
        del incoming.warnings[:]
        address, method, query = incoming.address, incoming.method, incoming.query
        try:
            kind = self._kind(address)
        except errors.NotFoundError:
            self.require(incoming)  # who may not ask does not learn that there is no such thing
            raise
        request = Request(
            incoming.user, "get", kind, address.namespace, address.name, address.subresource, warnings=incoming.warnings
        )
        if method == "GET":
            return await self._read(incoming, request)
        verb = self._verb(incoming, kind)
        request.verb = verb
        form = media.negotiate(incoming.accept, described=kind.described or address.subresource == "scale")
        include = query.get("includeObject", "")
        rows.check_include(include)
        if verb in ("delete", "deletecollection"):
            return await self._delete(incoming, request, form, include)
        if verb == "patch":
            answer = await self._patch(incoming, request)
        elif verb == "create":
            request.options = self._write_options(incoming, "CreateOptions")
            answer = await self.api.create(request, self._body(incoming))
        else:
            request.options = self._write_options(incoming, "UpdateOptions")
            answer = await self.api.update(request, self._body(incoming))
        code = 201 if answer.created else 200
        return Reply(code, render.answer_bytes(answer, form, include), form.media)

    def require(self, incoming: Incoming) -> None:
        """Authorise a request by its path alone, before its body is read or its kind known. Raises ForbiddenError."""
        address, query = incoming.address, incoming.query
        verb = options.verb_of(incoming.method, address, query) or options.verb_of("GET", address, query)
        self.api.authorizers.admit(
            Attributes(
                incoming.user,
                verb,
                address.group,
                address.resource,
                address.subresource,
                address.namespace,
                address.name,
                version=address.version,
            )
        )

    @staticmethod
    def _verb(incoming: Incoming, kind: Kind) -> Verb:
        address, method = incoming.address, incoming.method
        everywhere = kind.namespaced and not address.namespace
        verb: Verb | None = None
        if address.watching or (everywhere and not address.name):
            verb = None  # all namespaces together can only be read
        elif address.name:
            named: dict[str, Verb] = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"}
            verb = named.get(method)
            if method == "POST" and address.subresource:
                verb = "create"
        else:
            unnamed: dict[str, Verb] = {"POST": "create", "DELETE": "deletecollection"}
            verb = unnamed.get(method)
        if verb is None or (not address.subresource and verb not in kind.verbs):
            raise method_not_allowed(method)
        return verb

    # --- reads ----------------------------------------------------------------------------------------------------

    async def _read(self, incoming: Incoming, request: Request) -> Reply | Stream:
        query, address = incoming.query, incoming.address
        form = media.negotiate(incoming.accept, described=request.kind.described or address.subresource == "scale")
        include = query.get("includeObject", "")
        rows.check_include(include)
        if address.name and not address.watching:
            answer = await self.api.get(request, query.get("resourceVersion", ""))
            return Reply(200, render.answer_bytes(answer, form, include), form.media)
        list_options = options.list_options(query)
        if address.watching or options.flag(query.get("watch", "false")):
            request.verb = "watch"
            if "watch" not in request.kind.verbs:
                raise method_not_allowed(incoming.method)
            content_type = streaming.content_type(form)
            encoder = streaming.Encoder(self.shown(request.kind), form, include)
            try:
                watching = await self.api.watch(request, list_options)
            except errors.ExpiredError as error:
                # As Kubernetes has it: the watch is begun and ends with the event that says why.
                return Reply(200, encoder.error(error.to_status()), content_type)
            return Stream(watching, encoder, content_type)
        request.verb = "list"
        if "list" not in request.kind.verbs:
            raise method_not_allowed(incoming.method)
        page = await self.api.list(request, list_options)
        return Reply(200, await render.page_bytes(self.shown(request.kind), page, form, include), form.media)

    # --- writes ---------------------------------------------------------------------------------------------------

    async def _delete(self, incoming: Incoming, request: Request, form: Form, include: str) -> Reply:
        body = self._body(incoming, delete=True) if incoming.data else None
        delete_options = options.delete_options(incoming.query, body)
        if request.verb == "delete":
            answer = await self.api.delete(request, delete_options)
            return Reply(200, render.answer_bytes(answer, form, include), form.media)
        list_options = options.list_options(incoming.query)
        page = await self.api.delete_collection(request, delete_options, list_options)
        return Reply(200, await render.page_bytes(self.shown(request.kind), page, form, include), form.media)

    async def _patch(self, incoming: Incoming, request: Request) -> Answer:
        patch_type = media.content_type(incoming.content_type)
        known = (*patch.PATCH_TYPES, APPLY_PATCH)
        if patch_type not in known or not incoming.content_type:
            raise UnsupportedMediaTypeError(
                f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}",
                details={},
            )
        request.options = options.write_options(incoming.query, "PatchOptions", apply=patch_type == APPLY_PATCH)
        return await self.api.patch(request, patch_type, incoming.data)

    @staticmethod
    def _write_options(incoming: Incoming, kind: str) -> WriteOptions:
        return options.write_options(incoming.query, kind)

    @staticmethod
    def _body(incoming: Incoming, *, delete: bool = False) -> Body:
        """Take a body apart. Raises UnsupportedMediaTypeError, BadRequestError for a broken envelope."""
        content_type = media.content_type(incoming.content_type)
        if content_type not in _BODIES:
            if delete:
                content_type = JSON
            else:
                raise UnsupportedMediaTypeError(
                    f"the body of the request was in an unknown format - accepted media types include: "
                    f"{', '.join(_BODIES)}"
                )
        if content_type != PROTOBUF:
            return Body(incoming.data, content_type)
        data = incoming.data
        if data[:4] != storage.PREFIX:
            raise BadRequestError("the body does not begin like protobuf of Kubernetes: the bytes 'k8s' and 0")
        if len(data) == len(storage.PREFIX):
            raise BadRequestError("the body holds no object")
        try:
            unknown = runtime.Unknown.FromString(data[len(storage.PREFIX) :])
        except DecodeError as error:
            raise BadRequestError(f"the envelope of the body cannot be read: {error}") from error
        return Body(unknown.raw, PROTOBUF, unknown.typeMeta.apiVersion, unknown.typeMeta.kind)


def status_reply(error: errors.StatusError, accept: str) -> Reply:
    """Return the answer that an error is."""
    wanted = media.for_errors(accept)
    status: meta.Status = error.to_status()
    return Reply(error.status_code, render.message_bytes(status, wanted), wanted)
