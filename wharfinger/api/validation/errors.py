"""The list in which a validation collects what is wrong, in the order in which Kubernetes reports it.

Rules append to one list instead of returning their own: a valid object, the usual case, then costs no lists, and
paths are put together only for parts that are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.api.errors import FieldError


class Errors(list[FieldError]):
    """What is wrong with an object, cause by cause."""

    def required(self, field: str, detail: str = "") -> None:
        """Note that a field is missing."""
        self.append(FieldError.required(field, detail))

    def invalid(self, field: str, value: Any, detail: str) -> None:
        """Note that a value is wrong, and what would be right."""
        self.append(FieldError.invalid(field, value, detail))

    def not_supported(self, field: str, value: Any, supported: Iterable[str]) -> None:
        """Note that a value is none of a closed list."""
        self.append(FieldError.not_supported(field, value, supported))

    def duplicate(self, field: str, value: Any) -> None:
        """Note that a value stands twice where it may stand once."""
        self.append(FieldError.duplicate(field, value))

    def forbidden(self, field: str, detail: str) -> None:
        """Note that a field may not be set or changed here."""
        self.append(FieldError.forbidden(field, detail))

    def not_found(self, field: str, value: Any) -> None:
        """Note that what a field names is not there."""
        self.append(FieldError.not_found(field, value))

    def too_long(self, field: str, limit: int) -> None:
        """Note that a value has more than `limit` bytes."""
        self.append(FieldError.too_long(field, limit))

    def too_many(self, field: str, count: int, limit: int) -> None:
        """Note that a list has more than `limit` elements."""
        self.append(FieldError.too_many(field, count, limit))

    def complaints(self, field: str, value: Any, complaints: Iterable[str]) -> None:
        """Note each complaint of a check of :mod:`.names` as a wrong value."""
        for complaint in complaints:
            self.append(FieldError.invalid(field, value, complaint))
