"""The recent changes of one resource, so that a watch can resume where it broke off.

A position is a revision, never a place inside one: changes are dropped a whole revision at a time, and the window
knows from which revision on it is complete.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from operator import attrgetter

from controlplane.apiserver.store.entry import Change
from controlplane.apiserver.store.types import WindowLimits
from wharfinger.api import errors

_REVISION = attrgetter("revision")


class Window:
    """Changes in the order of their revisions; `first` is the lowest revision of which, and after which, all are
    here."""

    __slots__ = ("_changes", "_limits", "_size", "_start", "first")

    def __init__(self, limits: WindowLimits, first: int) -> None:
        self._limits = limits
        self._changes: list[Change] = []
        self._start = 0
        self._size = 0
        self.first = first

    def __len__(self) -> int:
        return len(self._changes) - self._start

    def add(self, change: Change) -> None:
        """Append a change; its revision is not below that of the last one."""
        self._changes.append(change)
        self._size += change.size

    def trim(self) -> None:
        """Drop the oldest revisions until the limits hold; called between revisions."""
        limits, changes = self._limits, self._changes
        oldest = time.monotonic() - limits.seconds
        start, end = self._start, len(changes)
        while start < end and (end - start > limits.events or self._size > limits.size or changes[start].seen < oldest):
            revision = changes[start].revision
            while start < end and changes[start].revision == revision:
                self._size -= changes[start].size
                changes[start] = None  # type: ignore[call-overload]  # never read again; frees its entries now
                start += 1
            self.first = revision + 1
        self._start = start
        if start > 1024 and start * 2 > end:
            del changes[:start]
            self._start = 0

    def since(self, revision: int) -> list[Change]:
        """Return the changes *of* and after a revision. Raises ExpiredError when not all of them are known."""
        if revision < self.first:
            raise errors.ExpiredError(f"too old resource version: {revision} ({self.first})")
        return self._changes[bisect_left(self._changes, revision, self._start, key=_REVISION) :]

    def after(self, revision: int) -> list[Change] | None:
        """Return the changes after a revision; None when not all of them are known."""
        if revision + 1 < self.first:
            return None
        return self._changes[bisect_right(self._changes, revision, self._start, key=_REVISION) :]

    @property
    def last(self) -> int:
        """The revision of the newest change; 0 when there is none."""
        return self._changes[-1].revision if len(self) else 0
