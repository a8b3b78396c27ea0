"""What definitions need done: their conditions published, their objects removed when they are deleted.

Every server does both for every definition. All writes are compared with what is there and come to the same result,
so that it does not matter who is first, and nothing is left undone when a server dies.

The server that stores a definition publishes its conditions before it answers: :meth:`Tender.follow_up` is part of the
write. The rest is done by a task that wakes when definitions change.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.custom.catalogue import DEFINITIONS, Definition
from controlplane.apiserver.request import Request, User, WriteOptions
from wharfinger.api import errors
from wharfinger.api.custom import naming
from wharfinger.api.types import meta
from wharfinger.daemon import spawn

if TYPE_CHECKING:
    from controlplane.apiserver.custom.catalogue import Catalogue
    from controlplane.apiserver.registry.registry import Registry
    from controlplane.apiserver.store import Cache, Entry

log = logging.getLogger(__name__)

_SERVER = User("system:apiserver", ("system:masters",))
_AT_ONCE = 100
"""Objects of a definition that are deleted side by side, and so share transactions."""
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 0.1
"""The server that stored a definition publishes its conditions by itself; the others only do it if it has not."""
_LOOK_SECONDS = (0.2, 5.0)
"""How often to look whether objects with finalizers are gone: at first, and at most."""


class Tender:
    """Tends the definitions; see the module."""

    def __init__(self, catalogue: Catalogue, definitions: Registry, cache: Cache) -> None:
        self._catalogue = catalogue
        self._definitions = definitions
        self._cache = cache
        self._cleaning: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Tend for ever."""
        try:
            while True:
                await self._catalogue.changed.wait()
                await asyncio.sleep(_PATIENCE_SECONDS)
                self._catalogue.changed.clear()
                await self._look()
        finally:
            for task in self._cleaning.values():
                task.cancel()

    async def _look(self) -> None:
        """Find what is to be done."""
        for definition in self._catalogue.definitions():
            name = definition.metadata.name
            if _is_ending(definition) and name not in self._cleaning:
                self._cleaning[name] = spawn(self._clean(name), name=f"cleanup of {name}")
        for name in self._unsettled():
            try:
                await self._publish(name)
            except errors.StatusError as error:
                log.warning("a definition's status is late", extra={"definition": name, "error": error.message})
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._catalogue.changed.set)

    def _unsettled(self) -> list[str]:
        groups: dict[str, list[Definition]] = {}
        for definition in self._catalogue.definitions():
            groups.setdefault(definition.spec.group, []).append(definition)
        return [
            definition.metadata.name
            for group in groups.values()
            for definition, settled in zip(group, naming.settle_group(group), strict=True)
            if settled.status != definition.status
        ]

    async def follow_up(self, name: str, revision: int) -> None:
        """Serve and publish what a write of a definition has changed; part of that write."""
        try:
            if revision:
                await self._cache.wait_for(revision)
            self._catalogue.update()
            await self._publish(name)
        except errors.StatusError as error:
            # The definition is stored; what is missing is done by the task as soon as it can be.
            log.warning("a definition's status is late", extra={"definition": name, "error": error.message})
            self._catalogue.changed.set()

    # --- conditions ------------------------------------------------------------------------------------------------

    async def _publish(self, name: str) -> None:
        """Write a definition's conditions and accepted names, if they are not what they should be."""
        definition = self._catalogue.definition(name)
        if definition is None or self._settled(definition).status == definition.status:
            return

        def make(old: Definition) -> Definition:
            new = Definition()
            new.CopyFrom(old)
            new.status.CopyFrom(self._settled(old).status)
            return new

        request = Request(
            _SERVER, "update", DEFINITIONS, name=name, subresource="status",
            options=WriteOptions(field_manager="kube-apiserver"),
        )  # fmt: skip
        try:
            answer = await self._definitions.writer.update(request, make)
        except errors.NotFoundError:
            return
        await self._cache.wait_for(answer.resource_version)
        self._catalogue.update()

    def _settled(self, definition: Definition) -> Definition:
        """Return the status that a definition should have beside the others of its group, in a small copy."""
        name = definition.metadata.name
        group = self._catalogue.definitions(definition.spec.group)
        whole = [definition if other.metadata.name == name else other for other in group]
        if not any(other is definition for other in whole):
            whole.append(definition)
        return next(copy for copy in naming.settle_group(whole) if copy.metadata.name == name)

    # --- cleaning up -----------------------------------------------------------------------------------------------

    async def _clean(self, name: str) -> None:
        try:
            await self._remove_objects(name)
            await self._let_go(name)
        except errors.StatusError as error:
            log.warning("a definition cannot be removed yet", extra={"definition": name, "error": error.message})
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._catalogue.changed.set)
        finally:
            del self._cleaning[name]

    async def _remove_objects(self, name: str) -> None:
        """Delete all objects of a definition, and wait until none is left: finalizers may hold some."""
        pause, longest = _LOOK_SECONDS
        looked = False
        while True:
            await self._catalogue.catch_up()
            installed = self._catalogue.installed(name)
            definition = self._catalogue.definition(name)
            if installed is None or definition is None or not _is_ending(definition):
                return
            registry = installed.storage
            entries = self._cache.list(registry.resource.prefix).entries
            if not entries:
                return
            if looked:  # some are held
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
            looked = True
            for start in range(0, len(entries), _AT_ONCE):
                await asyncio.gather(*(_delete(registry, entry) for entry in entries[start : start + _AT_ONCE]))
            await self._cache.fresh()  # in which another server may have ended the definition: look at all of it anew

    async def _let_go(self, name: str) -> None:
        """Take the finalizer off, which ends the definition."""
        ending = self._catalogue.definition(name)
        if ending is None:
            return
        uid = ending.metadata.uid

        def make(old: Definition) -> Definition:
            new = Definition()
            new.CopyFrom(old)
            if old.metadata.uid == uid and naming.FINALIZER in old.metadata.finalizers:
                new.metadata.finalizers.remove(naming.FINALIZER)
            return new

        request = Request(_SERVER, "update", DEFINITIONS, name=name)
        try:
            await self._definitions.writer.update(request, make)
        except errors.NotFoundError:
            return
        log.info("a definition and its objects are gone", extra={"definition": name})


async def _delete(registry: Registry, entry: Entry) -> None:
    request = Request(_SERVER, "delete", registry.kind, entry.namespace, entry.name)
    try:
        await registry.deleter.delete(request, meta.DeleteOptions())
    except errors.NotFoundError:
        return  # gone meanwhile: what was wanted


def _is_ending(definition: Any) -> bool:
    metadata = definition.metadata
    return metadata.HasField("deletionTimestamp") and naming.FINALIZER in metadata.finalizers
