"""What goes into the store and comes out of it: keys, bytes and revisions, and nothing of Kubernetes.

Keys are ``str`` (etcd's bytes as UTF-8, foreign bytes surrogate-escaped), values are ``bytes``.
A *revision* is etcd's: one number for the whole key space, raised by every transaction that changes something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class KeyValue(NamedTuple):
    """One key as etcd holds it."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int
    version: int = 0
    lease: int = 0


class RangeResult(NamedTuple):
    """The answer to :meth:`Store.range`."""

    kvs: list[KeyValue]
    revision: int
    """The revision that the answer shows: the one asked for, or the store's at that moment."""
    more: bool
    """Whether `limit` cut the answer."""
    total: int
    """How many keys the range has, regardless of `limit`."""


class Compare(NamedTuple):
    """A condition of a write: `key` was last changed by `mod_revision`; 0 means that it does not exist."""

    key: str
    mod_revision: int


class Put(NamedTuple):
    """Set `key` to `value`; with `ttl` the key vanishes that many seconds later, or up to a twentieth after that."""

    key: str
    value: bytes
    ttl: int = 0


@dataclass(slots=True)
class Write:
    """Several changes that happen all or not at all, under conditions that must all hold.

    Values should be unlike any that another writer would store (an object's uid, a time or a random number sees to
    that): by its values a write is found in history after a lost answer.
    """

    compares: Sequence[Compare] = ()
    puts: Sequence[Put] = ()
    deletes: Sequence[str] = ()


class Committed(NamedTuple):
    """A write that happened; every key put has this mod_revision, which other writes of a group share."""

    revision: int


class CompareFailed(Exception):  # noqa: N818  (a decision of the store, like a failed precondition)
    """Raised by :meth:`Store.commit` when a condition did not hold; nothing was written.

    `current` has every compared key as it was at that moment; None where it did not exist.
    """

    def __init__(self, current: Mapping[str, KeyValue | None]) -> None:
        super().__init__(f"changed meanwhile: {', '.join(current)}")
        self.current = current


@dataclass(frozen=True)
class Resource:
    """What the cache has to know of the keys below one prefix."""

    prefix: str
    """With its trailing slash: ``/registry/pods/``."""
    name: str
    """For metrics and messages: ``pods``, ``deployments.apps``."""
    namespaced: bool = True
    """Whether keys are ``<prefix><namespace>/<name>`` or ``<prefix><name>``."""
    decode: Callable[[bytes], Any] = bytes
    """Makes `Entry.decoded` of a value. An entry for which it or an index raises is logged, served all the same, and
    found by no index."""
    indexes: Mapping[str, Callable[[Any], Iterable[str]]] = field(default_factory=dict)
    """Name → what the decoded object is found by: ``{"spec.nodeName": lambda pod: [pod.spec.nodeName]}``."""


@dataclass(frozen=True)
class WindowLimits:
    """How many recent events a resource keeps for watches that resume; what is over any of the limits goes."""

    events: int = 20_000
    size: int = 16 << 20
    """Bytes of values kept alive."""
    seconds: float = 300.0
