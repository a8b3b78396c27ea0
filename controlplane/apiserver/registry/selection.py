"""What a list or watch asks for: selectors, turned into the cache's index and a predicate on its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.api import fields, labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message

    from controlplane.apiserver.store import Entry
    from wharfinger.api.kinds import Kind

INDEXED: Mapping[str, tuple[str, ...]] = {"pods": ("spec.nodeName",)}
"""Fields by which the cache finds entries, by resource."""


@dataclass(slots=True)
class Selection:
    """One parsed pair of selectors."""

    namespace: str
    """The only namespace that can match; empty: any."""
    name: str
    """The only name that can match; empty: any."""
    index: tuple[str, str] | None
    matches: Callable[[Entry], bool] | None
    """What namespace, name and index leave to be checked; None: nothing."""
    empty: bool = False
    """Nothing can match."""
    selective: bool = False
    """Whether there was any selector: then nobody counts what remains."""


def select(
    kind: Kind, namespace: str, *, label_selector: str, field_selector: str, view: Callable[[Entry], Message]
) -> Selection:
    """Parse selectors for a kind.

    `view` decodes an entry as the kind. Raises BadRequestError for what cannot be parsed or selected by.
    """
    if not label_selector and not field_selector:
        return Selection(namespace, "", None, None)
    by_label = labels.parse(label_selector)
    by_field = fields.parse(field_selector)
    fields.check(by_field, kind)
    name = by_field.exact("metadata.name") or ""
    wanted = by_field.exact("metadata.namespace") if kind.namespaced else None
    empty = bool(wanted and namespace and wanted != namespace)
    index: tuple[str, str] | None = None
    for path in INDEXED.get(kind.group_resource, ()):
        value = by_field.exact(path)
        if value is not None:
            index = (path, value)
    # What the address and the index settle need not be checked on each entry.
    settled = {pair for pair in (("metadata.name", name), ("metadata.namespace", wanted), index) if pair and pair[1]}
    if index is not None:
        settled.add(index)
    rest = [item for item in by_field.requirements if item.operator != "=" or (item.path, item.value) not in settled]
    remaining = fields.FieldSelector(tuple(rest))
    return Selection(
        namespace or wanted or "",
        name,
        index,
        _predicate(by_label, remaining, view),
        empty=empty,
        selective=True,
    )


def _predicate(
    by_label: labels.Selector, by_field: fields.FieldSelector, view: Callable[[Entry], Message]
) -> Callable[[Entry], bool] | None:
    if by_label.everything and by_field.everything:
        return None
    if by_field.everything:
        return lambda entry: by_label.matches(view(entry).metadata.labels)  # type: ignore[attr-defined]
    if by_label.everything:
        return lambda entry: by_field.matches_object(view(entry))

    def both(entry: Entry) -> bool:
        message = view(entry)
        return by_label.matches(message.metadata.labels) and by_field.matches_object(message)  # type: ignore[attr-defined]

    return both
