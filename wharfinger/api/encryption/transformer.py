"""Encryption between the API's values and etcd's: which key of etcd is which resource, and what becomes of its value.

What cannot be read must not keep the rest from being served. So :meth:`Transformer.open` does not raise: in the place
of such a value stands an :class:`~wharfinger.api.unreadable.Unreadable`.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from wharfinger.api import kinds
from wharfinger.api.encryption.ciphers import CipherError
from wharfinger.api.encryption.configuration import MARK, GroupResource, open_value
from wharfinger.api.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.api.encryption.configuration import Encryption, Provider

log = logging.getLogger(__name__)

_ROOT = "/registry/"
_TOLD = 20
"""Values that cannot be read of which the log tells one by one."""


@cache
def _by_prefix() -> dict[str, GroupResource]:
    found: dict[str, GroupResource] = {}
    for kind in kinds.KINDS:  # of two kinds with one prefix the first is the one that is stored
        if kind.stored and kind.etcd_prefix.startswith(_ROOT):
            found.setdefault(kind.etcd_prefix, GroupResource(kind.group, kind.resource))
    return found


def group_resource_of(key: str) -> GroupResource | None:
    """Return the resource whose object lies at a key of etcd; None: that of none."""
    if not key.startswith(_ROOT):
        return None
    first, _, rest = key[len(_ROOT) :].partition("/")
    known = _by_prefix()
    found = known.get(_ROOT + first)
    if found is None and rest:
        second, _, name = rest.partition("/")
        found = known.get(f"{_ROOT}{first}/{second}")
        if found is None and name and "." in first:  # of a custom kind: group and plural name
            found = GroupResource(first, second)
    return found


class Transformer:
    """Applies a configuration, which may be replaced while it is in use."""

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption
        self._providers: dict[GroupResource, Sequence[Provider]] = {}
        self.counts: dict[tuple[str, str, str, str], int] = {}
        """By resource, direction (``to_storage``, ``from_storage``), prefix and status (``OK``, ``error``)."""
        self.unreadable = 0
        """How often something could not be read."""

    def replace(self, encryption: Encryption) -> None:
        """Use another configuration from now on."""
        self._encryption = encryption
        self._providers = {}

    def _of(self, resource: GroupResource) -> Sequence[Provider]:
        found = self._providers.get(resource)
        if found is None:
            found = self._providers[resource] = self._encryption.providers(resource)
        return found

    def _count(self, resource: GroupResource, direction: str, value: bytes, status: str) -> None:
        prefix = _prefix(value)
        if prefix or status != "OK":  # what was never encrypted is no news
            key = (str(resource), direction, prefix, status)
            self.counts[key] = self.counts.get(key, 0) + 1

    def seal(self, key: str, value: bytes) -> bytes:
        """Return a value as it is to be stored at a key."""
        resource = group_resource_of(key)
        if resource is None:
            return value
        sealed = self._of(resource)[0].seal(value, _context(key))
        self._count(resource, "to_storage", sealed, "OK")
        return sealed

    def open(self, key: str, stored: bytes) -> bytes:
        """Return the value that is stored at a key; an `Unreadable` when it cannot be read."""
        resource = group_resource_of(key)
        if resource is None:
            return stored
        try:
            opened = open_value(self._of(resource), stored, _context(key))
        except CipherError as error:
            self._count(resource, "from_storage", stored, "error")
            self.unreadable += 1
            if self.unreadable <= _TOLD:
                more = "; further ones are only counted" if self.unreadable == _TOLD else ""
                log.error(f"a stored value cannot be decrypted{more}", extra={"key": key, "error": str(error)})
            return Unreadable.of(key, str(error))
        self._count(resource, "from_storage", stored, "OK")
        return opened.value

    def stale(self, key: str, stored: bytes) -> bool:
        """Whether a value would be stored otherwise today: by another provider, or with another key."""
        resource = group_resource_of(key)
        if resource is None:
            return False
        first = self._of(resource)[0]
        return not stored.startswith(first.seal_prefix) if first.scheme else _prefix(stored) != ""


def _context(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _prefix(stored: bytes) -> str:
    """Return ``k8s:enc:aescbc:v1:`` and the like; empty for what is not encrypted."""
    if not stored.startswith(MARK):
        return ""
    return ":".join(stored[:40].decode(errors="replace").split(":")[:4]) + ":"
