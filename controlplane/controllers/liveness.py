"""Time that counts only while what we see is proven to be current.

A node is given up when nothing was *seen* of it for the grace period. "Seen" needs an eye that is open: if etcd, the
apiserver, the connection or this very process stood still, silence says nothing about nodes. So silence is measured
on a clock of its own. :class:`LiveClock` advances only from one proof of the watch to the next (an event or a
bookmark; the apiserver sends bookmarks every five seconds, and only when its cache has just proven itself current
against etcd). When proofs stayed away for too long, or our own loop stood still, it *restarts*: whoever measures
silence by it begins anew, for renewals that were held up by the same trouble are still on their way.

No clock of another host enters: kubernetes/kubernetes#32510, #108844 and #113081 are what comes of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOOKMARK_SECONDS = 5.0
"""How often the apiserver sends bookmarks."""
STALL_SECONDS = 3 * BOOKMARK_SECONDS
"""A watch without a proof for this long is no longer believed."""
MAX_CREDIT_SECONDS = BOOKMARK_SECONDS + 1.0
"""The most that one interval between two proofs can count: a hiccup shorter than a stall costs nobody the grace."""


@dataclass(slots=True)
class LiveClock:
    """The clock that silence is measured on. All times are seconds of this process's monotonic clock."""

    started: float
    loop_tolerance: float = 5.0
    """A tick that comes later than its period by more than this means that our own loop stood still."""
    value: float = 0.0
    """Seconds of proven watching since the start; never goes back."""
    epoch: int = 0
    """Counts the restarts; whoever measures by this clock begins anew when it changes."""
    proven_at: float = field(init=False)
    live: bool = False
    """Whether decisions may be based on what is seen now."""
    _last_tick: float = field(init=False)

    def __post_init__(self) -> None:
        self.proven_at = self._last_tick = self.started

    def at(self, now: float) -> float:
        """Return what the clock will show for something seen at `now`."""
        return self.value + max(0.0, now - self.proven_at)

    def tick(self, now: float, *, idle: float, period: float) -> str:
        """Advance to the newest proof, which came `idle` seconds before `now`; called every `period` seconds.

        Returns why the clock restarted, or nothing.
        """
        late = now - self._last_tick - period
        self._last_tick = now
        proof = max(self.proven_at, now - idle)
        gap = proof - self.proven_at
        self.proven_at = proof
        self.value += min(gap, MAX_CREDIT_SECONDS)
        self.live = now - proof < STALL_SECONDS
        if late > max(self.loop_tolerance, period):
            return self._restart(f"this process stood still for {late:.0f} s")
        if gap >= STALL_SECONDS:
            return self._restart(f"the watch was not proven current for {gap:.0f} s")
        return ""

    def skip(self, now: float) -> None:
        """Do not count the time since the last tick as our own standing still: we were awaiting an answer."""
        self._last_tick = now

    def restart(self) -> None:
        """Begin anew for another reason, such as the end of a full disruption."""
        self.epoch += 1

    def _restart(self, reason: str) -> str:
        self.restart()
        return reason
