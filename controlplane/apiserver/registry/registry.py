"""One resource with all its verbs, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controlplane.apiserver.registry.conversion import CONVERSIONS
from controlplane.apiserver.registry.deletion import Deleter
from controlplane.apiserver.registry.reader import Reader
from controlplane.apiserver.registry.resources import StoredResource
from controlplane.apiserver.registry.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controlplane.apiserver.addresses import Addresses
    from controlplane.apiserver.admission import Admission
    from controlplane.apiserver.registry.reader import Page
    from controlplane.apiserver.request import Answer, Request
    from controlplane.apiserver.store import Cache, Store
    from wharfinger.api.kinds import Kind
    from wharfinger.api.types import meta


class Reads(Protocol):
    """Who answers get and list."""

    async def get(self, request: Request, version: str = "") -> Answer:
        """Return one object. Raises NotFoundError."""

    async def list_page(self, request: Request, options: meta.ListOptions) -> Page:
        """Return a page of objects."""


class Readable(Protocol):
    """A served kind, stored or not: what get and list need of it."""

    @property
    def kind(self) -> Kind:
        """The kind."""

    @property
    def resource(self) -> StoredResource:
        """How its objects are shown."""

    @property
    def reader(self) -> Reads:
        """Who reads them."""


class Registry:
    """All that can be done with the stored objects of one served kind."""

    def __init__(
        self,
        kind: Kind,
        store: Store,
        cache: Cache,
        admission: Admission,
        *,
        ttl: int = 0,
        addresses: Addresses | None = None,
        resource: StoredResource | None = None,
    ) -> None:
        self.kind = kind
        self.resource = resource or StoredResource(kind, CONVERSIONS.get((kind.group, kind.version, kind.resource)))
        self.follow_up: Callable[[str, int], Awaitable[None]] | None = None
        """Awaited with the object's name and revision after each write, as part of it; none for nearly all kinds."""
        self.strategy = self.resource.strategy
        self.reader = Reader(self.resource, cache)
        self.writer = Writer(self.resource, store, cache, admission, ttl=ttl, addresses=addresses)
        self.deleter = Deleter(self.resource, self.writer, self.reader, admission)

    def __repr__(self) -> str:
        return f"<Registry {self.kind.group_resource}>"
