"""Every kind that the schema knows, read from the ``(wharf.kind)`` options of ``proto/``.

A :class:`Kind` says how a message class is addressed (group, version, plural resource), whether it lives in
namespaces, what can be done with it and where it is stored. Nothing else in the project lists kinds by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from wharfinger.api import types
from wharfinger.proto import options_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wharfinger.api.tables.table import Table

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class Kind:
    """How one kind is addressed, stored and shown."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    resource: str
    """Plural, as in paths; empty for kinds that only travel (Eviction, Scale, Status)."""
    namespaced: bool
    message: type[Message]
    list_message: type[Message] | None
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]
    etcd_prefix: str
    """Without a trailing slash; empty for kinds that are never stored."""
    inert: str = ""
    """What does not happen, where objects are stored and nothing acts on them yet; empty for all others."""

    @cached_property
    def api_version(self) -> str:
        """As in manifests: ``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def group_resource(self) -> str:
        """As in messages and the CLI: ``pods`` or ``deployments.apps``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def singular(self) -> str:
        """The kind in lower case, as kubectl accepts and prints it."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """What a list of them calls itself."""
        return f"{self.kind}List"

    @property
    def described(self) -> bool:
        """Whether a descriptor of ``proto/`` describes the objects: only then they have a protobuf form.

        False for the kinds that definitions of custom resources make; those travel and lie as JSON.
        """
        return True

    @property
    def partial(self) -> type[Message]:
        """The class that reads an object's metadata alone out of its bytes."""
        return types.meta.PartialObjectMetadata

    @property
    def getters(self) -> Mapping[str, Callable[[Any], str]] | None:
        """What objects can be selected by beside name and namespace; None: what :mod:`wharfinger.api.fields` says."""
        return None

    @property
    def table(self) -> Table | None:
        """The columns of the kind; None: what :mod:`wharfinger.api.tables` says."""
        return None

    @property
    def deprecation(self) -> str:
        """What users of the version are told; empty when there is nothing to say."""
        return ""

    @property
    def stored(self) -> bool:
        """Whether objects of it live in etcd."""
        return bool(self.etcd_prefix)

    def etcd_key(self, name: str, namespace: str = "") -> str:
        """Return the key of one object, as Kubernetes lays them out."""
        return f"{self.etcd_prefix}/{namespace}/{name}" if self.namespaced else f"{self.etcd_prefix}/{name}"

    def __repr__(self) -> str:
        return f"<Kind {self.api_version} {self.kind}>"


def _read(module: Any) -> Iterator[Kind]:
    messages = module.DESCRIPTOR.message_types_by_name
    for name, descriptor in messages.items():
        options = descriptor.GetOptions()
        if not options.HasExtension(options_pb2.kind):
            continue
        entry = options.Extensions[options_pb2.kind]
        yield Kind(
            group=entry.group,
            version=entry.version,
            kind=name,
            resource=entry.resource,
            namespaced=entry.namespaced,
            message=getattr(module, name),
            list_message=getattr(module, f"{name}List") if f"{name}List" in messages else None,
            short_names=tuple(entry.short_names),
            categories=tuple(entry.categories),
            verbs=tuple(entry.verbs) or (ALL_VERBS if entry.resource else ()),
            subresources=tuple(entry.subresources),
            etcd_prefix=entry.etcd_prefix,
            inert=entry.inert,
        )


if TYPE_CHECKING:
    KINDS: tuple[Kind, ...]
    """All kinds of the schema, group by group. Naming it loads every group."""

_groups: dict[tuple[str, str], tuple[Kind, ...]] = {}
_of: dict[type[Message], Kind] = {}


def _group(group: str, version: str) -> tuple[Kind, ...]:
    """Return the kinds of a group and version, loading them at first use; none when the schema has no such group."""
    known = _groups.get((group, version))
    if known is None:
        names = types.API_GROUPS.get((group, version), ())
        known = tuple(kind for name in names for kind in _read(getattr(types, name)))
        if names:
            _groups[group, version] = known
            _of.update((kind.message, kind) for kind in known)
    return known


def __getattr__(name: str) -> tuple[Kind, ...]:
    if name != "KINDS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    everything = tuple(kind for group in types.API_GROUPS for kind in _group(*group))
    globals()["KINDS"] = everything
    return everything


def by_kind(api_version: str, kind: str) -> Kind | None:
    """Find a kind as a manifest names it; None when the schema does not know it."""
    group, _, version = api_version.rpartition("/")
    return next((known for known in _group(group, version) if known.kind == kind), None)


def by_resource(group: str, version: str, resource: str) -> Kind | None:
    """Find a kind as a path names it; None when the schema does not know it."""
    if not resource:
        return None
    return next((known for known in _group(group, version) if known.resource == resource), None)


def of(message: Message | type[Message]) -> Kind:
    """Return the kind of an object or message class.

    Raises KeyError when the message is no kind (a ``PodSpec``, say).
    """
    cls = message if isinstance(message, type) else type(message)
    kind = _of.get(cls)
    if kind is None:
        if cls.DESCRIPTOR is None:  # custom: the class knows
            known: Kind = getattr(cls, "KIND")  # noqa: B009
            return known
        options: Any = cls.DESCRIPTOR.GetOptions()
        if not options.HasExtension(options_pb2.kind):
            raise KeyError(f"{cls.DESCRIPTOR.full_name} is no kind")
        entry = options.Extensions[options_pb2.kind]
        _group(entry.group, entry.version)
        kind = _of[cls]
    return kind
