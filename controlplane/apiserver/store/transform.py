"""Values on their way into etcd and out of it: whoever encrypts them comes in here; the store knows no ciphers."""

from __future__ import annotations

from typing import Protocol

from wharfinger.api.encryption import MARK
from wharfinger.api.unreadable import Unreadable


class Transformer(Protocol):
    """Changes values by their keys."""

    def seal(self, key: str, value: bytes) -> bytes:
        """Return a value as it is to be stored."""
        ...

    def open(self, key: str, stored: bytes) -> bytes:
        """Return the value that is stored. Never raises: what cannot be read is a value that readers refuse."""
        ...

    def stale(self, key: str, stored: bytes) -> bool:
        """Whether a value would be stored otherwise today, so that writing it again is worth it."""
        ...


class Plain(Transformer):
    """Stores values as they are, and takes none for one that another server has encrypted."""

    def seal(self, key: str, value: bytes) -> bytes:
        """Return the value."""
        return value

    def open(self, key: str, stored: bytes) -> bytes:
        """Return the value."""
        if stored.startswith(MARK):
            return Unreadable.of(key, "it is encrypted, and the server has no --encryption-provider-config")
        return stored

    def stale(self, key: str, stored: bytes) -> bool:
        """No."""
        return False


PLAIN = Plain()
