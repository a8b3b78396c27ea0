"""The delays between restarts and between image pulls: ten seconds, doubled up to five minutes.

A pure table on the clock that it is given. The first failure of a key costs no delay; each attempt after that waits as
long as the entry says since the failure; after ten quiet minutes it starts anew. (Kubernetes: "Container restarts" in
the pod life cycle page.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

INITIAL_SECONDS = 10.0
MAX_SECONDS = 300.0
FORGET_FACTOR = 2


@dataclass(slots=True)
class _Entry:
    delay: float
    updated: float


@dataclass(slots=True)
class Backoff:
    """Delays by key; times are seconds of any clock, always the same one."""

    initial: float = INITIAL_SECONDS
    maximum: float = MAX_SECONDS
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def ready_at(self, key: str, failed_at: float) -> float:
        """Return when the next attempt may be made after a failure at `failed_at`; that very time when at once."""
        entry = self._entries.get(key)
        if entry is None or self._forgotten(entry, failed_at):
            return failed_at
        return failed_at + entry.delay

    def delay(self, key: str) -> float:
        """Return the delay that counts now; 0 when there is none."""
        entry = self._entries.get(key)
        return entry.delay if entry else 0.0

    def attempt(self, key: str, *, failed_at: float, now: float) -> None:
        """Note that another attempt is made after the failure at `failed_at`: the delay doubles."""
        entry = self._entries.get(key)
        if entry is None or self._forgotten(entry, failed_at):
            self._entries[key] = _Entry(self.initial, now)
        else:
            entry.delay, entry.updated = min(entry.delay * 2, self.maximum), now

    def reset(self, key: str) -> None:
        """Forget a key."""
        self._entries.pop(key, None)

    def _forgotten(self, entry: _Entry, failed_at: float) -> bool:
        return failed_at - entry.updated > FORGET_FACTOR * self.maximum
