"""Services: no addresses are allotted yet, because nothing routes to them; what a client sets is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    pass


class ServiceStrategy(Strategy):
    """How services differ."""

    generation = False
    returns_deleted = True
    create_on_update = True
