"""What a file of rules offers for a kind: how to judge a new object, a changed one, and each of its subresources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors

Create = Callable[[Any, Errors], None]
Update = Callable[[Any, Any, Errors], None]


@dataclass(frozen=True)
class Rules:
    """The rules of one kind."""

    create: Create
    update: Update
    subresources: Mapping[str, Update] = field(default_factory=dict)
    """By name: ``status``, ``ephemeralcontainers``, ``resize``, ``approval``, ``finalize``."""


def only_metadata(name: metadata.NameCheck = names.dns1123_subdomain, *, namespaced: bool) -> Rules:
    """Return the rules of a kind of which only the metadata is judged."""

    def create(obj: Any, errors: Errors) -> None:
        metadata.validate_kind(obj.metadata, errors, namespaced=namespaced, name=name)

    def update(obj: Any, old: Any, errors: Errors) -> None:
        metadata.validate_kind_update(obj.metadata, old.metadata, errors)
        create(obj, errors)

    return Rules(create=create, update=update, subresources={"status": status_metadata})


def status_metadata(obj: Any, old: Any, errors: Errors) -> None:
    """Judge a changed status of which nothing but the metadata beside it can be wrong."""
    metadata.validate_kind_update(obj.metadata, old.metadata, errors)
