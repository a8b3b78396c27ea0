"""Pods as other pods see them: labels, namespace, and terms about each other; and how many of which are where.

Affinity and spreading ask the same question again and again: how many pods of some description are in each topology
domain? Here it is answered without ever looking at the pods one by one:

* :class:`Peer` stands for all placed pods that are alike to others (namespace, labels, affinity terms). Pods of one
  template share it; it knows how many of them each node has.
* :class:`Tally` is a description, as a weight for each peer, and its sum over each node's pods. When a peer first
  appears, every tally weighs it once; from then on a placement adds the weight to one row.
* :class:`Domains` adds up a tally by the values of a node label, and follows it number by number. Only when nodes or
  their labels change is it added up anew.

So a placement costs one addition for each description that it falls under, whatever the number of pods and nodes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import Bools, Ints
from wharfinger.api import labels
from wharfinger.api.types import core, meta

if TYPE_CHECKING:
    from controlplane.scheduler.labelcolumn import LabelColumn
    from controlplane.scheduler.nodetable import NodeTable

INSTANCE_LABELS = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
    }
)
"""Labels that make each pod of a workload differ; they count only once a selector names them."""

_IDLE = 1024


@dataclass(frozen=True, slots=True)
class Term:
    """An affinity term: which pods, and what a domain is."""

    key: str
    """The topology key."""
    selector: labels.Selector
    namespaces: frozenset[str]
    namespace_selector: labels.Selector

    def matches(self, namespace: str, pod_labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod is meant."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(pod_labels)

    def matches_peer(self, peer: Peer, table: NodeTable) -> bool:
        """Whether pods of a kind are meant."""
        return self.matches(peer.namespace, peer.labels, table.namespaces.get(peer.namespace, {}))


Weighted = tuple[tuple[Term, int], ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """All terms of a pod about others; preferred ones with their weight, negative for anti-affinity."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: Weighted = ()

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.preferred)

    def all(self) -> Iterable[Term]:
        """Return every term."""
        yield from self.affinity
        yield from self.anti_affinity
        yield from (term for term, _ in self.preferred)


NO_TERMS = Terms()


def selector_of(message: meta.LabelSelector | None, extra: Iterable[labels.Requirement] = ()) -> labels.Selector:
    """Read a selector, None selecting nothing, with requirements added. Raises ValueError when it is malformed."""
    selector = labels.from_label_selector(message)
    more = tuple(requirement for requirement in extra if requirement not in selector.requirements)
    return labels.Selector((*selector.requirements, *more), selector.nothing) if more else selector


def _term(pod: core.Pod, term: core.PodAffinityTerm) -> Term:
    own = pod.metadata.labels
    extra = [labels.Requirement(key, "In", frozenset((own[key],))) for key in term.matchLabelKeys if key in own]
    extra += [labels.Requirement(key, "NotIn", frozenset((own[key],))) for key in term.mismatchLabelKeys if key in own]
    by_namespace = term.HasField("namespaceSelector")
    return Term(
        key=term.topologyKey,
        selector=selector_of(term.labelSelector if term.HasField("labelSelector") else None, extra),
        namespaces=frozenset(term.namespaces if term.namespaces or by_namespace else (pod.metadata.namespace,)),
        namespace_selector=labels.from_label_selector(term.namespaceSelector if by_namespace else None),
    )


def terms_of(pod: core.Pod) -> Terms:
    """Read the terms of a pod; label keys to be matched are merged into the selectors as the apiserver would.

    Raises ValueError for a malformed selector.
    """
    if not pod.spec.HasField("affinity"):
        return NO_TERMS
    affinity, anti = pod.spec.affinity.podAffinity, pod.spec.affinity.podAntiAffinity
    return Terms(
        affinity=tuple(_term(pod, term) for term in affinity.requiredDuringSchedulingIgnoredDuringExecution),
        anti_affinity=tuple(_term(pod, term) for term in anti.requiredDuringSchedulingIgnoredDuringExecution),
        preferred=tuple(
            (_term(pod, weighted.podAffinityTerm), sign * weighted.weight)
            for group, sign in ((affinity, 1), (anti, -1))
            for weighted in group.preferredDuringSchedulingIgnoredDuringExecution
            if weighted.weight
        ),
    )


class Peer:
    """All placed pods that are alike in what others can see of them."""

    __slots__ = ("active", "key", "labels", "namespace", "nodes", "placed", "subscribers", "terminating", "terms")

    def __init__(
        self,
        key: Hashable = None,
        *,
        namespace: str = "",
        pod_labels: Mapping[str, str] | None = None,
        terms: Terms = NO_TERMS,
        terminating: bool = False,
    ) -> None:
        self.key = key
        self.namespace = namespace
        self.labels = dict(pod_labels or {})
        self.terms = terms
        self.terminating = terminating
        self.placed = 0
        self.nodes: dict[str, int] = {}
        """Name of a node, known or not -> how many of them are there."""
        self.subscribers: list[tuple[weakref.ref[Tally], int]] = []
        self.active = False


class Tally:
    """The sum of a weight over the pods of each node."""

    __slots__ = ("__weakref__", "_domains", "counts", "stamp", "weigh")

    def __init__(self, weigh: Callable[[Peer], int], size: int) -> None:
        self.weigh = weigh
        self.counts: Ints = np.zeros(size, np.int64)
        """By row."""
        self.stamp = 0
        """Changes with each placement that is counted."""
        self._domains: list[weakref.ref[Domains]] = []

    def add(self, row: int, amount: int) -> None:
        """Count on one row."""
        self.counts[row] += amount
        self.stamp += 1
        for reference in self._domains:
            domains = reference()
            if domains is not None:
                domains.follow(row, amount)

    def by(self, column: LabelColumn, table: NodeTable, mask: Bools | None = None) -> Domains:
        """Return this tally by the values of a label, over all nodes or those of a mask."""
        self._domains = [reference for reference in self._domains if reference() is not None]
        domains = Domains(self, column, table, mask)
        self._domains.append(weakref.ref(domains))
        return domains


class Domains:
    """A tally by domain."""

    __slots__ = ("__weakref__", "_sums", "_table", "column", "geography", "mask", "stamp", "tally")

    def __init__(self, tally: Tally, column: LabelColumn, table: NodeTable, mask: Bools | None) -> None:
        self.tally = tally
        self.column = column
        self.mask = mask
        """Rows that count; set it anew after nodes have changed, and then call :meth:`reset`."""
        self._table = table
        self._sums: Ints = np.zeros(0, np.int64)
        self.geography = -1
        self.stamp = 0
        """Changes with the sums."""

    def follow(self, row: int, amount: int) -> None:
        """Take in a change of the tally."""
        if self.geography != self._table.geography or (self.mask is not None and not self.mask[row]):
            return
        number = self.column.ids[row]
        if number:
            self._sums[number] += amount
            self.stamp += 1

    def reset(self) -> None:
        """Add up anew when asked next."""
        self.geography = -1

    def sums(self) -> Ints:
        """Return the sum for each number of the label column; nodes without the label count nowhere."""
        if self.geography != self._table.geography:
            ids, counts = self.column.ids, self.tally.counts
            if self.mask is not None:
                ids, counts = ids[self.mask], counts[self.mask]
            sums = np.zeros(len(self.column.values), np.int64)
            np.add.at(sums, ids, counts)
            sums[0] = 0
            self._sums = sums
            self.geography = self._table.geography
            self.stamp += 1
        return self._sums


class Pattern:
    """What sums by domain come to for a filter: changes far less often than the sums.

    `read` turns the sums of a domain set (of that index) into an array by domain; verdicts on nodes may depend on the
    sums through these arrays only.
    """

    __slots__ = ("_domains", "_read", "_seen", "_stamp", "_stamps")

    def __init__(self, domains: Sequence[Domains], read: Callable[[int, Ints], NDArray[Any]]) -> None:
        self._domains = domains
        self._read = read
        self._stamps = [-1] * len(domains)
        self._seen: list[NDArray[Any]] = [np.zeros(0, np.bool_)] * len(domains)
        self._stamp = 0

    def stamp(self) -> int:
        """Return a number that changes when any of the arrays does."""
        for index, domains in enumerate(self._domains):
            sums = domains.sums()
            if domains.stamp != self._stamps[index]:
                self._stamps[index] = domains.stamp
                now = self._read(index, sums)
                if not np.array_equal(now, self._seen[index]):
                    self._seen[index] = now
                    self._stamp += 1
        return self._stamp


class PeerTable:
    """The peers that are placed, and the tallies that somebody follows."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._active: dict[int, Peer] = {}
        self._tallies: weakref.WeakValueDictionary[Hashable, Tally] = weakref.WeakValueDictionary()
        self.with_terms: list[Peer] = []
        """Peers that have terms, in the order in which they came; some may be gone by now."""
        self.epoch = 0
        """Changes when `with_terms` was made anew."""

    def tally(self, key: Hashable, weigh: Callable[[Peer], int]) -> Tally:
        """Return the tally of a description; `key` stands for it."""
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(weigh, self._table.size)
            rows = self._table.rows
            for peer in self._active.values():
                amount = self._subscribe(peer, tally)
                if amount:
                    for node, count in peer.nodes.items():
                        row = rows.get(node)
                        if row is not None:
                            tally.counts[row] += amount * count
        return tally

    @staticmethod
    def _subscribe(peer: Peer, tally: Tally) -> int:
        amount = tally.weigh(peer)
        if amount:
            peer.subscribers.append((weakref.ref(tally), amount))
        return amount

    def count(self, peer: Peer, node: str, row: int | None, sign: int) -> None:
        """Count a pod of a kind on a node."""
        if not peer.active:
            self._activate(peer)
        peer.placed += sign
        count = peer.nodes.get(node, 0) + sign
        if count:
            peer.nodes[node] = count
        else:
            del peer.nodes[node]
        if row is not None and peer.subscribers:
            self._add(peer, row, sign)

    def _add(self, peer: Peer, row: int, count: int) -> None:
        dead = False
        for reference, amount in peer.subscribers:
            tally = reference()
            if tally is None:
                dead = True
            else:
                tally.add(row, amount * count)
        if dead:
            peer.subscribers = [entry for entry in peer.subscribers if entry[0]() is not None]

    def _activate(self, peer: Peer) -> None:
        peer.active = True
        self._active[id(peer)] = peer
        for tally in list(self._tallies.values()):
            self._subscribe(peer, tally)
        if peer.terms:
            self.with_terms.append(peer)
            self._table.basis += 1
        if len(self._active) > _IDLE and len(self._active) % _IDLE == 0:
            self._sweep(keep=peer)

    def _sweep(self, keep: Peer) -> None:
        for peer in [entry for entry in self._active.values() if not entry.placed and entry is not keep]:
            del self._active[id(peer)]
            peer.active = False
            peer.subscribers.clear()
        if len(self.with_terms) > 2 * _IDLE:
            self.with_terms = [peer for peer in self.with_terms if peer.active]
            self.epoch += 1
            self._table.basis += 1

    def row_added(self, row: int, peers: Iterable[Peer]) -> None:
        """Count the pods of a node that has just come."""
        for peer in peers:
            self._add(peer, row, 1)

    def row_removed(self, row: int) -> None:
        """Forget a row."""
        for tally in list(self._tallies.values()):
            tally.counts[row] = 0

    def grown(self, more: int) -> None:
        """Make room for more rows."""
        for tally in list(self._tallies.values()):
            tally.counts = np.concatenate((tally.counts, np.zeros(more, np.int64)))

    def weigh_anew(self) -> None:
        """Take back all that was weighed: labels of namespaces have changed."""
        self._tallies.clear()
        for peer in self._active.values():
            peer.subscribers.clear()
        self.epoch += 1
        self._table.layout += 1  # whoever holds a tally must ask for a new one

    def in_namespace(self, namespace: str) -> bool:
        """Whether pods of a namespace have been placed."""
        return any(peer.namespace == namespace for peer in self._active.values())
