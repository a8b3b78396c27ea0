"""Create, update and patch: prepare, admit, validate, and one compare-and-swap.

The steps and their order are those of Kubernetes' generic store. An update is a function from the stored object to the
new one, applied to what the cache has; when the cache turns out to be behind (the swap fails, or the function refuses),
it is applied again to what is really there. So nobody is told of a conflict or an error that only the cache saw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.registry import companions, names
from controlplane.apiserver.registry.listoptions import parse_version
from controlplane.apiserver.request import Answer
from controlplane.apiserver.store import Compare, CompareFailed, Put, Write
from wharfinger.api import errors, ownership, storage, validation
from wharfinger.api.errors import FieldError
from wharfinger.api.validation import warnings

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.addresses import Addresses
    from controlplane.apiserver.admission import Admission
    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache, Store

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_ATTEMPTS = 20
"""How often an update is tried again when others write the same object all the time."""


class AddressTakenError(errors.ConflictError):
    """Raised when several services were given one address at once, and the others were faster time and again."""


@dataclass(slots=True)
class Base:
    """What an update starts from."""

    value: bytes
    """As stored; empty when there is no object."""
    revision: int
    current: bool
    """Whether it is known to be what the store has, not only what the cache has."""


class Writer:
    """Writes one resource."""

    def __init__(
        self,
        resource: StoredResource,
        store: Store,
        cache: Cache,
        admission: Admission,
        *,
        ttl: int = 0,
        addresses: Addresses | None = None,
    ) -> None:
        self.resource = resource
        self.store = store
        self.cache = cache
        self._ttl = ttl
        """Seconds after which objects vanish by themselves (events); 0: never."""
        self._addresses = addresses
        """Hands out what services need; None for every other kind."""
        self._create_steps = admission.steps("create", resource.kind)
        self._update_steps = admission.steps("update", resource.kind)
        self._create_checks = admission.checks("create", resource.kind)
        self._update_checks = admission.checks("update", resource.kind)

    # --- create ---------------------------------------------------------------------------------------------------

    async def create(self, request: Request, obj: Any) -> Answer:
        """Store a new object.

        Raises InvalidError, AlreadyExistsError, ConflictError (fence) and what admission raises.
        """
        try:
            return await self._create(request, obj)
        except errors.StatusError as error:
            await _undo(request, error)
            raise

    async def _create(self, request: Request, obj: Any) -> Answer:
        kind = self.resource.kind
        metadata = obj.metadata
        if metadata.resourceVersion not in ("", "0"):
            raise errors.StatusError("resourceVersion should not be set on objects to be created")
        names.settle_namespace(metadata, kind, request.namespace)
        names.fill_system_fields(metadata)
        for step in self._create_steps:
            waiting = step.admit(request, obj, None)
            if waiting is not None:
                await waiting
        generate = metadata.generateName if not metadata.name else ""
        for attempt in range(names.ATTEMPTS):
            if generate:
                metadata.name = names.generated(generate)
            draft = obj if self._addresses is None else _copy(obj)
            self.resource.strategy.prepare_for_create(draft, request)
            if not request.applying:
                del draft.metadata.managedFields[:]
                if request.options.field_manager:
                    ownership.created(draft, request.options.field_manager, kind.api_version)
            causes = validation.validate_create(draft)
            if self._addresses is not None and not causes:
                causes = self._addresses.allocate(draft, None)
            if causes:
                raise errors.invalid(kind.kind, kind.group, metadata.name, causes)
            if not attempt:
                for step in self._create_checks:
                    waiting = step.admit(request, draft, None)
                    if waiting is not None:
                        await waiting
                if request.heeds_warnings:
                    request.warnings += warnings.creating(draft)
            try:
                return await self._insert(request, draft)
            except AddressTakenError:
                await self.cache.fresh()
                if attempt == names.ATTEMPTS - 1:
                    raise
            except errors.AlreadyExistsError:
                if not generate or attempt == names.ATTEMPTS - 1:
                    raise
        raise AssertionError  # the loop ends by returning or raising

    async def _insert(self, request: Request, obj: Any) -> Answer:
        kind = self.resource.kind
        metadata = obj.metadata
        key = self.resource.key(metadata.namespace, metadata.name)
        value, raw = self.resource.encode(obj)
        options = request.options
        if options.dry_run:
            await self.cache.fresh()
            if self.cache.get(key) is not None:
                raise errors.already_exists(kind.group_resource, metadata.name)
            return Answer(kind, raw, created=True)
        puts = [Put(key, value, self._ttl), *companions.on_write(kind, obj, None)]
        compares = [Compare(key, 0), *companions.fence_compares(options.fence), *self.resource.compares()]
        if self._addresses is not None:
            taken = self._addresses.changes(obj, None)
            compares += taken.compares
            puts += taken.puts
        try:
            done = await self.store.commit(Write(compares, puts), lazy=options.lazy)
        except CompareFailed as failed:
            companions.check_fence(options.fence, failed)
            self.resource.check(failed)
            if failed.current.get(key) is None:
                raise AddressTakenError("another service was given the same address at the same time") from failed
            raise errors.already_exists(kind.group_resource, metadata.name) from failed
        return Answer(kind, storage.with_resource_version(raw, done.revision), done.revision, created=True)

    # --- update ---------------------------------------------------------------------------------------------------

    async def base(self, namespace: str, name: str, *, current: bool = False) -> Base:
        """Return what the cache has of an object; with `current`, what the store has."""
        key = self.resource.key(namespace, name)
        if current:
            await self.cache.fresh()
        entry = self.cache.get(key)
        if entry is None and not current:
            await self.cache.fresh()
            entry, current = self.cache.get(key), True
        return Base(entry.value, entry.mod_revision, current) if entry is not None else Base(b"", 0, current)

    async def update(
        self,
        request: Request,
        make: Callable[[Any], Any],
        *,
        prepare: Callable[[Any, Any], None] | None = None,
        patching: bool = False,
    ) -> Answer:
        """Replace an object by what `make` makes of it (a fresh message each time).

        `prepare` replaces the strategy's hook, for subresources with rules of their own. With `patching` the object
        may not be created (unless the patch is an apply), and a conflict is no one's fault unless the patch names a
        version.
        Raises NotFoundError, ConflictError, InvalidError and what `make` and admission raise.
        """
        try:
            return await self._update(request, make, prepare, patching=patching)
        except errors.StatusError as error:
            await _undo(request, error)
            raise

    async def _update(
        self,
        request: Request,
        make: Callable[[Any], Any],
        prepare: Callable[[Any, Any], None] | None,
        *,
        patching: bool,
    ) -> Answer:
        base = await self.base(request.namespace, request.name)
        for _ in range(_ATTEMPTS):
            try:
                return await self._attempt(request, make, prepare, base, patching=patching)
            except CompareFailed as failed:
                companions.check_fence(request.options.fence, failed)
                self.resource.check(failed)
                key = self.resource.key(request.namespace, request.name)
                current = failed.current.get(key)
                base = (
                    Base(current.value, current.mod_revision, current=True)
                    if current is not None
                    else Base(b"", 0, current=True)
                )
            except errors.StatusError:
                if base.current:
                    raise
                again = await self.base(request.namespace, request.name, current=True)
                if again.revision == base.revision:
                    raise
                base = again
        raise errors.conflict(self.resource.kind.group_resource, request.name, MODIFIED)

    async def _attempt(
        self,
        request: Request,
        make: Callable[[Any], Any],
        prepare: Callable[[Any, Any], None] | None,
        base: Base,
        *,
        patching: bool,
    ) -> Answer:
        resource, options = self.resource, request.options
        kind, strategy = resource.kind, resource.strategy
        if not base.revision:
            if ((strategy.create_on_update and not patching) or request.applying) and not request.subresource:
                return await self.create(_as_create(request), make(None))
            raise errors.not_found(kind.group_resource, request.name)
        old = resource.message(base.value, base.revision)
        new = make(old)
        metadata = new.metadata
        self._check_version(request, new, old, base, patching=patching)
        names.settle_namespace(metadata, kind, request.namespace)
        if prepare is not None:
            prepare(new, old)
        elif request.subresource == "status":
            strategy.prepare_for_status_update(new, old, request)
        else:
            strategy.prepare_for_update(new, old, request)
            if self._addresses is not None:
                self._addresses.settle(new, old)
        names.keep_system_fields(metadata, old.metadata)
        # A patch that leaves no owners has taken them out on purpose; a replacement just did not repeat them.
        reset = request.verb == "patch" and not metadata.managedFields and not request.subresource
        if not (request.applying or reset) and (metadata.managedFields or ownership.is_tracked(old.metadata)):
            ownership.updated(new, old, options.field_manager, kind.api_version, request.subresource)
        for step in self._update_steps:
            waiting = step.admit(request, new, old)
            if waiting is not None:
                await waiting
        causes = validation.validate_update(new, old, subresource=request.subresource)
        if self._addresses is not None and not causes and not request.subresource:
            causes = self._addresses.allocate(new, old)
        if causes:
            raise errors.invalid(kind.kind, kind.group, request.name, causes)
        for step in self._update_checks:
            waiting = step.admit(request, new, old)
            if waiting is not None:
                await waiting
        if request.heeds_warnings and not request.subresource:
            # Said once, whatever had to be tried again.
            request.warnings += [text for text in warnings.updating(new, old) if text not in request.warnings]
        key = resource.key(request.namespace, request.name)
        ends = (
            metadata.HasField("deletionTimestamp")
            and not metadata.finalizers
            and not old.metadata.deletionGracePeriodSeconds
            and strategy.finished(new)
        )
        value, raw = resource.encode(new)
        answer = Answer(kind, storage.with_resource_version(raw, base.revision), base.revision)
        same = value == base.value and not ends
        if options.dry_run or (same and not await self.store.stale(key, base.revision)):
            if not base.current and (await self.base(request.namespace, request.name, current=True)).revision != (
                base.revision
            ):
                raise CompareFailed(await self._now(key))
            return answer
        compares = [Compare(key, base.revision), *companions.fence_compares(options.fence), *resource.compares()]
        if ends:
            await self.store.commit(Write(compares, deletes=[key, *companions.on_delete(kind, old)]))
            return answer
        puts = [Put(key, value, self._ttl), *companions.on_write(kind, new, old)]
        deletes: list[str] = []
        if self._addresses is not None:
            taken = self._addresses.changes(new, old)
            compares += taken.compares
            puts += taken.puts
            deletes = taken.deletes
        done = await self.store.commit(Write(compares, puts, deletes), lazy=options.lazy)
        return Answer(kind, storage.with_resource_version(raw, done.revision), done.revision)

    async def _now(self, key: str) -> dict[str, Any]:
        return {key: await self.store.get(key)}

    def _check_version(self, request: Request, new: Any, old: Any, base: Base, *, patching: bool) -> None:
        """Compare the version and uid that the writer has seen with what is there.

        A patch that names another uid tries to change it, which validation refuses.
        """
        kind = self.resource.kind
        version = parse_version(new.metadata.resourceVersion)
        if not version:
            if not self.resource.strategy.unconditional_update:
                cause = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise errors.invalid(kind.kind, kind.group, request.name, [cause])
        elif version != base.revision:
            raise errors.conflict(kind.group_resource, request.name, MODIFIED)
        new.metadata.resourceVersion = old.metadata.resourceVersion
        if new.metadata.uid and new.metadata.uid != old.metadata.uid and not patching:
            raise errors.conflict(
                kind.group_resource,
                request.name,
                f"Precondition failed: UID in precondition: {new.metadata.uid}, UID in object meta: {old.metadata.uid}",
            )


def _copy(obj: Any) -> Any:
    made = type(obj)()
    made.CopyFrom(obj)
    return made


async def _undo(request: Request, error: errors.StatusError) -> None:
    """Take back what admission wrote for a write that has failed for certain."""
    if request.undo and not isinstance(error, errors.TimeoutError_ | errors.ServiceUnavailableError):
        await request.undo_all()


def _as_create(request: Request) -> Request:
    return replace(request, verb="create", name="")
