"""The calls of ``wharfinger.v1.Resources`` and ``Server``, from parsed requests to the bytes of answers.

The unary calls and the write stream share one method a verb, so that both mean the same.
"""

from __future__ import annotations

import asyncio
import platform
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controlplane.apiserver import audit, version
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.binding import Binding
from controlplane.apiserver.chain import BUILT
from controlplane.apiserver.failures import as_status_error
from controlplane.apiserver.grpcfront import wire
from controlplane.apiserver.request import PROTOBUF, Answer, Body, Fence, Request, WriteOptions
from wharfinger.api import disruption, errors, kinds
from wharfinger.api.custom import CustomKind
from wharfinger.api.errors import FieldError
from wharfinger.api.types import meta
from wharfinger.proto.native import resources_v1_pb2 as native

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.grpcfront.auditing import Auditing
    from controlplane.apiserver.request import User, Verb
    from wharfinger.api.types import runtime

MAX_BINDINGS = 10_000
"""Of one BindMany, which works on all at once."""

_VALIDATIONS = ("", "Strict", "Warn", "Ignore")


def write_options(message: native.WriteOptions) -> WriteOptions:
    """Read the options of a write. Raises InvalidError for an unknown field validation."""
    validation = message.field_validation
    if validation not in _VALIDATIONS:
        cause = FieldError.not_supported("fieldValidation", validation, _VALIDATIONS)
        raise errors.invalid("CreateOptions", "meta.k8s.io", "", [cause])
    fence = None
    if message.HasField("fence"):
        given = message.fence
        if not given.lease or given.term <= 0:
            raise errors.BadRequestError("options.fence: lease and a positive term are required")
        fence = Fence(given.namespace, given.lease, given.term)
    return WriteOptions(
        message.dry_run, message.field_manager, validation or "Warn", fence, message.lazy, message.force
    )


def body(message: runtime.Unknown) -> Body:
    """Read the body of a write."""
    if message.contentEncoding:
        raise errors.UnsupportedMediaTypeError(
            f"object.contentEncoding: {message.contentEncoding!r} is not supported; send the body as it is"
        )
    kind = message.typeMeta
    return Body(message.raw, message.contentType or PROTOBUF, kind.apiVersion, kind.kind)


def _status() -> Answer:
    status = meta.Status(status="Success")
    status.metadata.SetInParent()
    return Answer(kinds.of(meta.Status), status.SerializeToString())


_SUCCESS = _status()


class Calls:
    """What the servicers call: a method a verb, each returning the bytes of the answer."""

    def __init__(self, api: Api, auditing: Auditing | None = None) -> None:
        self.api = api
        self.auditing = auditing
        self.on_stream: dict[str, Callable[[User, Any], Coroutine[Any, Any, bytes]]] = {
            "create": self.create,
            "update": self.update,
            "patch": self.patch,
            "delete": self.delete,
            "bind": self.bind_object,
        }

    def request(
        self, user: User, verb: Verb, reference: native.Reference, options: WriteOptions | None = None
    ) -> Request:
        """Build the request that a reference stands for. Raises NotFoundError for an unknown resource."""
        try:
            kind = self.api.kind(reference.group, reference.version, reference.resource)
        except errors.NotFoundError:
            # Who may not ask does not learn that there is no such thing.
            self.api.authorizers.admit(
                Attributes(
                    user,
                    verb,
                    reference.group,
                    reference.resource,
                    reference.subresource,
                    reference.namespace,
                    reference.name,
                    version=reference.version,
                )
            )
            raise
        namespace = reference.namespace
        if namespace and not kind.namespaced:
            raise errors.BadRequestError(f"{kind.group_resource} live in no namespace, but {namespace!r} was given")
        name = reference.name
        if not name and (verb in ("get", "update", "patch", "delete") or reference.subresource):
            raise errors.BadRequestError("reference.name: Required value: the name of the object")
        if name and kind.namespaced and not namespace and verb not in ("list", "watch"):
            raise errors.BadRequestError("reference.namespace: Required value: the namespace of the object")
        return Request(user, verb, kind, namespace, name, reference.subresource, options or WriteOptions())

    async def get(self, user: User, message: native.GetRequest) -> bytes:
        """Serve Get."""
        request = self.request(user, "get", message.reference)
        return wire.object_bytes(await self.api.get(request, message.resource_version), request.warnings)

    async def create(self, user: User, message: native.CreateRequest) -> bytes:
        """Serve Create."""
        request = self.request(user, "create", message.reference, write_options(message.options))
        answer = await self.api.create(request, body(message.object))
        return wire.object_bytes(answer, request.warnings, brief=message.options.brief)

    async def update(self, user: User, message: native.UpdateRequest) -> bytes:
        """Serve Update."""
        request = self.request(user, "update", message.reference, write_options(message.options))
        answer = await self.api.update(request, body(message.object))
        return wire.object_bytes(answer, request.warnings, brief=message.options.brief)

    async def patch(self, user: User, message: native.PatchRequest) -> bytes:
        """Serve Patch."""
        request = self.request(user, "patch", message.reference, write_options(message.options))
        answer = await self.api.patch(request, message.patch_type, message.patch)
        return wire.object_bytes(answer, request.warnings, brief=message.options.brief)

    async def delete(self, user: User, message: native.DeleteRequest) -> bytes:
        """Serve Delete."""
        request = self.request(user, "delete", message.reference, write_options(message.options))
        mark = self._disruption(request, message.disruption) if message.HasField("disruption") else None
        answer = await self.api.delete(request, message.delete_options, mark=mark)
        return wire.object_bytes(answer, request.warnings, brief=message.options.brief)

    def _disruption(self, request: Request, given: native.Disruption) -> Callable[[Any], None]:
        if request.kind.group_resource != "pods":
            raise errors.BadRequestError(f"disruption: {request.kind.group_resource} have no such condition, only pods")
        if not given.reason:
            raise errors.BadRequestError("disruption.reason: Required value")
        self.api.authorize(replace(request, verb="patch", subresource="status"))
        return disruption.marker(given.reason, given.message)

    async def delete_collection(self, user: User, message: native.DeleteCollectionRequest) -> bytes:
        """Serve DeleteCollection; the answer says how it went, not what was deleted."""
        request = self.request(user, "deletecollection", message.reference, write_options(message.options))
        await self.api.delete_collection(request, message.delete_options, message.list_options)
        return wire.object_bytes(_SUCCESS, request.warnings)

    async def _bind(self, user: User, message: native.BindRequest) -> int:
        pods = self.api.kind("", "v1", "pods")
        for name in ("namespace", "pod", "node"):
            if not getattr(message, name):
                raise errors.BadRequestError(f"{name}: Required value")
        request = Request(
            user, "create", pods, message.namespace, message.pod, "binding", write_options(message.options)
        )
        binding = Binding(message.node, message.uid, message.resource_version, checked=message.checked)
        return await self.api.bind(request, binding)

    async def bind(self, user: User, message: native.BindRequest) -> bytes:
        """Serve Bind."""
        return native.BindResult(resource_version=str(await self._bind(user, message))).SerializeToString()

    async def bind_object(self, user: User, message: native.BindRequest) -> bytes:
        """Serve a bind in the write stream: the answer is the pod's name and version."""
        revision = await self._bind(user, message)
        return wire.bound(self.api.kind("", "v1", "pods"), message.namespace, message.pod, revision)

    async def bind_many(self, user: User, message: native.BindManyRequest) -> bytes:
        """Serve BindMany: all at once, an outcome each."""

        async def outcome(one: native.BindRequest) -> native.BindResult:
            if self.auditing is not None:
                self.auditing.part("create", one)
            try:
                return native.BindResult(resource_version=str(await self._bind(user, one)))
            except Exception as error:  # noqa: BLE001  (becomes this binding's outcome; the unforeseen is logged)
                return native.BindResult(error=as_status_error(error, "BindMany").to_status())
            finally:
                audit.end()

        if len(message.bindings) > MAX_BINDINGS:
            raise errors.RequestTooLargeError(
                f"bindings: {len(message.bindings)} in one request: must be at most {MAX_BINDINGS}"
            )
        results = await asyncio.gather(*(outcome(one) for one in message.bindings))
        return native.BindManyResult(results=results).SerializeToString()

    async def version(self, user: User, message: native.VersionRequest) -> bytes:
        """Serve Version."""
        self.api.authorizers.admit(Attributes(user, "get", path="/version"))
        return native.VersionInfo(
            major=version.MAJOR,
            minor=version.MINOR,
            git_version=version.GIT_VERSION,
            platform=f"{platform.system().lower()}/{_machine()}",
        ).SerializeToString()

    async def discover(self, user: User, message: native.DiscoverRequest) -> bytes:
        """Serve Discover."""
        self.api.authorizers.admit(Attributes(user, "get", path="/apis"))
        await self.api.look_around()
        resources = [
            native.ResourceInfo(
                group=kind.group,
                version=kind.version,
                resource=kind.resource,
                kind=kind.kind,
                namespaced=kind.namespaced,
                short_names=kind.short_names,
                verbs=kind.verbs,
                categories=kind.categories,
                subresources=[name for name in kind.subresources if name in BUILT],
                custom=_custom(kind) if isinstance(kind, CustomKind) else None,
            )
            for kind in self.api.served()
        ]
        return native.Discovery(resources=resources).SerializeToString()


def _custom(kind: CustomKind) -> native.Custom:
    columns = [
        native.Column(
            name=column.name,
            type=column.type,
            format=column.format,
            description=column.description,
            priority=column.priority,
            json_path=column.path,
        )
        for column in kind.columns
    ]
    return native.Custom(
        singular=kind.singular, list_kind=kind.list_kind, columns=columns, storage_version=kind.storage_version
    )


def _machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
