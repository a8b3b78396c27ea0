"""Makes stores and caches over a private etcd, and short forms of the usual writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from controlplane.apiserver.store import Cache, Compare, EtcdConfig, Put, Resource, Store, Write
from tests.support.etcd import Etcd

PODS = "/registry/pods/"


def node_of(text: str) -> list[str]:
    """The tests' objects are texts such as ``node=n1 rest``."""
    return [word[5:] for word in text.split() if word.startswith("node=")]


def pods_resource() -> Resource:
    return Resource(PODS, "pods", decode=bytes.decode, indexes={"node": node_of})


class Making:
    """Makes stores and caches of one etcd, and ends them."""

    def __init__(self, etcd: Etcd) -> None:
        self.etcd = etcd
        self._stores: list[Store] = []
        self._caches: list[Cache] = []

    async def store(self, *, timeout: float = 2.0, patience: float = 10.0, **options: Any) -> Store:
        config = EtcdConfig(endpoints=(self.etcd.endpoint,), timeout=timeout, patience=patience)
        store = Store(config, **options)
        await store.start()
        self._stores.append(store)
        return store

    async def cache(self, store: Store | None = None, *, start: bool = True, **options: Any) -> Cache:
        cache = Cache(store or await self.store(), **{"bookmark_period": 0.3, "progress_timeout": 1.0, **options})
        cache.register(pods_resource())
        cache.register(Resource("/registry/minions/", "nodes", namespaced=False))
        if start:
            await cache.start()
        self._caches.append(cache)
        return cache

    async def close(self) -> None:
        for cache in self._caches:
            await cache.stop()
        for store in self._stores:
            await store.stop()


async def create(store: Store, key: str, value: bytes = b"x") -> int:
    return (await store.commit(Write([Compare(key, 0)], [Put(key, value)]))).revision


async def change(store: Store, key: str, revision: int, value: bytes) -> int:
    return (await store.commit(Write([Compare(key, revision)], [Put(key, value)]))).revision


async def delete(store: Store, key: str, revision: int) -> int:
    return (await store.commit(Write([Compare(key, revision)], deletes=[key]))).revision


async def collect(watcher: Any, until: Callable[[list[Any]], bool]) -> list[Any]:
    """Read a watcher until its events satisfy a condition."""
    events: list[Any] = []
    async with asyncio.timeout(60):
        async for batch in watcher:
            events += batch
            if until(events):
                return events
    raise AssertionError(f"the watch ended after {len(events)} events")


async def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
