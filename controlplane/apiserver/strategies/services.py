"""Services: their addresses and ports are handed out by :mod:`controlplane.apiserver.addresses`."""

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
