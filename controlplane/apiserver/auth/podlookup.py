"""Which pods are on which node, from the watch cache, for the node authoriser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.auth.nodes import PodLookup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.store import Cache
    from wharfinger.api.types import core

_PREFIX = "/registry/pods/"


class CachedPods(PodLookup):
    """Asks the watch cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def node_of(self, namespace: str, name: str) -> str | None:
        """Return the pod's node, or None when the cache knows no such pod."""
        entry = self._cache.get(f"{_PREFIX}{namespace}/{name}")
        return None if entry is None else str(entry.decoded.spec.nodeName)

    def pods_on(self, node: str) -> Iterable[core.Pod]:
        """Return the pods that are on a node."""
        return (entry.decoded for entry in self._cache.list(_PREFIX, index=("spec.nodeName", node)).entries)
