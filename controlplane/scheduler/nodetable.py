"""All nodes as numpy columns, one row a node, changed row by row as events come.

Plugins read columns; nothing here decides anything. What makes it fast:

* Every resource name is interned to a row of the arrays `allocatable` and `requested` (resources x nodes), so a
  resource's amounts over all nodes lie side by side in memory.
* Sets of taints are interned: a column holds the number of the set, and a plugin looks at each *set* once.
* A label key becomes a column of interned values when a plugin first asks for it, and is kept current from then on.
  Predicates on labels are answered for each distinct value, then looked up for all nodes.
* Each change is noted in a journal as (row, aspects). Whoever has computed something from the columns remembers
  a position in it, and later computes just the rows changed since. Rows of removed nodes are used again.

Pods are counted even when their node is not known (yet): the sums are there when the node comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Aspect, Bools, Ints
from controlplane.scheduler.labelcolumn import LabelColumn
from controlplane.scheduler.observed import ObservedNode, Taint
from controlplane.scheduler.peers import Peer, PeerTable
from controlplane.scheduler.podinfo import HostPort, Usage
from controlplane.scheduler.residents import Resident, Supposition
from controlplane.scheduler.workloads import Workloads

CPU, MEMORY, PODS, STORAGE = range(4)
"""Rows of the resource arrays that always exist; pods is counted like a resource of which each pod needs one."""
_FIXED = ("cpu", "memory", "pods", "ephemeral-storage")

_JOURNAL = 8192
_PLACED = Aspect.USAGE | Aspect.PEERS
_SMALLEST = 16


class Image:
    """An image that some nodes have."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """In bytes, as the first node reported it."""
        self.rows: set[int] = set()


class NodeTable:
    """The columns and the journal of their changes."""

    def __init__(self) -> None:
        size = _SMALLEST
        self.rows: dict[str, int] = {}
        """Name of a node -> its row."""
        self.names: list[str | None] = [None] * size
        """Row -> name, None for a row that is free."""
        self.nodes: list[ObservedNode | None] = [None] * size
        self.resources: dict[str, int] = {name: index for index, name in enumerate(_FIXED)}
        """Resource name -> row of `allocatable` and `requested`."""
        self.resource_names: list[str] = list(_FIXED)
        self.alive: Bools = np.zeros(size, np.bool_)
        self.allocatable: Ints = np.zeros((len(_FIXED), size), np.int64)
        """Amounts that pods may have, resources x rows; cpu in thousandths."""
        self.requested: Ints = np.zeros((len(_FIXED), size), np.int64)
        """Sums over the pods placed."""
        self.nonzero: Ints = np.zeros((2, size), np.int64)
        """Sums of cpu and memory with the defaults for scores."""
        self.unschedulable: Bools = np.zeros(size, np.bool_)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.taints: NDArray[np.int32] = np.zeros(size, np.int32)
        """Numbers into `taint_sets`."""
        self.images: dict[str, Image] = {}
        self.images_stamp = 0
        """Changes whenever an image or a node comes or goes."""
        self.layout = 0
        """Changes when rows or resources were added, so that arrays computed before have the wrong shape."""
        self.position = 0
        """How many changes there have been."""
        self.ports: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        """(Protocol, port) -> row -> address -> how many pods claim it; the empty address means all."""
        self.placed: dict[str, Resident] = {}
        """Key of a pod -> where it counts, and as what."""
        self.importance_stamp = 0
        """Changes when a pod that stays where it is has become more or less important."""
        self.geography = 0
        """Changes when nodes come or go, or their labels or taints change."""
        self.basis = 0
        """Changes when something comes on which a preparation may rest (see Plugin.basis)."""
        self.namespaces: dict[str, dict[str, str]] = {}
        """Name of a namespace -> its labels."""
        self.peers = PeerTable(self)
        self.workloads = Workloads()
        self.nobody = Peer()
        """What pods count as of which nothing is said."""
        self._priorities: Counter[int] = Counter()
        self._quiet = False
        self.touched: Ints = np.zeros(size, np.int64)
        """Position of the latest change of each row."""
        self.born: Ints = np.zeros(size, np.int64)
        """Position at which each row was given to its present node."""
        self._by_node: dict[str, dict[str, Resident]] = {}
        self._changed_rows: list[int] = []
        self._changed_aspects: list[int] = []
        self._free: list[int] = list(range(size - 1, -1, -1))
        self._taint_numbers: dict[tuple[Taint, ...], int] = {(): 0}
        self._labels: dict[str, LabelColumn] = {}
        self._vectors: dict[int, tuple[Usage, int, Ints]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """How many rows the columns have, free ones included."""
        return len(self.names)

    def lowest_priority(self) -> int:
        """Return the lowest priority of a placed pod; something very high when there is none."""
        return min(self._priorities, default=2**31)

    def pods_on(self, node: str) -> dict[str, Resident]:
        """Return the pods placed on a node (known or not) by key."""
        return self._by_node.get(node, {})

    # -- changes of nodes ------------------------------------------------------------------------------------------

    def set_node(self, node: ObservedNode) -> int:
        """Add a node or take over what is new of it; returns what changed (nothing for a mere heartbeat)."""
        name = node.name
        row = self.rows.get(name)
        changed = 0
        if row is None:
            row = self._new_row(name)
            changed |= Aspect.EXISTENCE
        old = self.nodes[row]
        self.nodes[row] = node
        changed |= self._set_allocatable(row, node)
        changed |= self._set_taints(row, node)
        if old is None or old.labels != node.labels:
            for key, column in self._labels.items():
                column.ids[row] = column.number(node.labels.get(key))
            changed |= Aspect.LABELS
        if (old.images if old else ()) != node.images:
            self._forget_images(row, old)
            self._note_images(row, node)
            changed |= Aspect.IMAGES
        if changed:
            if changed & (Aspect.LABELS | Aspect.TAINTS | Aspect.EXISTENCE):
                self.geography += 1
            self._note(row, changed)
        return changed

    def remove_node(self, name: str) -> bool:
        """Forget a node; its pods stay counted for when it comes back."""
        row = self.rows.pop(name, None)
        if row is None:
            return False
        self._forget_images(row, self.nodes[row])
        self.images_stamp += 1
        self._claim_ports(row, (resident.usage for resident in self.pods_on(name).values()), -1)
        self.peers.row_removed(row)
        self.geography += 1
        self.names[row] = None
        self.nodes[row] = None
        self.alive[row] = False
        self.allocatable[:, row] = 0
        self.requested[:, row] = 0
        self.nonzero[:, row] = 0
        self.unschedulable[row] = False
        self.taints[row] = 0
        for column in self._labels.values():
            column.ids[row] = 0
        self._free.append(row)
        self._note(row, Aspect.EXISTENCE)
        return True

    def _new_row(self, name: str) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.rows[name] = row
        self.names[row] = name
        self.alive[row] = True
        self.born[row] = self.position + 1
        self.images_stamp += 1
        placed = self.pods_on(name)
        self.geography += 1
        for resident in placed.values():
            self._count(row, resident.usage, 1)
        self._claim_ports(row, (resident.usage for resident in placed.values()), 1)
        self.peers.row_added(row, (resident.peer for resident in placed.values()))
        return row

    def _grow(self) -> None:
        old = self.size
        more = max(_SMALLEST, old // 4)
        self.names += [None] * more
        self.nodes += [None] * more
        self.alive = np.concatenate((self.alive, np.zeros(more, np.bool_)))
        self.unschedulable = np.concatenate((self.unschedulable, np.zeros(more, np.bool_)))
        self.taints = np.concatenate((self.taints, np.zeros(more, np.int32)))
        self.allocatable = np.concatenate((self.allocatable, np.zeros((len(self.resources), more), np.int64)), axis=1)
        self.requested = np.concatenate((self.requested, np.zeros((len(self.resources), more), np.int64)), axis=1)
        self.nonzero = np.concatenate((self.nonzero, np.zeros((2, more), np.int64)), axis=1)
        self.touched = np.concatenate((self.touched, np.zeros(more, np.int64)))
        self.born = np.concatenate((self.born, np.zeros(more, np.int64)))
        for column in self._labels.values():
            column.ids = np.concatenate((column.ids, np.zeros(more, np.int32)))
        self.peers.grown(more)
        self._free = list(range(old + more - 1, old - 1, -1))
        self.layout += 1

    def _set_allocatable(self, row: int, node: ObservedNode) -> int:
        numbers = [self.resource(name) for name in node.allocatable]
        values = np.zeros(len(self.resources), np.int64)
        values[numbers] = list(node.allocatable.values())
        if (values == self.allocatable[:, row]).all():
            return 0
        self.allocatable[:, row] = values
        return Aspect.ALLOCATABLE

    def _set_taints(self, row: int, node: ObservedNode) -> int:
        number = self._taint_numbers.get(node.taints)
        if number is None:
            number = self._taint_numbers[node.taints] = len(self.taint_sets)
            self.taint_sets.append(node.taints)
        cordoned = node.unschedulable
        if self.taints[row] == number and self.unschedulable[row] == cordoned:
            return 0
        self.taints[row] = number
        self.unschedulable[row] = cordoned
        return Aspect.TAINTS

    def _note_images(self, row: int, node: ObservedNode) -> None:
        for name, size in node.images:
            image = self.images.get(name)
            if image is None:
                image = self.images[name] = Image(size)
            image.rows.add(row)
        self.images_stamp += 1

    def _forget_images(self, row: int, node: ObservedNode | None) -> None:
        for name, _ in node.images if node else ():
            image = self.images.get(name)
            if image is not None:
                image.rows.discard(row)
                if not image.rows:
                    del self.images[name]

    def resource(self, name: str) -> int:
        """Return the row of a resource in the arrays, a new one if need be."""
        number = self.resources.get(name)
        if number is None:
            number = self.resources[name] = len(self.resource_names)
            self.resource_names.append(name)
            empty = np.zeros((1, self.size), np.int64)
            self.allocatable = np.concatenate((self.allocatable, empty))
            self.requested = np.concatenate((self.requested, empty))
            self.layout += 1
        return number

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label; it is kept current from now on."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(key, self.size)
            for row in self.rows.values():
                node = self.nodes[row]
                if node is not None:
                    column.ids[row] = column.number(node.labels.get(key))
        return column

    # -- changes of pods -------------------------------------------------------------------------------------------

    def place(
        self, key: str, node: str, usage: Usage, peer: Peer | None = None, *, priority: int = 0, started: float = 0.0,
        leaving: bool = False,
    ) -> bool:  # fmt: skip
        """Count a pod on a node, moving it there if it was elsewhere; returns whether anything changed."""
        peer = peer or self.nobody
        before = self.placed.get(key)
        if before is not None:
            if (
                before.node == node
                and (before.usage is usage or before.usage.key == usage.key)
                and (before.peer is peer or before.peer.key == peer.key)
            ):
                if (before.priority, before.started) != (priority, started):
                    self.importance_stamp += 1
                if before.priority != priority:
                    self._count_priority(before.priority, -1)
                    self._count_priority(priority, 1)
                before.priority, before.started, before.leaving = priority, started, leaving
                return False
            self.remove(key)
        self.put(key, Resident(node, usage, peer, priority=priority, started=started, leaving=leaving))
        return True

    def put(self, key: str, resident: Resident) -> None:
        """Count a pod that is not counted yet."""
        node, usage = resident.node, resident.usage
        self.placed[key] = resident
        self._count_priority(resident.priority, 1)
        self._by_node.setdefault(node, {})[key] = resident
        row = self.rows.get(node)
        self.peers.count(resident.peer, node, row, 1)
        if row is not None:
            self._count(row, usage, 1)
            if usage.ports:
                self._claim_ports(row, (usage,), 1)
            self._note(row, _PLACED)

    def remove(self, key: str) -> str | None:
        """No longer count a pod; returns the node that it was on."""
        before = self.placed.pop(key, None)
        if before is None:
            return None
        self._count_priority(before.priority, -1)
        node, usage = before.node, before.usage
        others = self._by_node[node]
        del others[key]
        if not others:
            del self._by_node[node]
        row = self.rows.get(node)
        self.peers.count(before.peer, node, row, -1)
        if row is not None:
            self._count(row, usage, -1)
            if usage.ports:
                self._claim_ports(row, (usage,), -1)
            self._note(row, _PLACED)
        return node

    def _count_priority(self, priority: int, sign: int) -> None:
        count = self._priorities[priority] = self._priorities[priority] + sign
        if not count:
            del self._priorities[priority]

    @contextmanager
    def supposing(self) -> Iterator[Supposition]:
        """Suppose that pods were or were not there; when the block ends, all is as before, and nothing was noted."""
        supposition = Supposition(self)
        self._quiet = True
        try:
            yield supposition
        finally:
            supposition.undo()
            self._quiet = False

    def set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """Take in a namespace's labels; None when it is gone."""
        if self.namespaces.get(name) == labels:
            return
        known = name in self.namespaces
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        if known or self.peers.in_namespace(name):
            self.peers.weigh_anew()
        self.basis += 1

    def vector(self, usage: Usage) -> Ints:
        """Return the amounts of a usage as a column for `requested`, one pod included."""
        entry = self._vectors.get(id(usage))
        if entry is not None and entry[0] is usage and entry[1] == len(self.resources):
            return entry[2]
        numbers = [self.resource(name) for name in usage.amounts]
        vector = np.zeros(len(self.resources), np.int64)
        vector[numbers] = list(usage.amounts.values())
        vector[PODS] = 1
        if len(self._vectors) > 1024:
            self._vectors.clear()
        self._vectors[id(usage)] = (usage, len(self.resources), vector)
        return vector

    def _count(self, row: int, usage: Usage, sign: int) -> None:
        vector = self.vector(usage)
        if sign > 0:
            self.requested[:, row] += vector
        else:
            self.requested[:, row] -= vector
        self.nonzero[0, row] += sign * usage.nonzero_cpu
        self.nonzero[1, row] += sign * usage.nonzero_memory

    def _claim_ports(self, row: int, usages: Iterable[Usage], sign: int) -> None:
        for usage in usages:
            for port in usage.ports:
                claimed = self.ports.setdefault((port.protocol, port.port), {})
                addresses = claimed.setdefault(row, {})
                count = addresses.get(port.address, 0) + sign
                if count:
                    addresses[port.address] = count
                    continue
                del addresses[port.address]
                if not addresses:
                    del claimed[row]
                if not claimed:
                    del self.ports[port.protocol, port.port]

    def clashing(self, row: int, port: HostPort) -> list[str]:
        """Return the addresses on which others have claimed the port on the node of a row."""
        addresses = self.ports.get((port.protocol, port.port), {}).get(row, {})
        return [other for other in addresses if not other or not port.address or other == port.address]

    # -- journal ---------------------------------------------------------------------------------------------------

    def _note(self, row: int, aspects: int) -> None:
        if self._quiet:
            return
        self._changed_rows.append(row)
        self._changed_aspects.append(aspects)
        self.position += 1
        self.touched[row] = self.position
        if len(self._changed_rows) > 2 * _JOURNAL:
            del self._changed_rows[:-_JOURNAL]
            del self._changed_aspects[:-_JOURNAL]

    def changes_since(self, position: int) -> tuple[list[int], int] | None:
        """Return the rows changed after a position (some perhaps twice), and all that changed in any of them.

        None when the changes are no longer known.
        """
        count = self.position - position
        begin = len(self._changed_rows) - count
        if begin < 0:
            return None
        aspects = 0
        for changed in set(self._changed_aspects[begin:]):
            aspects |= changed
        return self._changed_rows[begin:], aspects
