"""The entries of ``metadata.managedFields``: read, changed by writes and applies, written.

An entry belongs to a manager by name, operation, version and subresource. An update takes the fields that it changes
from everybody else. An apply may only take them by force: otherwise it is a conflict with each owner. What a manager
applied before and does not apply any more is removed unless somebody else owns it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from wharfinger.api import codec, kinds, times
from wharfinger.api.codec.selfcoded import SelfCoded
from wharfinger.api.errors import BadRequestError, ConflictError, StatusError
from wharfinger.api.ownership import fields, merging
from wharfinger.api.ownership.fields import EMPTY, Fields, Path, Type
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Iterable

BEFORE = "before-first-apply"
UNNAMED = "unknown"
_APPLY, _UPDATE = "Apply", "Update"
_NOBODYS = frozenset({
    ("f:apiVersion",), ("f:kind",), ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
        "deletionTimestamp", "deletionGracePeriodSeconds",
    )),
})  # fmt: skip
"""Fields that nobody owns: the server sets them, or they are the object's name."""


class Manager(NamedTuple):
    """Whose an entry is."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


@dataclass
class Managed:
    """All entries of an object."""

    owned: dict[Manager, Fields] = field(default_factory=dict)
    when: dict[Manager, meta.Time] = field(default_factory=dict)

    @classmethod
    def read(cls, entries: Iterable[meta.ManagedFieldsEntry]) -> Managed:
        """Read entries. Raises ValueError when one is not understood."""
        made = cls()
        for entry in entries:
            if entry.fieldsType != "FieldsV1" or entry.operation not in (_APPLY, _UPDATE):
                raise ValueError(f"an entry of type {entry.fieldsType!r} for {entry.operation!r}")
            manager = Manager(entry.manager, entry.operation, entry.apiVersion, entry.subresource)
            owned = fields.from_json(json.loads(entry.fieldsV1.raw or b"{}"))
            made.owned[manager] = made.owned.get(manager, EMPTY) | owned
            if entry.HasField("time"):
                made.when[manager] = entry.time
        return made

    def write(self, metadata: meta.ObjectMeta) -> None:
        """Write the entries into an object's metadata, in Kubernetes' order."""
        del metadata.managedFields[:]
        zero = meta.Time()

        def order(manager: Manager) -> tuple[str, int, str]:
            return manager.operation, self.when.get(manager, zero).seconds, manager.name

        for manager in sorted(self.owned, key=order):
            entry = metadata.managedFields.add(
                manager=manager.name,
                operation=manager.operation,
                apiVersion=manager.api_version,
                fieldsType="FieldsV1",
                subresource=manager.subresource,
            )
            if manager in self.when:
                entry.time.CopyFrom(self.when[manager])
            text = json.dumps(fields.to_json(self.owned[manager]), separators=(",", ":"), ensure_ascii=False)
            entry.fieldsV1.raw = text.encode()

    def give_up(self, manager: Manager, lost: Iterable[Path]) -> None:
        """Take fields from a manager; one that has none left is forgotten."""
        left = self.owned[manager].difference(lost)
        if left:
            self.owned[manager] = left
        else:
            self.forget(manager)

    def forget(self, manager: Manager) -> None:
        """Drop a manager."""
        self.owned.pop(manager, None)
        self.when.pop(manager, None)


def is_tracked(metadata: meta.ObjectMeta) -> bool:
    """Whether the fields of an object have owners."""
    return bool(metadata.managedFields)


def _type_of(message: Any) -> Type:
    """Return what an object (or its class) is as far as ownership goes."""
    if isinstance(message, SelfCoded) or (isinstance(message, type) and issubclass(message, SelfCoded)):
        return message.field_type()
    return Type("object", message.DESCRIPTOR)


def _plain(message: Any) -> dict[str, Any]:
    """Return an object as plain values without what nobody owns."""
    value: dict[str, Any] = codec.to_json(message)
    value["metadata"] = {
        name: item for name, item in value["metadata"].items() if ("f:metadata", f"f:{name}") not in _NOBODYS
    }
    value.pop("apiVersion", None)
    value.pop("kind", None)
    return value


def _own(found: Iterable[Path], subresource: str, kind: kinds.Kind) -> Fields:
    """Return the fields that a writer of a subresource can own."""
    kept = frozenset(found) - _NOBODYS
    if not (subresource or "status" in kind.subresources):
        return kept
    if subresource == "status":
        return frozenset(path for path in kept if path[0] in ("f:status", "f:metadata"))
    return frozenset(path for path in kept if path[0] != "f:status")


def created(obj: Any, manager: str, api_version: str) -> None:
    """Note that `manager` made all of a new object."""
    blank = _plain(type(obj)())
    found = fields.compare(blank, _plain(obj), _type_of(obj))
    managed = Managed()
    _take(managed, Manager(manager, _UPDATE, api_version), _own(found.added | found.changed, "", kinds.of(obj)))
    managed.write(obj.metadata)


def _take(managed: Managed, manager: Manager, owned: Fields) -> None:
    if owned:
        managed.owned[manager] = managed.owned.get(manager, EMPTY) | owned
        managed.when[manager] = times.now()


def updated(new: Any, old: Any, manager: str, api_version: str, subresource: str) -> None:
    """Note an update that is no apply; `new` carries the entries that its writer sent, and gets the right ones."""
    sent = new.metadata.managedFields
    if len(sent) == 1 and not sent[0].ListFields():
        del sent[:]  # a single empty entry asks for a reset
        return
    managed = _sent_or_stored(sent, old.metadata.managedFields, trusted=not subresource)
    if not managed.owned:
        del sent[:]
        return
    found = fields.compare(_plain(old), _plain(new), _type_of(new))
    mine = Manager(manager or UNNAMED, _UPDATE, api_version, subresource)
    touched = found.added | found.changed
    for other in list(managed.owned):
        lost = found.removed if other == mine else touched | found.removed
        managed.give_up(other, lost)
    _take(managed, mine, _own(touched, subresource, kinds.of(new)))
    managed.write(new.metadata)


def _sent_or_stored(sent: Any, stored: Any, *, trusted: bool) -> Managed:
    """Return the entries that a writer sent, or the stored ones when it sent none that can be read."""
    for entries in (sent, stored) if trusted else (stored,):
        try:
            managed = Managed.read(entries)
        except ValueError:
            continue
        if managed.owned:
            return managed
    return Managed()


@dataclass(frozen=True)
class Applied:
    """A configuration that somebody applies."""

    config: dict[str, Any]
    manager: str
    force: bool = False
    subresource: str = ""

    def check(self, kind: kinds.Kind) -> None:
        """Check that the configuration is one for the kind. Raises BadRequestError."""
        for name, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
            if self.config.get(name) != wanted:
                raise BadRequestError(f"{name}: {self.config.get(name)!r} was applied, but {wanted!r} is wanted here")
        metadata = self.config.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise BadRequestError("metadata: must be an object")
        if metadata.get("managedFields"):
            raise BadRequestError("metadata.managedFields must be nil")


def apply(applied: Applied, old: Any, message_class: Any) -> Any:
    """Return the object that an apply makes of the stored one (None: of nothing), with its entries.

    Raises ConflictError with a cause for each field that another manager owns, StatusError (500) for a configuration
    that does not fit the schema, BadRequestError for values of the wrong type.
    """
    kind = kinds.of(message_class)
    at = _type_of(message_class)
    mine = Manager(applied.manager, _APPLY, kind.api_version, applied.subresource)
    wanted = _own(fields.of_value(applied.config, at), applied.subresource, kind)
    live: dict[str, Any] = codec.to_json(old) if old is not None else {}
    live.get("metadata", {}).pop("managedFields", None)
    managed = _tracked(old, kind.api_version)
    last = managed.owned.get(mine, EMPTY)
    merged = merging.merge(live, applied.config, at)
    others = [owned for manager, owned in managed.owned.items() if manager != mine]
    kept = fields.with_parents(path for owned in (wanted, *others) for path in owned)
    gone = {path for path in last if path not in kept}
    if gone:
        merged = merging.remove(merged, gone, at) or {}
    found = fields.compare(live, merged, at)
    _settle(managed, mine, found, force=applied.force)
    if wanted:
        managed.owned[mine] = wanted
        if found.added or found.changed or found.removed or not live:
            managed.when[mine] = times.now()
    else:
        managed.forget(mine)
    made: Any = codec.from_json(merged, message_class, validation="Ignore").message
    managed.write(made.metadata)
    return made


def _tracked(old: Any, api_version: str) -> Managed:
    """Return the entries of a stored object; one without any is owned by whoever wrote it before the first apply."""
    if old is None:
        return Managed()
    try:
        managed = Managed.read(old.metadata.managedFields)
    except ValueError:
        managed = Managed()
    if not managed.owned:
        found = fields.compare(_plain(type(old)()), _plain(old), _type_of(old))
        _take(managed, Manager(BEFORE, _UPDATE, api_version), _own(found.added | found.changed, "", kinds.of(old)))
    return managed


def _settle(managed: Managed, mine: Manager, found: fields.Difference, *, force: bool) -> None:
    """Take what an apply changes from its owners, or refuse it."""
    touched = found.added | found.changed
    conflicts = [
        (other, path) for other in managed.owned if other != mine for path in sorted(managed.owned[other] & touched)
    ]
    if conflicts and not force:
        raise FieldConflictError(conflicts)
    for other in list(managed.owned):
        if other != mine:
            managed.give_up(other, touched | found.removed)


class FieldConflictError(ConflictError):
    """Raised when an apply would change what others own; a cause for each field and owner."""

    def __init__(self, conflicts: list[tuple[Manager, Path]]) -> None:
        fields_of: dict[str, list[str]] = {}
        for manager, path in conflicts:
            fields_of.setdefault(manager.name, []).append(_show(path))
        listed = "; ".join(f'conflict with "{name}" on {", ".join(found)}' for name, found in sorted(fields_of.items()))
        super().__init__(
            f"Apply failed with {len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}: {listed}. "
            "Leave these fields out, give them the values they have, or take them over with force"
        )
        self.conflicts = conflicts

    def to_status(self) -> meta.Status:
        """Return the Status with the causes that clients list."""
        status = super().to_status()
        for manager, path in self.conflicts:
            by = f'"{manager.name}"'
            if manager.operation == _UPDATE:
                by += f" using {manager.api_version}"
            status.details.causes.add(reason="FieldManagerConflict", message=f"conflict with {by}", field=_show(path))
        return status


def _show(path: Path) -> str:
    """Write a path as Kubernetes does: ``.spec.ports[port=80,protocol="TCP"].name``."""
    parts = []
    for element in path:
        mark, rest = element[:2], element[2:]
        if mark == "f:":
            parts.append(f".{rest}")
        elif mark == "k:":
            keys = ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(rest).items())
            parts.append(f"[{keys}]")
        else:
            parts.append(f"[={rest}]")
    return "".join(parts)


__all__ = ["Applied", "FieldConflictError", "StatusError", "apply", "created", "is_tracked", "updated"]
