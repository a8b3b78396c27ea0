"""Which namespaces have objects of some kind at all: most have no quota and no limits, and pay nothing for either."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.apiserver.store import Cache


class NamespacesWith:
    """The namespaces in which the cache has objects below a prefix; counted anew when one of those changes."""

    def __init__(self, cache: Cache, prefix: str) -> None:
        self._cache = cache
        self._prefix = prefix
        self._changed = True
        self._names: set[str] = set()
        cache.listen(prefix, self._note)

    def _note(self, _: str) -> None:
        self._changed = True

    def __contains__(self, namespace: str) -> bool:
        if self._changed:
            self._changed = False
            self._names = {entry.namespace for entry in self._cache.list(self._prefix).entries}
        return namespace in self._names
