"""Delete: preconditions, grace periods, finalizers, propagation, and whole collections.

Three things can keep an object that was deleted: a grace period (pods: their node ends them and deletes again with a
period of 0), finalizers (whoever put them there takes them off), and, for namespaces, the finalizers of their spec.
Until then it only carries a deletionTimestamp. Propagation is two finalizers that the garbage collector acts on. The
rules and their order follow Kubernetes' generic store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.registry import companions
from controlplane.apiserver.registry.listoptions import parse_version
from controlplane.apiserver.registry.writer import MODIFIED, Base
from controlplane.apiserver.request import Answer
from controlplane.apiserver.store import Compare, CompareFailed, Put, Write
from wharfinger.api import errors, kinds, storage
from wharfinger.api.errors import FieldError
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.admission import Admission
    from controlplane.apiserver.registry.reader import Page, Reader
    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.registry.writer import Writer
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Entry

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = ("Orphan", "Background", "Foreground")
_ATTEMPTS = 20
_AT_ONCE = 100
"""Members of a collection that are deleted side by side, and so share transactions."""
STATUS = kinds.of(meta.Status)
Mark = Callable[[Any], None]


def check_options(options: meta.DeleteOptions) -> None:
    """Check delete options. Raises InvalidError that names the field."""
    causes: list[FieldError] = []
    if options.HasField("orphanDependents") and options.HasField("propagationPolicy"):
        detail = "orphanDependents and propagationPolicy may not be given together"
        causes.append(FieldError.invalid("propagationPolicy", options.propagationPolicy, detail))
    elif options.HasField("propagationPolicy") and options.propagationPolicy not in _POLICIES:
        causes.append(FieldError.not_supported("propagationPolicy", options.propagationPolicy, _POLICIES))
    if any(value != "All" for value in options.dryRun):
        causes.append(FieldError.not_supported("dryRun", list(options.dryRun), ["All"]))
    if causes:
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", causes)


class Deleter:
    """Deletes objects of one resource."""

    def __init__(self, resource: StoredResource, writer: Writer, reader: Reader, admission: Admission) -> None:
        self.resource = resource
        self._writer = writer
        self._reader = reader
        self._steps = admission.steps("delete", resource.kind)

    async def delete(
        self,
        request: Request,
        options: meta.DeleteOptions,
        *,
        extra: Sequence[Put | Compare] = (),
        mark: Mark | None = None,
    ) -> Answer:
        """Delete one object, or begin to.

        `extra` is written and compared in the transaction that marks or removes it. Of graceful kinds, `mark` changes
        what is stored as marked; an object that is being deleted already stays as it is.
        Raises NotFoundError, ConflictError (preconditions, fence), InvalidError (options) and what admission raises.
        """
        check_options(options)
        if options.dryRun:
            request = replace(request, options=replace(request.options, dry_run=True))
        base = await self._writer.base(request.namespace, request.name)
        for _ in range(_ATTEMPTS):
            try:
                return await self._attempt(request, options, base, extra, mark)
            except CompareFailed as failed:
                companions.check_fence(request.options.fence, failed)
                self._check_extra(extra, failed)
                current = failed.current.get(self.resource.key(request.namespace, request.name))
                if current is None and base.revision:
                    known = self.resource.message(base.value, base.revision)
                    if known.metadata.HasField("deletionTimestamp"):  # another one finished what was under way
                        return self._answer(known, base.revision, removed=True)
                base = Base(current.value, current.mod_revision, True) if current else Base(b"", 0, True)
            except errors.StatusError:
                if base.current:
                    raise
                again = await self._writer.base(request.namespace, request.name, current=True)
                if again.revision == base.revision:
                    raise
                base = again
        raise errors.conflict(self.resource.kind.group_resource, request.name, MODIFIED)

    async def admit(self, request: Request, old: Any) -> None:
        """Ask admission whether `old` may be deleted; raises what it raises."""
        for step in self._steps:
            waiting = step.admit(request, None, old)
            if waiting is not None:
                await waiting

    def _check_extra(self, extra: Sequence[Put | Compare], failed: CompareFailed) -> None:
        for item in extra:
            if isinstance(item, Compare):
                current = failed.current.get(item.key)
                if (current.mod_revision if current else 0) != item.mod_revision:
                    raise failed

    async def _attempt(
        self,
        request: Request,
        options: meta.DeleteOptions,
        base: Base,
        extra: Sequence[Put | Compare],
        mark: Mark | None,
    ) -> Answer:
        if not base.revision:
            raise errors.not_found(self.resource.kind.group_resource, request.name)
        old = self.resource.message(base.value, base.revision)
        await self.admit(request, old)
        self._check_preconditions(options, old)
        if self.resource.kind.group_resource == "namespaces":
            return await self._delete_namespace(request, options, base, old)
        if not old.metadata.HasField("deletionTimestamp"):
            obj = type(old)()
            obj.CopyFrom(old)
            if self.resource.strategy.begin_delete(obj):
                base, raw = await self._write(request, base, obj, extra)
                return self._answer(obj, base.revision, raw=raw)
        return await self._delete(request, options, base, old, extra=extra, mark=mark)

    async def _delete(
        self,
        request: Request,
        options: meta.DeleteOptions,
        base: Base,
        old: Any,
        *,
        extra: Sequence[Put | Compare],
        mark: Mark | None,
    ) -> Answer:
        obj = type(old)()
        obj.CopyFrom(old)
        mine = meta.DeleteOptions()
        mine.CopyFrom(options)
        marked = self._begin_grace(obj, mine)
        if marked is None:  # already on its way, and nothing shortens it
            if not base.current:
                again = await self._writer.base(request.namespace, request.name, current=True)
                if again.revision != base.revision:
                    return await self._attempt(request, options, again, extra, mark)
            return self._answer(old, base.revision)
        if marked and mark is not None and not old.metadata.HasField("deletionTimestamp"):
            mark(obj)
        if set_propagation(obj, mine, self.resource.strategy.garbage_policy):
            marked = True
        held = bool(obj.metadata.finalizers)
        if held and not obj.metadata.HasField("deletionTimestamp"):
            _mark(obj)
            marked = True
        elif held and not self.resource.strategy.graceful:
            obj.metadata.deletionGracePeriodSeconds = 0
        grace = obj.metadata.deletionGracePeriodSeconds
        if marked or held:
            base, raw = await self._write(request, base, obj, extra)
            extra = ()
            if held or grace:
                return self._answer(obj, base.revision, raw=raw)
            try:
                return await self._remove(request, base, obj, extra, raw=raw)
            except CompareFailed as failed:
                if failed.current.get(self.resource.key(request.namespace, request.name)) is not None:
                    raise
                return self._answer(obj, base.revision, removed=True, raw=raw)  # a node's agent was faster: it is gone
        return await self._remove(request, base, obj, extra)

    def _begin_grace(self, obj: Any, options: meta.DeleteOptions) -> bool | None:
        """Mark a graceful kind's object as deleted.

        Returns whether it was changed; None when it is being deleted already and stays as it is.
        """
        if options.HasField("gracePeriodSeconds") and options.gracePeriodSeconds < 0:
            options.gracePeriodSeconds = 1
        strategy, metadata = self.resource.strategy, obj.metadata
        if not strategy.graceful:
            return False
        if metadata.HasField("deletionTimestamp"):
            left = metadata.deletionGracePeriodSeconds
            if not left:
                return False
            if not options.HasField("gracePeriodSeconds") or options.gracePeriodSeconds >= left:
                return None
            metadata.deletionTimestamp.seconds += options.gracePeriodSeconds - left
            metadata.deletionGracePeriodSeconds = options.gracePeriodSeconds
            return True
        if not strategy.check_graceful_delete(obj, options):
            return False
        metadata.deletionTimestamp.seconds = int(time.time()) + options.gracePeriodSeconds
        metadata.deletionTimestamp.nanos = 0
        metadata.deletionGracePeriodSeconds = options.gracePeriodSeconds
        if metadata.generation:
            metadata.generation += 1
        return True

    async def _write(
        self, request: Request, base: Base, obj: Any, extra: Sequence[Put | Compare]
    ) -> tuple[Base, bytes]:
        """Store the marked object; returns what is there now, and its served bytes without a resourceVersion."""
        value, raw = self.resource.encode(obj)
        if value == base.value:
            return base, raw
        if request.options.dry_run:
            return Base(value, base.revision, base.current), raw
        key = self.resource.key(request.namespace, request.name)
        compares = [Compare(key, base.revision), *companions.fence_compares(request.options.fence)]
        compares += [item for item in extra if isinstance(item, Compare)]
        puts = [Put(key, value), *(item for item in extra if isinstance(item, Put))]
        done = await self._writer.store.commit(Write(compares, puts))
        return Base(value, done.revision, current=True), raw

    async def _remove(
        self, request: Request, base: Base, obj: Any, extra: Sequence[Put | Compare], *, raw: bytes | None = None
    ) -> Answer:
        if request.options.dry_run:
            return self._answer(obj, base.revision, removed=True, raw=raw)
        key = self.resource.key(request.namespace, request.name)
        compares = [Compare(key, base.revision), *companions.fence_compares(request.options.fence)]
        compares += [item for item in extra if isinstance(item, Compare)]
        done = await self._writer.store.commit(
            Write(
                compares,
                puts=[item for item in extra if isinstance(item, Put)],
                deletes=[key, *companions.on_delete(self.resource.kind, obj)],
            )
        )
        return self._answer(obj, done.revision, removed=True, raw=raw)

    async def _delete_namespace(self, request: Request, options: meta.DeleteOptions, base: Base, old: Any) -> Answer:
        """Mark a namespace as ending; remove it only when nothing holds it any more."""
        if not old.metadata.HasField("deletionTimestamp"):
            obj = type(old)()
            obj.CopyFrom(old)
            obj.metadata.deletionTimestamp.seconds = int(time.time())
            obj.status.phase = "Terminating"
            set_propagation(obj, options, "Background")
            base, raw = await self._write(request, base, obj, ())
            if obj.spec.finalizers or obj.metadata.finalizers:
                return self._answer(obj, base.revision, raw=raw)
            return await self._remove(request, base, obj, ())
        if old.spec.finalizers or old.metadata.finalizers:
            return self._answer(old, base.revision)
        return await self._remove(request, base, old, ())

    def _check_preconditions(self, options: meta.DeleteOptions, old: Any) -> None:
        if not options.HasField("preconditions"):
            return
        wanted, metadata, kind = options.preconditions, old.metadata, self.resource.kind
        why = ""
        if wanted.HasField("uid") and wanted.uid != metadata.uid:
            why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {metadata.uid}"
        elif wanted.HasField("resourceVersion") and wanted.resourceVersion != metadata.resourceVersion:
            parse_version(wanted.resourceVersion)
            why = (
                f"Precondition failed: ResourceVersion in precondition: {wanted.resourceVersion}, "
                f"ResourceVersion in object meta: {metadata.resourceVersion}"
            )
        if why:
            subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
            raise errors.conflict(subject, metadata.name, why)

    def _answer(self, obj: Any, revision: int, *, removed: bool = False, raw: bytes | None = None) -> Answer:
        """Return what the client gets: the object (`raw`, if it was encoded already), or for most that it is gone."""
        kind = self.resource.kind
        if removed and not self.resource.strategy.returns_deleted:
            status = meta.Status(status="Success")
            status.metadata.SetInParent()
            status.details.name, status.details.kind = obj.metadata.name, kind.resource
            status.details.group, status.details.uid = kind.group, obj.metadata.uid
            return Answer(STATUS, status.SerializeToString())
        if raw is None:
            _, raw = self.resource.encode(obj)
        return Answer(kind, storage.with_resource_version(raw, revision), revision)

    # --- collections ----------------------------------------------------------------------------------------------

    async def delete_collection(
        self, request: Request, options: meta.DeleteOptions, list_options: meta.ListOptions
    ) -> Page:
        """Delete what a list would show, and return that list as it was before."""
        check_options(options)
        page = await self._reader.list_page(request, list_options)

        async def delete(entry: Entry) -> None:
            try:
                await self.delete(replace(request, namespace=entry.namespace, name=entry.name), options)
            except errors.NotFoundError:
                return  # gone meanwhile: what was wanted

        for start in range(0, len(page.entries), _AT_ONCE):
            await asyncio.gather(*(delete(entry) for entry in page.entries[start : start + _AT_ONCE]))
        return page


def _mark(obj: Any) -> None:
    """Mark an object that only finalizers hold."""
    metadata = obj.metadata
    metadata.deletionTimestamp.seconds = int(time.time())
    metadata.deletionTimestamp.nanos = 0
    metadata.deletionGracePeriodSeconds = 0
    if metadata.generation:
        metadata.generation += 1


def set_propagation(obj: Any, options: meta.DeleteOptions, default: str) -> bool:
    """Put the finalizer that the options ask for onto an object, and take the other off.

    Returns whether the finalizers changed.
    """
    if default == "Unsupported":
        return False
    before = list(obj.metadata.finalizers)
    policy = ""
    if options.HasField("orphanDependents"):
        policy = "Orphan" if options.orphanDependents else "Background"
    elif options.HasField("propagationPolicy"):
        policy = options.propagationPolicy
    elif ORPHAN in before:
        policy = "Orphan"
    elif FOREGROUND in before:
        policy = "Foreground"
    else:
        policy = default
    after = [item for item in before if item not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        after.append(ORPHAN)
    elif policy == "Foreground":
        after.append(FOREGROUND)
    if sorted(after) == sorted(before):
        return False
    del obj.metadata.finalizers[:]
    obj.metadata.finalizers.extend(after)
    return True
