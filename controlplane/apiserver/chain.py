"""The one way of every request, whatever front it came through.

authenticate (the front hands over the user) → authorise → decode → default → admit → validate → store

:class:`Api` has a method a verb. A front resolves the resource, builds a :class:`~.request.Request`, calls the method
and encodes the answer; it decides nothing itself.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from controlplane.apiserver import audit, bodies, eviction, patching, scaling, tokenrequests
from controlplane.apiserver.binding import Binder, Binding, read_binding
from controlplane.apiserver.custom.catalogue import DEFINITIONS, Catalogue
from controlplane.apiserver.custom.resource import DefinitionChangedError
from controlplane.apiserver.custom.tending import Tender
from controlplane.apiserver.registry.deletion import STATUS
from controlplane.apiserver.registry.registry import Readable, Registry
from controlplane.apiserver.request import Answer
from controlplane.apiserver.reviews import KINDS as REVIEWS
from controlplane.apiserver.reviews import Reviews
from wharfinger.api import defaults, errors, kinds
from wharfinger.api.types import core, meta, policy
from wharfinger.api.validation import warnings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from controlplane.apiserver.addresses import Addresses
    from controlplane.apiserver.admission import Admission
    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.auth.bearer import Bearer
    from controlplane.apiserver.auth.serviceaccounts import ServiceAccountTokens
    from controlplane.apiserver.registry.reader import Page, Watching
    from controlplane.apiserver.request import Body, Request
    from controlplane.apiserver.store import Cache, Store
    from wharfinger.api.kinds import Kind

_LOOKS = 5
"""How often a request is made again because definitions change all the time."""
log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_BINDING = kinds.of(core.Binding)
_EVICTION = kinds.of(policy.Eviction)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server accepts and keeps."""

    request_bytes: int = 3 << 19
    """As many as etcd takes in one request by default: 1.5 MiB."""
    event_ttl: int = 3600
    """Seconds."""


def _recorded(
    call: Callable[Concatenate[Api, Request, P], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Api, Request, P], Coroutine[Any, Any, Answer]]:
    """Let the audit log know the answer of a verb, if the request is recorded."""

    @functools.wraps(call)
    async def recorded(self: Api, request: Request, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        answer = await call(self, request, *args, **kwargs)
        record = audit.current()
        if record is not None:
            record.answered(answer)
        return answer

    return recorded


class UnknownResourceError(errors.NotFoundError):
    """Raised when nothing is served at an address: no kind of the schema, and no custom kind so far."""


class Api:
    """All resources with all verbs."""

    def __init__(
        self,
        *,
        store: Store,
        cache: Cache,
        authorizers: Authorizers,
        admission: Admission,
        limits: Limits,
        addresses: Addresses,
        tokens: Bearer,
        accounts: ServiceAccountTokens | None = None,
        max_token_seconds: int = 0,
        disabled: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.cache = cache
        self.store = store
        self.limits = limits
        self.authorizers = authorizers
        self._reviews = Reviews(authorizers, tokens)
        self._token_requests = tokenrequests.TokenRequests(cache, admission, accounts, max_seconds=max_token_seconds)
        self._registries: dict[tuple[str, str, str], Readable] = {}
        for kind in kinds.KINDS:
            if kind.stored and kind.resource and (kind.group, kind.version) not in disabled:
                ttl = limits.event_ttl if kind.resource == "events" else 0  # of both groups
                own = addresses if kind.group_resource == "services" else None
                registry = Registry(kind, store, cache, admission, ttl=ttl, addresses=own)
                self._registries[kind.group, kind.version, kind.resource] = registry
        self.changes = 0
        """Counts changes of what is served."""
        self.custom = Catalogue(self, store, cache, admission)
        definitions = self.registry(DEFINITIONS)
        self.tender = Tender(self.custom, definitions, cache)
        definitions.follow_up = self.tender.follow_up
        pods = self.registry(kinds.of(core.Pod))
        self._pods = pods
        self._binder = Binder(pods, store, cache)
        self._evictor = eviction.Evictor(pods, self.registry(kinds.of(policy.PodDisruptionBudget)), cache)

    # --- addresses ------------------------------------------------------------------------------------------------

    def kind(self, group: str, version: str, resource: str) -> Kind:
        """Find the kind behind an address. Raises NotFoundError."""
        registry = self._registries.get((group, version, resource))
        if registry is not None:
            return registry.kind
        if (group, version, resource) == ("", "v1", "bindings"):
            return _BINDING
        if (group, version, resource) in REVIEWS:
            return REVIEWS[group, version, resource]
        where = f"{group}/{version}" if group else version
        raise UnknownResourceError(
            f'the server could not find the requested resource: "{resource}" in {where}', details={}
        )

    def serve(self, registries: Iterable[Readable]) -> None:
        """Serve further kinds; they take the places of those at the same addresses, but never of the schema's own."""
        for registry in registries:
            place = (registry.kind.group, registry.kind.version, registry.kind.resource)
            if place not in self._registries or not self._registries[place].kind.described:
                self._registries[place] = registry
        self.changes += 1

    def withdraw(self, registries: Iterable[Readable]) -> None:
        """Serve kinds no longer."""
        for registry in registries:
            place = (registry.kind.group, registry.kind.version, registry.kind.resource)
            if self._registries.get(place) is registry:
                del self._registries[place]
        self.changes += 1

    async def look_around(self) -> None:
        """Know all definitions that are stored by now, or while etcd is away those that are known; for discovery."""
        try:
            await self.custom.catch_up()
        except (errors.ServiceUnavailableError, errors.TimeoutError_) as error:
            log.debug("discovery from what is known", extra={"error": error.message})

    async def retried(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something; when it misses a resource, know all definitions that are stored by now and call it again.

        So a custom kind is served by every server as soon as its definition is stored, and in its newest state.
        """
        for _ in range(_LOOKS):
            before = self.changes
            try:
                return await call(*args, **kwargs)
            except UnknownResourceError:
                await self.custom.catch_up()
                if self.changes == before:
                    raise
            except DefinitionChangedError:
                await self.custom.catch_up()
        return await call(*args, **kwargs)

    def served(self) -> list[Kind]:
        """Return every kind that can be addressed; of two versions the one that is stored comes first."""
        registries = sorted(self._registries.values(), key=lambda registry: registry.resource.conversion is not None)
        return [*(registry.kind for registry in registries), _BINDING, *REVIEWS.values()]

    def readable(self, kind: Kind) -> Readable:
        """Return what reads a served kind. Raises MethodNotAllowedError for one that only travels."""
        found = self._registries.get((kind.group, kind.version, kind.resource))
        if found is None:
            raise errors.MethodNotAllowedError(f"{kind.group_resource} are not stored: they can only be created")
        return found

    def registry(self, kind: Kind) -> Registry:
        """Return the registry of a stored kind. Raises MethodNotAllowedError for any other."""
        found = self.readable(kind)
        if not isinstance(found, Registry):
            raise errors.MethodNotAllowedError(f"{kind.group_resource} are not stored: they can only be read")
        return found

    def authorize(self, request: Request) -> None:
        """Raise ForbiddenError unless the user may do this."""
        self.authorizers.check(request)
        self._warn(request)

    def _warn(self, request: Request) -> None:
        text = request.kind.deprecation or _DEPRECATED.get(request.kind.message)
        if text:
            request.warnings.append(text)

    def _check(self, request: Request, subresources: frozenset[str]) -> None:
        """Raise ForbiddenError unless the user may do this, and then what :meth:`_check_verb` raises.

        In this order, as in Kubernetes: who may not do a thing does not learn whether there is such a thing.
        """
        self.authorizers.check(request)
        self._check_verb(request, subresources)
        self._warn(request)

    def _check_verb(self, request: Request, subresources: frozenset[str]) -> None:
        kind, subresource = request.kind, request.subresource
        if not subresource:
            if request.verb not in kind.verbs:
                raise errors.MethodNotAllowedError(
                    f"the server does not allow this method on the requested resource: {request.verb} {kind.resource}",
                    details={},
                )
            return
        if subresource not in kind.subresources:
            raise errors.NotFoundError(
                f"the server could not find the requested resource: {request.describe()}", details={}
            )
        if subresource not in subresources:
            why = "" if subresource in BUILT | _CREATE | _UPDATE else f": {subresource} is not built yet"
            raise errors.MethodNotAllowedError(
                "the server does not allow this method on the requested resource: "
                f"{request.verb} {request.describe()}{why}",
                details={},
            )

    # --- reads ----------------------------------------------------------------------------------------------------

    @_recorded
    async def get(self, request: Request, version: str = "") -> Answer:
        """Return one object, or its scale."""
        self._check(request, _READ)
        if request.subresource == "scale":
            return await scaling.get(self.registry(request.kind), request, version)
        return await self.readable(request.kind).reader.get(request, version)

    async def list(self, request: Request, options: meta.ListOptions) -> Page:
        """Return a page of objects."""
        request.field_selector = options.fieldSelector
        self._check(request, _NONE)
        found = self.readable(request.kind)
        return self._listed(found, await found.reader.list_page(request, options))

    @staticmethod
    def _listed(registry: Readable, page: Page) -> Page:
        record = audit.current()
        if record is not None:
            record.listed(registry.resource, page)
        return page

    async def watch(self, request: Request, options: meta.ListOptions) -> Watching:
        """Open a watch."""
        request.field_selector = options.fieldSelector
        self._check(request, _NONE)
        return await self.registry(request.kind).reader.watch(request, options)

    # --- writes ---------------------------------------------------------------------------------------------------

    @_recorded
    async def create(self, request: Request, body: Body) -> Answer:
        """Store a new object, or do what creating a subresource means (binding, eviction)."""
        self._check(request, _CREATE)
        if request.kind in _REVIEWS:
            return self._reviews.answer(request, bodies.read(body, request.kind, request))
        bodies.check_size(len(body.data), self.limits.request_bytes)
        if request.subresource or request.kind is _BINDING:
            return await self._create_subresource(request, body)
        registry = self.registry(request.kind)
        obj = bodies.read(body, registry.kind, request)
        if request.name and obj.metadata.name != request.name:
            raise errors.BadRequestError(
                f"the name of the object ({obj.metadata.name}) does not match the name in the address ({request.name})"
            )
        return await self._followed(registry, request, registry.writer.create(request, obj))

    async def _followed(self, registry: Registry, request: Request, writing: Awaitable[Answer]) -> Answer:
        """Finish a write, with what belongs to it for the few kinds where something does."""
        answer = await writing
        if registry.follow_up is not None and not request.options.dry_run:
            name = request.name or answer.message().metadata.name  # type: ignore[attr-defined]
            await registry.follow_up(name, answer.resource_version)
        return answer

    async def _create_subresource(self, request: Request, body: Body) -> Answer:
        if request.kind is _BINDING or request.subresource == "binding":
            legacy = request.kind is _BINDING
            message = bodies.read(body, _BINDING, request)
            name = (message.metadata.name or request.name) if legacy else request.name
            if not name:
                raise errors.BadRequestError("metadata.name: the pod's name is required")
            request.name, request.kind = name, self._pods.kind
            await self._binder.bind(request, read_binding(message, name, preserves_uid=not legacy))
            return _success(201)
        if request.subresource == "token":
            return await self._token_requests.create(request, bodies.read(body, tokenrequests.KIND, request))
        message = bodies.read(body, _EVICTION, request)
        if message.metadata.name and message.metadata.name != request.name:
            raise errors.BadRequestError(
                f"name in URL does not match name in Eviction object: {request.name} is not {message.metadata.name}"
            )
        options = meta.DeleteOptions()
        options.CopyFrom(message.deleteOptions)
        await self._evictor.evict(request, options)
        return _success(201)

    async def bind(self, request: Request, binding: Binding) -> int:
        """Bind the pod that the request names; return its resourceVersion."""
        request.verb, request.subresource = "create", "binding"
        self.authorize(request)
        record = audit.current()
        if record is not None:
            record.requested(_binding_message(request, binding))
            record.code(201)
        return await self._binder.bind(request, binding)

    @_recorded
    async def update(self, request: Request, body: Body) -> Answer:
        """Replace an object, or the part of it that a subresource is."""
        self._check(request, _UPDATE)
        bodies.check_size(len(body.data), self.limits.request_bytes)
        registry = self.registry(request.kind)
        if request.subresource == "scale":
            scale = bodies.read(body, scaling.SCALE, request)
            return await scaling.update(registry, request, lambda _: scale, patching=False)
        obj = bodies.read(body, registry.kind, request)
        name = obj.metadata.name
        if name != request.name:
            raise errors.BadRequestError(
                f"the name of the object ({name}) does not match the name on the URL ({request.name})"
                if name
                else "metadata.name: Required value: an update must name its object"
            )

        def make(old: Any) -> Any:
            if old is None:  # this update is a create, which must be allowed, too
                self.authorize(replace(request, verb="create"))
            fresh = type(obj)()
            fresh.CopyFrom(obj)
            return fresh

        writing = registry.writer.update(request, make, prepare=self._prepare(registry, request))
        return await self._followed(registry, request, writing)

    @_recorded
    async def patch(self, request: Request, patch_type: str, patch: bytes) -> Answer:
        """Change an object, or the part of it that a subresource is, by a patch."""
        self._check(request, _UPDATE)
        bodies.check_size(len(patch), self.limits.request_bytes)
        record = audit.current()
        if record is not None:
            record.patched(patch)
        registry = self.registry(request.kind)
        if request.subresource == "scale" and patch_type == patching.APPLY_PATCH:
            return await scaling.apply(registry, request, patch)
        if request.subresource == "scale":
            apply = patching.compile_patch(patch_type, patch, request)
            return await scaling.update(registry, request, apply, patching=True)
        if patch_type == patching.APPLY_PATCH:
            apply = patching.compile_apply(patch, request)
        else:
            apply = patching.compile_patch(patch_type, patch, request)

        def make(old: Any) -> Any:
            if old is None:  # an apply that creates
                self.authorize(replace(request, verb="create"))
            new = apply(old)
            if new.metadata.name != request.name:
                raise errors.BadRequestError(
                    f"the name of the object ({new.metadata.name}) does not match the name on the URL ({request.name})"
                )
            defaults.apply(new)
            return new

        prepare = self._prepare(registry, request)
        return await self._followed(
            registry, request, registry.writer.update(request, make, prepare=prepare, patching=True)
        )

    def _prepare(self, registry: Registry, request: Request) -> Callable[[Any, Any], None] | None:
        """Return the rules of subresources that are neither the object nor its status."""
        if request.subresource in ("", "status"):
            return None
        hook = getattr(registry.strategy, f"prepare_for_{request.subresource}", None)
        if hook is None:
            raise errors.MethodNotAllowedError(f"{request.describe()} is not built yet")
        return lambda new, old: hook(new, old)

    @_recorded
    async def delete(
        self, request: Request, options: meta.DeleteOptions, *, mark: Callable[[Any], None] | None = None
    ) -> Answer:
        """Delete an object, or begin to; `mark` changes what is stored of one with a grace period."""
        self._check(request, _NONE)
        _record_options(options)
        request.warnings += warnings.deleting(request.kind.message, options)
        registry = self.registry(request.kind)
        return await self._followed(registry, request, registry.deleter.delete(request, options, mark=mark))

    async def delete_collection(
        self, request: Request, options: meta.DeleteOptions, list_options: meta.ListOptions
    ) -> Page:
        """Delete what a list would show."""
        request.field_selector = list_options.fieldSelector
        self._check(request, _NONE)
        _record_options(options)
        registry = self.registry(request.kind)
        return self._listed(registry, await registry.deleter.delete_collection(request, options, list_options))


def _binding_message(request: Request, binding: Binding) -> core.Binding:
    """Return a bind of the native API as the object that Kubernetes' is."""
    message = core.Binding()
    message.metadata.namespace, message.metadata.name = request.namespace, request.name
    if binding.uid:
        message.metadata.uid = binding.uid
    message.target.kind, message.target.name = "Node", binding.node
    return message


def _record_options(options: meta.DeleteOptions) -> None:
    record = audit.current()
    if record is not None and options.ByteSize():
        record.requested(options)


_REVIEWS = frozenset(REVIEWS.values())
_DEPRECATED = {kind.message: text for kind in kinds.KINDS if (text := warnings.deprecation(kind.message))}
_NONE: frozenset[str] = frozenset()
_READ = frozenset({"status", "scale", "approval", "ephemeralcontainers", "resize"})
_CREATE = frozenset({"binding", "eviction", "token"})
STREAMS = frozenset({"log", "exec", "attach", "portforward"})
"""Subresources of pods that the fronts serve by streams of their own."""
BUILT = frozenset({"status", "scale", "finalize", "ephemeralcontainers", "resize", "binding", "eviction"}) | STREAMS
"""Subresources that do something here; the others of Kubernetes are known and refused."""
_UPDATE = frozenset({"status", "scale", "finalize", "approval", "ephemeralcontainers", "resize"})


def _success(code: int) -> Answer:
    status = meta.Status(status="Success", code=code)
    status.metadata.SetInParent()
    return Answer(STATUS, status.SerializeToString(), created=code == 201)
