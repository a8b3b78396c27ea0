"""etcd leases shared by many keys: for events, which vanish an hour after they were written.

A lease of its own for every key would cost etcd more than the key. So keys written within a twentieth of their time to
live share a lease, made for that much longer and never renewed: a key vanishes after its time to live at the earliest,
a twentieth of it later at the latest.
"""

from __future__ import annotations

import asyncio
import time

from controlplane.apiserver.store.client import EtcdClient


class Leases:
    """Hands out the lease of the present time bucket."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self._current: dict[int, tuple[int, float]] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    async def get(self, ttl: int) -> int:
        """Return a lease with at least `ttl` seconds to run. Raises EtcdFailure."""
        if ttl <= 0:
            return 0
        if (found := self._valid(ttl)) is not None:
            return found
        async with self._locks.setdefault(ttl, asyncio.Lock()):
            if (found := self._valid(ttl)) is not None:
                return found
            bucket = max(1, ttl // 20)
            # Counted from before the request: the lease runs from some moment after it.
            until = time.monotonic() + bucket
            lease = await self._client.grant(ttl + bucket)
            self._current[ttl] = (lease, until)
            return lease

    def _valid(self, ttl: int) -> int | None:
        found = self._current.get(ttl)
        return found[0] if found is not None and time.monotonic() < found[1] else None

    def forget(self) -> None:
        """Hand out no lease again that is known now: etcd has lost one."""
        self._current.clear()
