"""The store: etcd, and the watch cache over it. Only this package knows etcd.

Writing and reading the store itself::

    store = Store(EtcdConfig(endpoints=("127.0.0.1:2379",)))
    await store.start()
    done = await store.commit(Write(compares=[Compare(key, 0)], puts=[Put(key, value)]))      # a create
    done.revision                                                                              # resourceVersion
    await store.commit(Write(compares=[Compare(key, entry.mod_revision)], deletes=[key]))      # raises CompareFailed
    await store.commit(write, lazy=True)                                                       # on the next tick
    await store.get(key); await store.range("/registry/pods/", prefix=True, limit=500, revision=0)

Reading through the cache::

    cache = Cache(store)
    cache.register(Resource("/registry/pods/", "pods", decode=storage.decode,
                            indexes={"spec.nodeName": lambda pod: [pod.spec.nodeName]}))
    await cache.start()                                  # returns when loaded; waits while etcd is away
    await cache.fresh()                                  # now at least as new as etcd was when called
    entry = cache.get("/registry/pods/default/web")
    listing = cache.list("/registry/pods/", namespace="default")            # .entries, .revision
    page = await cache.list_at("/registry/pods/", revision, start_after=last_key, limit=500)
    async with await cache.watch("/registry/pods/", since=listing.revision) as watcher:
        async for batch in watcher: ...                  # list[WatchEvent]; ExpiredError (410) when too slow
    entry.decoded; entry.served("protobuf", make); event.served("grpc", make)

Errors are those of ``wharfinger.api.errors`` (503 out of space or unreachable, 504 outcome unknown, 410 compacted,
413 too large) and :class:`CompareFailed`. `README.md` beside this file shows how the parts fit.
"""

from controlplane.apiserver.store.cache import Cache, Listing
from controlplane.apiserver.store.client import EtcdConfig
from controlplane.apiserver.store.entry import Entry, EventType, WatchEvent
from controlplane.apiserver.store.store import Store
from controlplane.apiserver.store.types import (
    Committed,
    Compare,
    CompareFailed,
    KeyValue,
    Put,
    RangeResult,
    Resource,
    WindowLimits,
    Write,
)
from controlplane.apiserver.store.watcher import Watcher

__all__ = [
    "Cache",
    "Committed",
    "Compare",
    "CompareFailed",
    "Entry",
    "EtcdConfig",
    "EventType",
    "KeyValue",
    "Listing",
    "Put",
    "RangeResult",
    "Resource",
    "Store",
    "WatchEvent",
    "Watcher",
    "WindowLimits",
    "Write",
]
