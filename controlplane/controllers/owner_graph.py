"""Who owns whom, over all objects of all kinds: a pure graph of metadata.

Every object is a vertex, known by its uid. An owner that is named by a dependent but was not seen itself is *virtual*
until the watch shows it or a live read proves that it does not exist; nothing is ever deleted because of what the
graph alone says. Source: "Garbage Collection" and "Owners and Dependents" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Literal

from wharfinger.api.kinds import Kind

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

Policy = Literal["Background", "Foreground", "Orphan"]
Task = tuple[Literal["check", "orphan"], str]
"""What needs a look, and the uid it concerns."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool
    """blockOwnerDeletion."""


class Vertex:
    """One object, with as little memory as it takes.

    It also looks like an API object to an informer, which reads the fields of ``metadata``; hence their spelling.
    """

    __slots__ = (
        "deleting", "dependents", "finalizers", "kind", "name", "namespace", "owners", "resourceVersion", "uid",
        "virtual",
    )  # fmt: skip

    def __init__(
        self,
        *,
        kind: Kind | None,
        namespace: str,
        name: str,
        uid: str,
        version: str = "",
        owners: tuple[Owner, ...] = (),
        finalizers: tuple[str, ...] = (),
        deleting: bool = False,
        virtual: bool = False,
    ) -> None:
        self.kind = kind
        """None for the owner of a kind that is not known."""
        self.namespace = intern(namespace)
        self.name = name
        self.uid = uid
        self.resourceVersion = version
        self.owners = owners
        self.finalizers = finalizers
        self.deleting = deleting
        self.virtual = virtual
        self.dependents: set[str] | None = None

    @property
    def metadata(self) -> Vertex:
        """Itself: where an API object has its metadata."""
        return self

    @property
    def deleting_dependents(self) -> bool:
        """Whether it waits for its dependents to go (foreground deletion)."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphaning(self) -> bool:
        """Whether it waits for its dependents to be released."""
        return self.deleting and ORPHAN in self.finalizers

    def __repr__(self) -> str:
        kind = self.kind.group_resource if self.kind else "?"
        return f"<{'virtual ' if self.virtual else ''}{kind} {self.namespace}/{self.name} {self.uid}>"


def vertex_of(kind: Kind, obj: Any) -> Vertex:
    """Make a vertex of anything that has metadata."""
    metadata = obj.metadata
    return Vertex(
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resourceVersion,
        owners=owners_of(metadata),
        finalizers=tuple(intern(item) for item in metadata.finalizers),
        deleting=metadata.HasField("deletionTimestamp"),
    )


def owners_of(metadata: Any) -> tuple[Owner, ...]:
    """Return an object's owner references."""
    return tuple(
        Owner(intern(ref.apiVersion), intern(ref.kind), ref.name, ref.uid, ref.blockOwnerDeletion)
        for ref in metadata.ownerReferences
    )


@dataclass(slots=True)
class OwnerGraph:
    """See the module. Each change returns the tasks that follow from it."""

    resolve: Any
    """Maps (apiVersion, kind) to a Kind or None."""
    vertices: dict[str, Vertex] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.vertices)

    def get(self, uid: str) -> Vertex | None:
        """Return a vertex."""
        return self.vertices.get(uid)

    def dependents(self, vertex: Vertex) -> list[Vertex]:
        """Return those that name a vertex as an owner."""
        return [self.vertices[uid] for uid in vertex.dependents or () if uid in self.vertices]

    def blocking(self, vertex: Vertex) -> list[Vertex]:
        """Return the dependents that a foreground deletion waits for."""
        return [
            dependent
            for dependent in self.dependents(vertex)
            if any(owner.uid == vertex.uid and owner.blocks for owner in dependent.owners)
        ]

    def observe(self, vertex: Vertex) -> list[Task]:
        """Take in an object as the watch shows it."""
        old = self.vertices.get(vertex.uid)
        self.vertices[vertex.uid] = vertex
        tasks: list[Task] = []
        if old is not None:
            vertex.dependents = old.dependents
        before = () if old is None or old.virtual else old.owners
        tasks += self._link(vertex, [owner for owner in vertex.owners if owner not in before])
        tasks += self._unlink(vertex, before)
        if old is not None and old.virtual and _place(old) != _place(vertex):
            # Whoever named it elsewhere named something that is not there.
            tasks += [("check", uid) for uid in vertex.dependents or ()]
        if vertex.orphaning and not (old is not None and old.orphaning):
            tasks.append(("orphan", vertex.uid))
        if vertex.deleting_dependents and not (old is not None and old.deleting_dependents):
            tasks += [("check", uid) for uid in vertex.dependents or ()]
            tasks.append(("check", vertex.uid))
        return tasks

    def remove(self, uid: str) -> list[Task]:
        """Take in that an object is gone, or that a virtual one does not exist."""
        vertex = self.vertices.pop(uid, None)
        if vertex is None:
            return []
        tasks: list[Task] = [("check", dependent) for dependent in vertex.dependents or ()]
        return tasks + self._leave(vertex, vertex.owners)

    def resolve_again(self) -> list[Task]:
        """Look at owners once more whose kinds were not known: they may be served by now."""
        tasks: list[Task] = []
        for vertex in self.vertices.values():
            if not vertex.virtual or vertex.kind is not None:
                continue
            for uid in vertex.dependents or ():
                dependent = self.vertices.get(uid)
                for reference in dependent.owners if dependent is not None else ():
                    if reference.uid == vertex.uid and vertex.kind is None:
                        vertex.kind = self.resolve(reference.api_version, reference.kind)
                        if vertex.kind is not None and not vertex.kind.namespaced:
                            vertex.namespace = ""
                tasks.append(("check", uid))
            if vertex.kind is not None:
                tasks.append(("check", vertex.uid))
        return tasks

    def _link(self, vertex: Vertex, owners: Iterable[Owner]) -> list[Task]:
        tasks: list[Task] = []
        for reference in owners:
            owner = self.vertices.get(reference.uid)
            if owner is None:
                kind = self.resolve(reference.api_version, reference.kind)
                namespace = vertex.namespace if kind is None or kind.namespaced else ""
                owner = Vertex(kind=kind, namespace=namespace, name=reference.name, uid=reference.uid, virtual=True)
                self.vertices[reference.uid] = owner
                tasks.append(("check", owner.uid))
            elif not self._names(vertex, reference, owner) or owner.deleting_dependents:
                tasks.append(("check", vertex.uid))
            if owner.dependents is None:
                owner.dependents = set()
            owner.dependents.add(vertex.uid)
        return tasks

    def _names(self, vertex: Vertex, reference: Owner, owner: Vertex) -> bool:
        """Whether a reference leads to the owner that has its uid."""
        kind = self.resolve(reference.api_version, reference.kind)
        if kind is None or owner.kind is None:
            return True
        namespace = vertex.namespace if kind.namespaced else ""
        return bool((kind.group_resource, namespace, reference.name) == _place(owner))

    def _unlink(self, vertex: Vertex, before: Sequence[Owner]) -> list[Task]:
        """Leave the owners that are no longer named; those that are no longer blocked may go on."""
        now = {owner.uid for owner in vertex.owners}
        tasks = self._leave(vertex, [owner for owner in before if owner.uid not in now])
        blocked = {owner.uid for owner in vertex.owners if owner.blocks}
        for reference in before:
            owner = self.vertices.get(reference.uid)
            unblocked = reference.blocks and reference.uid in now and reference.uid not in blocked
            if unblocked and owner is not None and owner.deleting_dependents:
                tasks.append(("check", owner.uid))
        return tasks

    def _leave(self, vertex: Vertex, owners: Iterable[Owner]) -> list[Task]:
        tasks: list[Task] = []
        for reference in owners:
            owner = self.vertices.get(reference.uid)
            if owner is None:
                continue
            if owner.dependents is not None:
                owner.dependents.discard(vertex.uid)
                if not owner.dependents:
                    owner.dependents = None
            if owner.deleting_dependents:
                tasks.append(("check", owner.uid))
            if owner.virtual and owner.dependents is None:
                del self.vertices[owner.uid]  # nobody names it any more
        return tasks


def _place(vertex: Vertex) -> tuple[str, str, str]:
    return (vertex.kind.group_resource if vertex.kind else "", vertex.namespace, vertex.name)


# --- decisions

OwnerState = Literal["solid", "gone", "waiting", "unknown"]
"""Solid: there. Gone: proven absent. Waiting: it deletes its dependents first. Unknown: cannot be looked up."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with one object, and why."""

    action: Literal["keep", "drop references", "delete", "unblock and delete"]
    reason: str
    owners: tuple[str, ...] = ()
    """The uids of the references to drop."""
    policy: Policy = "Background"


def decide(live: Vertex, states: dict[str, OwnerState], *, has_dependents: bool, in_a_circle: bool) -> Decision:
    """Decide about an object that is not itself waiting for dependents.

    `live` is its metadata read afresh, `states` tells of each of its owners, `in_a_circle` that a dependent of it
    waits for its own dependents too: two that wait for each other would wait for ever.
    """
    if not live.owners:
        return Decision("keep", "it has no owners")
    if any(state == "unknown" for state in states.values()):
        return Decision("keep", "an owner cannot be looked up")
    solid = [owner.uid for owner in live.owners if states[owner.uid] == "solid"]
    others = tuple(owner.uid for owner in live.owners if states[owner.uid] != "solid")
    if solid:
        if not others:
            return Decision("keep", "its owners are there")
        return Decision("drop references", "it has another owner that stays", owners=others)
    if has_dependents and any(state == "waiting" for state in states.values()):
        reason = "an owner waits for it, and it has dependents of its own"
        return Decision("unblock and delete" if in_a_circle else "delete", reason, policy="Foreground")
    policy: Policy = "Background"
    if ORPHAN in live.finalizers:
        policy = "Orphan"
    elif FOREGROUND in live.finalizers:
        policy = "Foreground"
    return Decision("delete", "all of its owners are gone or going", policy=policy)
