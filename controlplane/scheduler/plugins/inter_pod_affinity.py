"""InterPodAffinity: near to or away from other pods, as both sides say; required (filter) and preferred (score).

Three things refuse a node: the pod's own required affinity and anti-affinity, and the required anti-affinity of pods
that are there already. Scores add up the preferred terms of both sides, and the required affinity of pods that are
there with ``hardPodAffinityWeight``. All are sums over topology domains (see :mod:`controlplane.scheduler.peers`), one
for each topology key, which follow every placement.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.framework import (
    MAX_SCORE,
    Aspect,
    Bools,
    Change,
    Code,
    Filter,
    FilterPlugin,
    Ints,
    Refusal,
    Rows,
    Score,
    ScorePlugin,
)
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.peers import Domains, Pattern, Peer, Term
from controlplane.scheduler.podinfo import PodClass

_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 3
"""Codes, in the order in which the rules are asked."""
_REFUSALS = {
    _AFFINITY: (Code.UNRESOLVABLE, "node(s) didn't match pod affinity rules"),
    _ANTI_AFFINITY: (Code.UNSCHEDULABLE, "node(s) didn't match pod anti-affinity rules"),
    _EXISTING: (Code.UNSCHEDULABLE, "node(s) didn't satisfy existing pods anti-affinity rules"),
}


@dataclass
class _Outlook:
    """Topology keys of terms of placed pods that mean a kind of pod."""

    epoch: int = -1
    namespace: Mapping[str, str] | None = None
    seen: int = 0
    repelled: set[str] = field(default_factory=set)
    scored: set[str] = field(default_factory=set)


class InterPodAffinity(FilterPlugin, ScorePlugin):
    """Refuses and scores nodes by the pods in their topology domains."""

    name = "InterPodAffinity"

    takes = ("hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._hard_weight = int(self.argument("hardPodAffinityWeight", 1))
        self._ignores_preferred = bool(self.argument("ignorePreferredTermsOfExistingPods", default=False))
        if not 0 <= self._hard_weight <= 100:
            raise ValueError(f"hardPodAffinityWeight: {self._hard_weight} is not within 0 to 100")
        self._outlooks: weakref.WeakKeyDictionary[PodClass, _Outlook] = weakref.WeakKeyDictionary()

    def basis(self, pod: PodClass, table: NodeTable) -> Hashable:
        """Return the topology keys that terms of placed pods about this kind have."""
        outlook = self._outlook(pod, table)
        return outlook.epoch, frozenset(outlook.repelled), frozenset(outlook.scored)

    def _outlook(self, pod: PodClass, table: NodeTable) -> _Outlook:
        peers, peer = table.peers, pod.peer
        namespace = table.namespaces.get(peer.namespace, {})
        outlook = self._outlooks.get(pod)
        if outlook is None or outlook.epoch != peers.epoch or outlook.namespace != namespace:
            outlook = self._outlooks[pod] = _Outlook(epoch=peers.epoch, namespace=dict(namespace))
        for other in peers.with_terms[outlook.seen :]:
            outlook.repelled |= _keys(_meant(other.terms.anti_affinity, peer, namespace))
            if self._hard_weight:
                outlook.scored |= _keys(_meant(other.terms.affinity, peer, namespace))
            outlook.scored |= _keys(_meant((term for term, _ in other.terms.preferred), peer, namespace))
        outlook.seen = len(peers.with_terms)
        return outlook

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        """Prepare if the pod requires something of others, or others may mind it."""
        terms = pod.peer.terms
        repelled = self._outlook(pod, table).repelled
        if not terms.affinity and not terms.anti_affinity and not repelled:
            return None
        return _Filter(pod, table, repelled)

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score | None:
        """Prepare if the pod prefers something of others, or others have something to say about it."""
        peer = pod.peer
        own = peer.terms.preferred
        if self._ignores_preferred and not own:
            return None
        keys = {term.key for term, _ in own} | self._outlook(pod, table).scored
        return _Score(peer, table, keys, self._hard_weight) if keys else None


def _meant(terms: Iterable[Term], peer: Peer, namespace: Mapping[str, str]) -> Iterable[Term]:
    return (term for term in terms if term.matches(peer.namespace, peer.labels, namespace))


def _keys(terms: Iterable[Term]) -> set[str]:
    return {term.key for term in terms}


def _identity(peer: Peer) -> Hashable:
    """Return what tallies about a kind of pod depend on."""
    return peer.key if peer.key is not None else id(peer)


class _Filter(Filter):
    plugin = InterPodAffinity.name
    reads = Aspect.PEERS | Aspect.LABELS
    stamped = True

    def __init__(self, pod: PodClass, table: NodeTable, repelled: Iterable[str]) -> None:
        self._table = table
        self._peer = peer = pod.peer
        terms = peer.terms
        identity = _identity(peer)
        namespace = table.namespaces.get(peer.namespace, {})
        wanted, unwanted = terms.affinity, terms.anti_affinity

        def matches_all(other: Peer) -> int:
            return int(all(term.matches_peer(other, table) for term in wanted))

        self._near: list[Domains] = []
        if wanted:
            tally = table.peers.tally(("affinity", identity), matches_all)
            self._near = [tally.by(table.label(key), table) for key in dict.fromkeys(term.key for term in wanted)]
        self._alone = all(term.matches(peer.namespace, peer.labels, namespace) for term in wanted)
        """Whether the pod may be the first of those that it wants to be near to."""

        def unwanted_by(key: str) -> Callable[[Peer], int]:
            own = [term for term in unwanted if term.key == key]
            return lambda other: sum(term.matches_peer(other, table) for term in own)

        def unwanting_by(key: str) -> Callable[[Peer], int]:
            def weigh(other: Peer) -> int:
                meant = _meant(other.terms.anti_affinity, peer, table.namespaces.get(peer.namespace, {}))
                return sum(term.key == key for term in meant)

            return weigh

        self._apart = [
            table.peers.tally(("anti-affinity", identity, key), unwanted_by(key)).by(table.label(key), table)
            for key in dict.fromkeys(term.key for term in unwanted)
        ]
        self._repelling = [
            table.peers.tally(("repelling", identity, key), unwanting_by(key)).by(table.label(key), table)
            for key in sorted(repelled)
        ]
        self._pattern = Pattern([*self._near, *self._apart, *self._repelling], _occupation)

    def stamp(self) -> int:
        return self._table.geography + self._pattern.stamp()

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        codes = np.zeros(len(self._table.alive[rows]), np.int32)
        for domains in self._repelling:
            codes[_occupied(domains, rows)] = _EXISTING
        for domains in self._apart:
            codes[_occupied(domains, rows)] = _ANTI_AFFINITY
        if self._near:
            codes[~self._is_near(rows)] = _AFFINITY
        return codes

    def _is_near(self, rows: Rows) -> Bools:
        labelled = np.ones(len(self._table.alive[rows]), np.bool_)
        near = labelled.copy()
        anywhere = False
        for domains in self._near:
            sums = domains.sums()
            anywhere = anywhere or bool(sums.any())
            ids = domains.column.ids[rows]
            labelled &= ids != 0
            near &= _at(sums, ids) > 0
        return labelled if self._alone and not anywhere else near

    def refusal(self, code: int) -> Refusal:
        final, reason = _REFUSALS[code]
        return Refusal(self.plugin, final, (reason,))

    def detail(self, row: int, code: int, facts: object) -> str:
        node = self._table.nodes[row]
        labels = node.labels if node is not None else {}
        own = self._peer.terms
        if code == _AFFINITY:
            for term in own.affinity:
                if term.key not in labels:
                    return f"has no label {term.key}, which the pod's affinity needs"
            wanted = " and ".join(f"[{term.selector}]" for term in own.affinity)
            where = ", ".join(f"{term.key}={labels[term.key]}" for term in own.affinity)
            return f"no pod that matches {wanted} in {where}"
        if code == _ANTI_AFFINITY:
            for term in own.anti_affinity:
                found = self._matching(row, term)
                if found:
                    return f"{found[0]} in {term.key}={labels.get(term.key)} matches [{term.selector}]"
        found = self._repellers(row)
        return f"{found[0]} does not want this pod near" if found else _REFUSALS[code][1]

    def _repellers(self, row: int) -> list[str]:
        peer, namespace = self._peer, self._table.namespaces.get(self._peer.namespace, {})
        found: list[str] = []
        for domains in self._repelling:
            key = domains.column.key

            def repels(other: Peer, key: str = key) -> bool:
                return key in _keys(_meant(other.terms.anti_affinity, peer, namespace))

            found += self._pods(row, key, repels)
        return found

    def _matching(self, row: int, term: Term) -> list[str]:
        return self._pods(row, term.key, lambda other: term.matches_peer(other, self._table))

    def _pods(self, row: int, key: str, is_meant: Callable[[Peer], bool]) -> list[str]:
        """Return the pods in the domain of a node that are meant; looks at each pod there."""
        column = self._table.label(key)
        if not column.ids[row]:
            return []
        nodes = (self._table.names[other] for other in np.flatnonzero(column.ids == column.ids[row]))
        return [
            pod
            for name in nodes
            for pod, resident in self._table.pods_on(name or "").items()
            if is_meant(resident.peer)
        ]

    def changes(self, row: int, code: int, facts: object) -> list[Change] | None:
        node = self._table.nodes[row]
        if node is None:
            return None
        if code == _AFFINITY:
            missing = [term.key for term in self._peer.terms.affinity if term.key not in node.labels]
            if missing:
                return [Change(f"label {node.name} {key}=VALUE", 1.1) for key in missing]
            wanted = " and ".join(f"[{term.selector}]" for term in self._peer.terms.affinity)
            return [Change(f"run a pod that matches {wanted} near {node.name}", 2.0)]
        found = self._repellers(row)
        if code == _ANTI_AFFINITY:
            found = [pod for term in self._peer.terms.anti_affinity for pod in self._matching(row, term)]
        pods = list(dict.fromkeys(found))
        if not 0 < len(pods) < 4:
            return None
        return [Change(f"remove {', '.join(pods)} (to fit on {node.name})", 2.0 + len(pods))]


def _occupation(_: int, sums: Ints) -> Bools:
    """Return which domains are occupied; nothing else of the sums decides about nodes."""
    occupied: Bools = sums > 0
    return occupied


def _at(sums: Ints, ids: NDArray[np.int32]) -> Ints:
    found: Ints = sums[ids]
    return found


def _occupied(domains: Domains, rows: Rows) -> Bools:
    occupied: Bools = (domains.sums() > 0)[domains.column.ids[rows]]
    return occupied


def _prefers(term: Term, other: Peer, table: NodeTable) -> bool:
    """Whether a preferred term of the pod to place means pods of a kind.

    kube-scheduler looks up the namespaces that a selector means beforehand, but goes on to ask the selector with no
    labels at all (seen in its recorded decisions, in scores alone); so one that holds for a namespace without labels,
    such as ``team DoesNotExist``, means every namespace.
    """
    if term.namespace_selector.matches({}):
        return term.selector.matches(other.labels)
    return term.matches_peer(other, table)


class _Score(Score):
    plugin = InterPodAffinity.name
    reads = 0

    def __init__(self, peer: Peer, table: NodeTable, keys: Iterable[str], hard_weight: int) -> None:
        self._table = table
        own = peer.terms.preferred

        def weight_by(key: str) -> Callable[[Peer], int]:
            mine = [(term, weight) for term, weight in own if term.key == key]

            def weigh(other: Peer) -> int:
                total = sum(weight for term, weight in mine if _prefers(term, other, table))
                theirs = other.terms
                if theirs:
                    namespace = table.namespaces.get(peer.namespace, {})
                    total += hard_weight * sum(term.key == key for term in _meant(theirs.affinity, peer, namespace))
                    total += sum(
                        weight
                        for term, weight in theirs.preferred
                        if term.key == key and term.matches(peer.namespace, peer.labels, namespace)
                    )
                return total

            return weigh

        self._domains = [
            table.peers.tally(("preferred", _identity(peer), key, hard_weight), weight_by(key)).by(
                table.label(key), table
            )
            for key in sorted(keys)
        ]

    def stamp(self) -> int:
        total = self._table.geography
        for domains in self._domains:
            total += domains.stamp
        return total

    def raw(self, rows: Rows) -> Ints:
        total = np.zeros(len(self._table.alive[rows]), np.int64)
        for domains in self._domains:
            total += domains.sums()[domains.column.ids[rows]]
        return total

    def bounds(self, raw: Ints) -> tuple[int, int]:
        """Return the lowest and the highest."""
        return (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)

    def scale(self, raw: Ints, bounds: Any) -> Ints:
        """Return where each score lies between the lowest and the highest."""
        low, high = bounds
        if high == low:
            return np.zeros_like(raw)
        scaled: Ints = (MAX_SCORE * ((raw - low) / (high - low))).astype(np.int64)
        return scaled
