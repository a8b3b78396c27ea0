"""skeleton"""

from collections.abc import Callable
from typing import NamedTuple
from controlplane.apiserver.store.entry import Entry
from controlplane.apiserver.store.store import Store
from controlplane.apiserver.store.types import Resource, WindowLimits
from controlplane.apiserver.store.watcher import Watcher


class Listing(NamedTuple):
    """A list as of one revision; the entries never change."""

    entries: list[Entry]
    """In the order of their keys."""
    revision: int
    remaining: int
    """How many entries `limit` cut off (all of them counted, whatever a selector would say)."""


class Cache:
    """The watch cache."""

    def __init__(
        self,
        store: Store,
        *,
        window: WindowLimits = WindowLimits(),
        queue_limit: int = 10_000,
        bookmark_period: float = 5.0,
        progress_timeout: float = 5.0,
        history: int = 10_000,
    ) -> None:
        raise NotImplementedError

    def register(self, resource: Resource) -> None:
        """Give the keys below a prefix their own state; also while running (custom resources)."""
        raise NotImplementedError

    def unregister(self, prefix: str) -> None:
        """Forget a prefix; its watchers end."""
        raise NotImplementedError

    async def start(self) -> None:
        """Load all keys and start following; returns when loaded."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the watch and all watchers."""
        raise NotImplementedError

    @property
    def revision(self) -> int:
        """Every event up to it has been applied."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Loaded and following."""
        raise NotImplementedError

    @property
    def stale_seconds(self) -> float:
        """Monotonic seconds since the cache last proved itself current."""
        raise NotImplementedError

    async def fresh(self, *, timeout: float = 10.0) -> int:
        """Wait until the cache is as new as etcd is now; returns its revision. Raises TimeoutError_ (504)."""
        raise NotImplementedError

    async def wait_for(self, revision: int, *, timeout: float = 3.0) -> None:
        """Wait until `revision` is reached. Raises TimeoutError_ (504, "Too large resource version")."""
        raise NotImplementedError

    def get(self, key: str) -> Entry | None:
        """One entry as the cache has it now; any key, registered or not."""
        raise NotImplementedError

    def list(
        self,
        prefix: str,
        *,
        namespace: str = "",
        index: tuple[str, str] | None = None,
        start_after: str = "",
        limit: int = 0,
    ) -> Listing:
        """A snapshot of a registered prefix as the cache has it now. `index` is (name of the index, value)."""
        raise NotImplementedError

    async def list_at(
        self,
        prefix: str,
        revision: int,
        *,
        namespace: str = "",
        start_after: str = "",
        limit: int = 0,
    ) -> Listing:
        """As it was at `revision`, from memory or etcd. Raises ExpiredError (410) when compacted."""
        raise NotImplementedError

    async def watch(
        self,
        prefix: str,
        *,
        namespace: str = "",
        name: str = "",
        index: tuple[str, str] | None = None,
        since: int | None = None,
        initial: bool = False,
        matches: Callable[[Entry], bool] | None = None,
        bookmarks: bool = False,
    ) -> Watcher:
        """Follow a registered prefix: all events after `since` (None: from now on).

        `initial` sends what is there as ADDED first, then a bookmark with `initial_end`. `matches` is the selector, on
        an entry; a change that moves an object into or out of it arrives as ADDED or DELETED.
        Raises ExpiredError (410) when `since` is older than the window, TimeoutError_ (504) when it is in the future.
        """
        raise NotImplementedError
