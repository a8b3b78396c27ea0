"""What a controller has ordered and its watch has not shown yet.

Between a create and its event the informer shows one pod too few; acting on that would make another one. So an owner
is not acted on while orders are outstanding, or until they are five minutes old (an event may have been coalesced
away). Created pods are known by their uid when the write returns, which may be before or after the event; deleted
ones by key and uid. Since orders are known one by one, an event seen twice or a pod of somebody else counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class _Orders:
    placed_at: float
    in_flight: int = 0
    """Creates without an answer yet."""
    created: set[str] = field(default_factory=set)
    """Answered, but not seen."""
    seen_early: set[str] = field(default_factory=set)
    """Seen while some creates had no answer yet: one of those, perhaps."""
    deleted: set[str] = field(default_factory=set)


class Expectations:
    """Outstanding orders by owner (any key). Times are monotonic seconds."""

    def __init__(self) -> None:
        self._orders: dict[str, _Orders] = {}

    def satisfied(self, owner: str, now: float) -> bool:
        """Whether the owner may be acted on."""
        orders = self._orders.get(owner)
        if orders is None:
            return True
        if not orders.in_flight and not orders.created and not orders.deleted:
            del self._orders[owner]
            return True
        if now - orders.placed_at > TIMEOUT_SECONDS:
            del self._orders[owner]
            return True
        return False

    def expect_creates(self, owner: str, count: int, now: float) -> None:
        """Note that `count` creates are about to be sent."""
        orders = self._orders.setdefault(owner, _Orders(now))
        orders.placed_at = now
        orders.in_flight += count

    def create_answered(self, owner: str, uid: str) -> None:
        """Note the outcome of one create; an empty uid means that it failed or was not sent."""
        orders = self._orders.get(owner)
        if orders is None:
            return
        orders.in_flight = max(0, orders.in_flight - 1)
        if uid:
            if uid in orders.seen_early:
                orders.seen_early.discard(uid)
            else:
                orders.created.add(uid)
        if not orders.in_flight:
            orders.seen_early.clear()

    def expect_deletes(self, owner: str, uids: list[str], now: float) -> None:
        """Note that these are about to be deleted."""
        orders = self._orders.setdefault(owner, _Orders(now))
        orders.placed_at = now
        orders.deleted.update(uids)

    def pod_seen(self, owner: str, uid: str) -> None:
        """Note that the watch shows a pod."""
        orders = self._orders.get(owner)
        if orders is None:
            return
        if uid in orders.created:
            orders.created.discard(uid)
        elif orders.in_flight:
            orders.seen_early.add(uid)

    def pod_going(self, owner: str, uid: str) -> None:
        """Note that the watch shows a pod's deletion (or its beginning), or that a delete failed."""
        orders = self._orders.get(owner)
        if orders is not None:
            orders.deleted.discard(uid)
            orders.created.discard(uid)

    def forget(self, owner: str) -> None:
        """Drop an owner's orders."""
        self._orders.pop(owner, None)
