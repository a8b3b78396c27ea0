"""skeleton"""

from collections.abc import AsyncIterator
from typing import Self
from controlplane.apiserver.store.entry import WatchEvent


class Watcher:
    """One watch: ``async with`` closes it, ``async for`` gives batches of events, whole revisions at a time."""

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        raise NotImplementedError

    async def __anext__(self) -> list[WatchEvent]:
        """Raises ExpiredError when the watcher was too slow or history is gone; ends when the cache stops."""
        raise NotImplementedError

    def close(self) -> None:
        """End it; a pending ``__anext__`` stops the iteration."""
        raise NotImplementedError
