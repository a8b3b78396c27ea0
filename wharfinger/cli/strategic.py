"""The patch that ``apply`` sends: three-way, in Kubernetes' strategic merge notation, computed here.

Three documents say what is meant: *original* (what was applied last time), *modified* (what is applied now) and
*current* (what the server has). The patch sets what differs between modified and current, and deletes what was in
original and is no longer in modified; fields that others manage are left alone because they are in neither.

Which lists are merged, and by which key, stands in the schema as options on the fields; nothing here knows a kind.
The notation (``$patch: delete``, ``$setElementOrder/…``, ``$deleteFromPrimitiveList/…``, ``$retainKeys``) is documented
in Kubernetes' API conventions under "Strategic Merge Patch". Where the schema says nothing (unknown fields), the
rules of a JSON merge patch hold: maps are merged, everything else is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from wharfinger.api.codec.schema import OBJECT, descriptor_of, form_of, info_of
from wharfinger.api.codec.selfcoded import SelfCoded

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from wharfinger.api.kinds import Kind
    from wharfinger.client.options import PatchType

Document = Mapping[str, Any]


@dataclass(frozen=True)
class _Field:
    """What matters of a field: what lies below it, and how a patch treats it."""

    message: Descriptor | None
    is_map: bool
    repeated: bool
    strategies: tuple[str, ...]
    merge_key: str


@cache
def _fields(descriptor: Descriptor) -> dict[str, _Field]:
    """Return a message's fields by JSON name, those of inlined messages included."""
    found = {}
    for name, chain in info_of(descriptor).json_fields.items():
        field = chain[-1]
        # Times, quantities and the like are single values in JSON.
        message = field.message if field.message is not None and form_of(field.message) == OBJECT else None
        found[name] = _Field(
            message, field.is_map, field.repeated, tuple(field.options.patch_strategy), field.options.merge_key
        )
    return found


def three_way(
    original: Document | None, modified: Document, current: Document, message: type[Message]
) -> dict[str, Any]:  # fmt: skip
    """Return the patch that takes `current` to what is meant; empty when there is nothing to do.

    Of custom objects, which have no descriptor, it is a merge patch.
    """
    descriptor = None if issubclass(message, SelfCoded) else descriptor_of(message)
    return _Differ().objects(original or {}, modified, current, descriptor)


def patch_type_for(kind: Kind) -> PatchType:
    """Return what the patches of :func:`three_way` are for a kind."""
    return "strategic" if kind.described else "merge"


class _Differ:
    """Walks the three documents together."""

    def objects(
        self, original: Document, modified: Document, current: Document, descriptor: Descriptor | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Diff two objects of a message, or plain maps when there is none."""
        fields = _fields(descriptor) if descriptor is not None else {}
        patch: dict[str, Any] = {}
        for name, value in modified.items():
            field = fields.get(name)
            if value is None:
                # An explicit null means: not set.
                if current.get(name) is not None:
                    patch[name] = None
                continue
            self._field(patch, name, field, original.get(name), value, current.get(name))
        for name, value in original.items():
            if value is not None and name not in modified and name in current:
                patch[name] = None
        return patch

    def _field(
        self, patch: dict[str, Any], name: str, field: _Field | None, original: Any, modified: Any, current: Any
    ) -> None:
        if isinstance(modified, dict) and isinstance(current, dict):
            self._map(patch, name, field, original, modified, current)
        elif isinstance(modified, list) and isinstance(current, list) and field is not None and field.repeated:
            if "merge" in field.strategies:
                self._merged_list(patch, name, field, original, modified, current)
            elif modified != current:
                patch[name] = modified
        elif modified != current or type(modified) is not type(current):
            patch[name] = modified

    def _map(
        self, patch: dict[str, Any], name: str, field: _Field | None, original: Any, modified: Any, current: Any
    ) -> None:
        if field is not None and "replace" in field.strategies:
            if modified != current:
                patch[name] = {**modified, "$patch": "replace"}
            return
        before = original if isinstance(original, dict) else {}
        if field is not None and field.is_map:
            below = self._entries(before, modified, current, field.message)
        else:
            below = self.objects(before, modified, current, field.message if field is not None else None)
        if not below:
            return
        if field is not None and "retainKeys" in field.strategies:
            below["$retainKeys"] = sorted(modified)
        patch[name] = below

    def _entries(
        self, original: Document, modified: Document, current: Document, message: Descriptor | None
    ) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        for key, value in modified.items():
            there = current.get(key)
            if isinstance(value, dict) and isinstance(there, dict):
                before = original.get(key)
                below = self.objects(before if isinstance(before, dict) else {}, value, there, message)
                if below:
                    patch[key] = below
            elif value != there:
                patch[key] = value
        for key in original:
            if key not in modified and key in current:
                patch[key] = None
        return patch

    # --- lists that are merged ---------------------------------------------------------------------------------------

    def _merged_list(
        self, patch: dict[str, Any], name: str, field: _Field, original: Any, modified: Any, current: Any
    ) -> None:
        before = original if isinstance(original, list) else []
        if not field.merge_key:
            self._primitives(patch, name, before, modified, current)
            return
        key = field.merge_key
        if not all(isinstance(item, dict) and item.get(key) is not None for item in [*modified, *current]):
            # Without its key no element can be paired; the server says what is wrong with the list.
            if modified != current:
                patch[name] = modified
            return
        earlier = {item[key]: item for item in before if isinstance(item, dict) and key in item}
        there = {item[key]: item for item in current}
        wanted = {item[key]: item for item in modified}
        changes: list[dict[str, Any]] = []
        for value, item in wanted.items():
            if value not in there:
                changes.append(item)
                continue
            below = self.objects(earlier.get(value, {}), item, there[value], field.message)
            if below:
                below[key] = value
                if "retainKeys" in field.strategies:
                    below["$retainKeys"] = sorted(item)
                changes.append(below)
        gone = [value for value in earlier if value not in wanted and value in there]
        changes += [{"$patch": "delete", key: value} for value in gone]
        order = list(wanted)
        if changes or not _in_order(order, list(there)):
            patch[f"$setElementOrder/{name}"] = [{key: value} for value in order]
            if changes:
                patch[name] = changes

    def _primitives(
        self, patch: dict[str, Any], name: str, original: list[Any], modified: list[Any], current: list[Any]
    ) -> None:
        added = [value for value in modified if value not in current]
        gone = [value for value in original if value not in modified and value in current]
        if gone:
            patch[f"$deleteFromPrimitiveList/{name}"] = gone
        if added:
            patch[name] = added
        if gone or added or not _in_order(modified, current):
            patch[f"$setElementOrder/{name}"] = list(modified)


def _in_order(wanted: Sequence[Any], there: Sequence[Any]) -> bool:
    """Whether the elements that both have stand in the same order."""
    known = set(wanted)
    return [value for value in there if value in known] == [value for value in wanted if value in set(there)]
