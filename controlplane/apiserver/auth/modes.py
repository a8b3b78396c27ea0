"""``--authorization-mode``: names to authorisers, asked in the order given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.auth.authorizer import AlwaysAllow, AlwaysDeny, Authorizer, Authorizers
from controlplane.apiserver.auth.nodegraph import CachedGraph
from controlplane.apiserver.auth.nodes import Nodes
from controlplane.apiserver.auth.rbac import RBAC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.apiserver.auth.rolebook import RoleBook
    from controlplane.apiserver.store import Cache

MODES: Mapping[str, Callable[[Cache, RoleBook], Authorizer]] = {
    "Node": lambda cache, book: Nodes(CachedGraph(cache)),
    "RBAC": lambda cache, book: RBAC(book),
    "AlwaysAllow": lambda cache, book: AlwaysAllow(),
    "AlwaysDeny": lambda cache, book: AlwaysDeny(),
}


def authorizers(modes: Sequence[str], cache: Cache, book: RoleBook) -> Authorizers:
    """Return the authorisers of some modes. Raises ValueError for a mode that is not known or stands twice."""
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"--authorization-mode: {mode!r} is not known; there are {', '.join(MODES)}")
        if modes.count(mode) > 1:
            raise ValueError(f"--authorization-mode: {mode} stands twice")
    return Authorizers([MODES[mode](cache, book) for mode in modes])
