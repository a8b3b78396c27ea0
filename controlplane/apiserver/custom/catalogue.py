"""Which custom kinds are served: the definitions in the watch cache, turned into registries.

A definition is served as soon as its names are its own, whoever stored it: the conditions that say so are only its
publication. :meth:`Catalogue.update` compares the cache's definitions with what is installed and is called by whoever
must not miss one: the task that follows the cache, and every request for a resource that is not known
(:meth:`catch_up`, which first waits until the cache is current). So a kind is served by each apiserver from the moment
on at which its definition is stored.

What a definition's status says changes nothing here; only a new spec, new names or its deletion does.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.custom.resource import CustomResource
from controlplane.apiserver.registry.registry import Registry
from controlplane.apiserver.store import Resource
from wharfinger.api import errors, kinds
from wharfinger.api.custom import kind_of, naming
from wharfinger.api.types import apiextensions

if TYPE_CHECKING:
    from controlplane.apiserver.admission import Admission
    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.store import Cache, Entry, Store

log = logging.getLogger(__name__)

DEFINITIONS = kinds.of(apiextensions.CustomResourceDefinition)
PREFIX = DEFINITIONS.etcd_prefix + "/"
Definition = apiextensions.CustomResourceDefinition
Mark = tuple[str, int, bytes, bool]
"""What decides about how a definition is served: uid, generation, accepted names, whether it is being deleted."""


@dataclass(slots=True)
class Installed:
    """A definition as it is served."""

    mark: Mark
    registries: list[Registry]
    """Of the served versions."""
    storage: Registry
    """Of the version in which objects are stored, served or not."""
    resources: list[CustomResource]
    """Of all these registries."""


class _Decoder:
    """Decodes the values of one prefix of the cache, by the definition of the moment."""

    def __init__(self, resource: CustomResource) -> None:
        self.resource = resource

    def __call__(self, value: bytes) -> Any:
        return self.resource.decode(value)


class Catalogue:
    """The custom kinds of one server."""

    def __init__(self, api: Api, store: Store, cache: Cache, admission: Admission) -> None:
        self._api = api
        self._store = store
        self._cache = cache
        self._admission = admission
        self._known: dict[str, int] = {}
        """The revisions of the definitions that were looked at, by name."""
        self._installed: dict[str, Installed] = {}
        self._decoders: dict[str, _Decoder] = {}
        self.changed = asyncio.Event()
        """Set when definitions have changed; for those who tend them."""

    # --- following -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the definitions until the cache is closed."""
        while True:
            try:
                async with await self._cache.watch(PREFIX) as watcher:
                    self.update()
                    async for _ in watcher:
                        self.update()
            except errors.ExpiredError as error:
                log.debug("looking at all definitions again", extra={"error": error.message})
                continue
            return

    async def catch_up(self) -> None:
        """Know every definition that is stored by now. Raises ServiceUnavailableError when etcd cannot be asked."""
        await self._cache.fresh()
        self.update()

    def definition(self, name: str) -> Definition | None:
        """Return a definition as the cache has it. Shared: copy before changing it."""
        entry = self._cache.get(PREFIX + name)
        return _decoded(entry) if entry is not None else None

    def definitions(self, group: str | None = None) -> list[Definition]:
        """Return all definitions (of a group), the oldest first. Shared: copy before changing one."""
        entries = sorted(self._cache.list(PREFIX).entries, key=lambda entry: entry.create_revision)
        found = (_decoded(entry) for entry in entries if group is None or _group(entry.name) == group)
        return [definition for definition in found if definition is not None]

    def installed(self, name: str) -> Installed | None:
        """Return how a definition is served; None when it is not."""
        return self._installed.get(name)

    # --- installing ------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Serve what the cache's definitions ask for."""
        now = {entry.name: entry.mod_revision for entry in self._cache.list(PREFIX).entries}
        if now == self._known:
            return
        groups = {_group(name) for name in {*now, *self._known} if now.get(name) != self._known.get(name)}
        self._known = now
        for group in sorted(groups):
            self._update_group(group)
        self.changed.set()

    def _update_group(self, group: str) -> None:
        definitions = self.definitions(group)
        wanted: dict[str, tuple[Definition, Definition]] = {}
        for definition, settled in zip(definitions, naming.settle_group(definitions), strict=True):
            if naming.is_true(settled, naming.ESTABLISHED):
                wanted[definition.metadata.name] = definition, settled
        for name in [name for name in self._installed if _group(name) == group and name not in wanted]:
            self._remove(name)
        for name, (definition, settled) in wanted.items():
            names = settled.status.acceptedNames
            mark = _mark(definition, names)
            installed = self._installed.get(name)
            if installed is not None and installed.mark == mark:
                for resource in installed.resources:
                    resource.revision = self._known[name]
            else:
                try:
                    self._install(definition, names, mark)
                except (ValueError, errors.StatusError) as error:
                    log.error("a definition cannot be served", extra={"definition": name, "error": str(error)})

    def _install(self, definition: Definition, names: apiextensions.CustomResourceDefinitionNames, mark: Mark) -> None:
        name = definition.metadata.name
        prefix = f"/registry/{definition.spec.group}/{definition.spec.names.plural}/"
        if prefix not in self._decoders and prefix in self._builtin_prefixes():
            raise ValueError(f"{prefix} is where a kind of the server's own lies")
        ending = definition.metadata.HasField("deletionTimestamp")
        registries: list[Registry] = []
        resources: list[CustomResource] = []
        stored: tuple[Registry, CustomResource] | None = None
        for version in definition.spec.versions:
            kind = kind_of(definition, version, names=names, ending=ending)
            resource = CustomResource(kind, PREFIX + name, self._known.get(name, 0))
            registry = Registry(kind, self._store, self._cache, self._admission, resource=resource)
            resources.append(resource)
            if version.storage:
                stored = registry, resource
            # Conversion webhooks are not called: only what needs no conversion can be served then.
            if version.served and (version.storage or definition.spec.conversion.strategy != "Webhook"):
                registries.append(registry)
        if stored is None:
            raise ValueError("no version is the one for storage")
        self._withdraw(name)
        storage, resource = stored
        decoder = self._decoders.get(prefix)
        if decoder is None:
            decoder = self._decoders[prefix] = _Decoder(resource)
            self._cache.register(
                Resource(prefix, storage.kind.group_resource, namespaced=storage.kind.namespaced, decode=decoder)
            )
        decoder.resource = resource
        self._installed[name] = Installed(mark, registries, storage, resources)
        self._api.serve(registries)
        log.info("serving", extra={"definition": name, "versions": ",".join(one.kind.version for one in registries)})

    def _withdraw(self, name: str) -> None:
        installed = self._installed.pop(name, None)
        if installed is not None:
            self._api.withdraw(installed.registries)

    def _remove(self, name: str) -> None:
        prefix = self._installed[name].storage.resource.prefix
        self._withdraw(name)
        del self._decoders[prefix]
        self._cache.unregister(prefix)
        log.info("not serving any more", extra={"definition": name})

    @staticmethod
    def _builtin_prefixes() -> set[str]:
        return {f"{kind.etcd_prefix}/" for kind in kinds.KINDS if kind.stored}


def _mark(definition: Definition, names: apiextensions.CustomResourceDefinitionNames) -> Mark:
    metadata = definition.metadata
    ending = metadata.HasField("deletionTimestamp")
    return metadata.uid, metadata.generation, names.SerializeToString(deterministic=True), ending


def _group(name: str) -> str:
    """Return the group of a definition, which its name tells."""
    return name.partition(".")[2]


def _decoded(entry: Entry) -> Definition | None:
    try:
        found: Definition = entry.decoded
    except errors.StatusError as error:
        log.error("a stored definition cannot be read", extra={"key": entry.key, "error": error.message})
        return None
    return found
