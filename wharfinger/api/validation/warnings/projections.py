"""Volumes that put several things into one directory, and two of them under one path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wharfinger.api.types import core


def overlaps(source: core.VolumeSource, path: str) -> list[str]:
    """Return a warning for each path of a volume that an earlier one hides or holds."""
    found, known = [], list[tuple[str, str]]()
    for where, target in _targets(source, path):
        clean = target.strip("/")
        for other_where, other in known:
            if clean == other:
                found.append(f"{where}: conflicting duplicate path {clean!r} with {other_where}")
                break
            if clean.startswith(f"{other}/") or other.startswith(f"{clean}/"):
                found.append(f"{where}: path {clean!r} overlaps with {other!r} of {other_where}")
                break
        known.append((where, clean))
    return found


def _targets(source: core.VolumeSource, path: str) -> Iterator[tuple[str, str]]:
    """Yield every path that a volume says something is put at, with where it says so."""
    for field in ("secret", "configMap", "downwardAPI"):
        if source.HasField(field):
            yield from _items(getattr(source, field).items, f"{path}.{field}.items")
    if not source.HasField("projected"):
        return
    for index, part in enumerate(source.projected.sources):
        at = f"{path}.projected.sources[{index}]"
        for field in ("secret", "configMap", "downwardAPI"):
            if part.HasField(field):
                yield from _items(getattr(part, field).items, f"{at}.{field}.items")
        for field in ("serviceAccountToken", "clusterTrustBundle"):
            if part.HasField(field):
                yield f"{at}.{field}", getattr(part, field).path


def _items(items: Iterable[Any], path: str) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(items):
        yield f"{path}[{index}].path", item.path
