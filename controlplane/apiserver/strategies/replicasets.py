"""ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    pass


class ReplicaSetStrategy(Strategy):
    """How replica sets differ: not at all, beyond having a scale."""


class ReplicationControllerStrategy(Strategy):
    """How replication controllers differ: they orphan their pods by default, as they always did."""

    garbage_policy = "Orphan"
