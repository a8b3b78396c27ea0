"""Entries and events of the watch cache, with the bytes made of them.

An :class:`Entry` never changes: a new revision is a new entry. So lists, watchers and the window may share it, and a
list stays what it was while it is streamed in chunks. What is derived from an entry (the decoded object, its bytes in a
format) is made at first use and remembered; a :class:`Memo` bounds the memory of all that: the oldest is dropped, and
made again should somebody ask. The values themselves are held once, as etcd sent them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from controlplane.apiserver.store.types import Resource

log = logging.getLogger(__name__)


class EventType(IntEnum):
    """As in ``wharfinger.v1.EventType``."""

    ADDED = 1
    MODIFIED = 2
    DELETED = 3
    BOOKMARK = 4


class Memo:
    """Bounds what is remembered beside the values, over a whole cache.

    `objects` is how many decoded objects, `size` how many bytes of served formats are kept.
    """

    __slots__ = ("_decoded", "_limit_objects", "_limit_size", "_served", "_size")

    def __init__(self, *, objects: int = 2048, size: int = 32 << 20) -> None:
        self._limit_objects = objects
        self._limit_size = size
        self._decoded: deque[Entry] = deque()
        self._served: deque[tuple[_Served, str, int]] = deque()
        self._size = 0

    def decoded(self, entry: Entry) -> None:
        """Take note that `entry` has a decoded object now."""
        self._decoded.append(entry)
        if len(self._decoded) > self._limit_objects:
            self._decoded.popleft()._decoded = _MISSING

    def served(self, owner: _Served, form: str, size: int) -> None:
        """Take note that `owner` has bytes in a format now."""
        self._served.append((owner, form, size))
        self._size += size
        while self._size > self._limit_size and len(self._served) > 1:
            old, old_form, old_size = self._served.popleft()
            self._size -= old_size
            if old._bytes is not None:
                old._bytes.pop(old_form, None)


_MISSING: Any = object()


class _Served:
    """Something that has bytes per format."""

    __slots__ = ("_bytes", "_memo")

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._bytes: dict[str, bytes] | None = None

    def _remember(self, form: str, made: bytes) -> bytes:
        if self._bytes is None:
            self._bytes = {}
        self._bytes[form] = made
        self._memo.served(self, form, len(made))
        return made


class Entry(_Served):
    """One object at one revision."""

    __slots__ = ("_decoded", "create_revision", "index_values", "key", "mod_revision", "resource", "value")

    def __init__(
        self, key: str, value: bytes, *, mod_revision: int, create_revision: int, resource: Resource, memo: Memo
    ) -> None:
        super().__init__(memo)
        self.key = key
        self.value = value
        self.mod_revision = mod_revision
        """What clients see as resourceVersion. In a DELETED event: the delete's revision."""
        self.create_revision = create_revision
        self.resource = resource
        self.index_values: tuple[tuple[str, ...], ...] | None = None
        """By position of the resource's indexes; filled by the cache."""
        self._decoded: Any = _MISSING

    @property
    def decoded(self) -> Any:
        """The object, decoded from the value. Shared: whoever wants to change it makes a copy.

        It does not carry `mod_revision`: values are stored without a resourceVersion.
        """
        if self._decoded is _MISSING:
            self._decoded = self.resource.decode(self.value)
            self._memo.decoded(self)
        return self._decoded

    def served(self, form: str, make: Callable[[Entry], bytes]) -> bytes:
        """Return the entry's bytes in a format that the caller names, made by `make` at first use."""
        if self._bytes is not None and (found := self._bytes.get(form)) is not None:
            return found
        return self._remember(form, make(self))

    @property
    def namespace(self) -> str:
        """Read from the key; empty for what has none."""
        return self.key[len(self.resource.prefix) :].partition("/")[0] if self.resource.namespaced else ""

    @property
    def name(self) -> str:
        """Read from the key."""
        rest = self.key[len(self.resource.prefix) :]
        return rest.partition("/")[2] if self.resource.namespaced else rest

    def adopt(self, resource: Resource) -> None:
        """Make it an entry of another resource: its prefix was registered, or is not any more."""
        self.resource = resource
        self.index_values = None
        self._decoded = _MISSING

    def at(self, revision: int) -> Entry:
        """Return the same object under another mod_revision, as DELETED events show it."""
        made = Entry(
            self.key,
            self.value,
            mod_revision=revision,
            create_revision=self.create_revision,
            resource=self.resource,
            memo=self._memo,
        )
        made.index_values = self.index_values
        return made

    def __repr__(self) -> str:
        return f"<Entry {self.key}@{self.mod_revision}>"


class WatchEvent(_Served):
    """What a watcher is told; shared by all who are told the same.

    ADDED and MODIFIED carry the new object. DELETED carries the last one that the watcher could see, under the revision
    that ended it (also when a change took it out of the watcher's selector). BOOKMARK carries no entry: every event up
    to `revision` has been given out, and the cache had just proven itself current.
    """

    __slots__ = ("entry", "initial_end", "revision", "type")

    def __init__(
        self, kind: EventType, entry: Entry | None, revision: int, memo: Memo, *, initial_end: bool = False
    ) -> None:
        super().__init__(memo)
        self.type = kind
        self.entry: Entry = entry  # type: ignore[assignment]  # None in bookmarks alone
        self.revision = revision
        self.initial_end = initial_end
        """On the bookmark that ends the initial events of a watch with ``initial=True``."""

    def served(self, form: str, make: Callable[[WatchEvent], bytes]) -> bytes:
        """Return the event's bytes in a format that the caller names (a joined message needs no other work)."""
        if self._bytes is not None and (found := self._bytes.get(form)) is not None:
            return found
        return self._remember(form, make(self))

    def __repr__(self) -> str:
        return f"<WatchEvent {self.type.name} {self.entry!r} @{self.revision}>"


class Change:
    """One key's change as etcd told it: before and after."""

    __slots__ = ("_added", "_deleted", "_modified", "entry", "key", "previous", "revision", "seen", "size")

    def __init__(self, key: str, revision: int, *, entry: Entry | None, previous: Entry | None) -> None:
        self.key = key
        self.revision = revision
        self.entry = entry
        """None when it was deleted."""
        self.previous = previous
        """None when it was created."""
        self.seen = 0.0
        """Monotonic seconds of its arrival."""
        self.size = (len(entry.value) if entry else 0) + (len(previous.value) if previous else 0)
        """Bytes of values that it may keep alive."""
        self._added: WatchEvent | None = None
        self._modified: WatchEvent | None = None
        self._deleted: WatchEvent | None = None

    def event(self, matches: Callable[[Entry], bool] | None) -> WatchEvent | None:
        """Return what a watcher with this selector is told; None when it never could see the object."""
        new, old = self.entry, self.previous
        if matches is not None:
            if new is not None and not matches(new):
                new = None
            if old is not None and not matches(old):
                old = None
        if new is not None:
            if old is not None:
                if self._modified is None:
                    self._modified = WatchEvent(EventType.MODIFIED, new, self.revision, new._memo)
                return self._modified
            if self._added is None:
                self._added = WatchEvent(EventType.ADDED, new, self.revision, new._memo)
            return self._added
        if old is not None:
            if self._deleted is None:
                self._deleted = WatchEvent(EventType.DELETED, old.at(self.revision), self.revision, old._memo)
            return self._deleted
        return None
