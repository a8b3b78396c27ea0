"""skeleton"""

from controlplane.apiserver.store.client import EtcdConfig
from controlplane.apiserver.store.types import Committed, KeyValue, RangeResult, Write


class Store:
    """Reads and writes of keys."""

    def __init__(self, config: EtcdConfig, *, group_commit_max: int = 100, lazy_tick: float = 0.02) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Open the channel; does not wait for etcd."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Let the writes under way end, then close."""
        raise NotImplementedError

    async def commit(self, write: Write, *, lazy: bool = False) -> Committed:
        """Apply a write. Raises CompareFailed, or StatusError 503, 504, 413."""
        raise NotImplementedError

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Linearizable read of one key, or as it was at a revision."""
        raise NotImplementedError

    async def range(
        self,
        start: str,
        end: str = "",
        *,
        prefix: bool = False,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
    ) -> RangeResult:
        """Linearizable read of keys from `start` to before `end`, or all that begin with `start`."""
        raise NotImplementedError

    async def revision(self) -> int:
        """The store's revision now, linearizable."""
        raise NotImplementedError
