"""Which kinds the server serves right now: those of the schema, and custom ones that come and go.

Definitions of custom resources are followed by an informer; when one changes, discovery is asked again. So the garbage
collector and the namespace controller know a new kind a moment after its definition is stored.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from wharfinger.api import errors, kinds
from wharfinger.api.types import apiextensions
from wharfinger.client.discovered import custom_kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controlplane.controllers.context import Context
    from wharfinger.api.kinds import Kind

log = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.05
"""Definitions often come in crowds: one look for all of them."""
_RETRY_SECONDS = 1.0


class ServedKinds:
    """See the module. Make it before the informers are started."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._definitions = context.informers.of(apiextensions.CustomResourceDefinition)
        self._changed = asyncio.Event()
        self.kinds: list[Kind] = []
        """Every version of every resource, the preferred version first."""
        self._by_kind: dict[tuple[str, str], Kind] = {}

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """Find a kind as an owner reference names it."""
        return kinds.by_kind(api_version, kind) or self._by_kind.get((api_version, kind))

    async def load(self) -> list[Kind]:
        """Ask what is served, and return it."""
        infos = await self._context.client.discover()
        known = [kinds.by_resource(info.group, info.version, info.resource) for info in infos]
        custom = custom_kinds(infos)
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in custom}
        self.kinds = [*(kind for kind in known if kind is not None), *custom]
        return self.kinds

    async def follow(self, tell: Callable[[list[Kind]], Awaitable[None]]) -> None:
        """Tell of the served kinds each time that a definition has changed, for ever."""
        self._definitions.add_handler(
            on_add=lambda _: self._changed.set(),
            on_update=lambda *_: self._changed.set(),
            on_delete=lambda _: self._changed.set(),
        )
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._changed.clear()
            try:
                await tell(await self.load())
            except errors.StatusError as error:
                log.warning("cannot ask what is served, trying again", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed.set()
