"""Whether one more pod fits on a node, counting everything that is placed there: for checked binds.

The answer is as of one revision of the watch cache, which shows the node's guard key at the same revision. Whoever
writes on the strength of the answer compares the guard, so nothing can have been placed on the node in between.
Requests are added up as the scheduler does (effective requests of pods that have not ended); what a pod asks for is
remembered by its revision.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from wharfinger.api import pods
from wharfinger.api.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.store import Cache, Entry
    from wharfinger.api.types import core

_PODS = "/registry/pods/"
_NODES = "/registry/minions/"
_REMEMBERED = 20_000


class Room:
    """What is free on one node."""

    def __init__(self, node: str, allocatable: Mapping[str, int] | None) -> None:
        self._node = node
        self._allocatable = allocatable
        """None: there is no such node."""
        self._used: dict[str, int] = {}
        self._pods: list[core.Pod] = []

    def add(self, pod: core.Pod, asked: Mapping[str, int]) -> None:
        """Count a pod that is there, and what it asks for."""
        self._pods.append(pod)
        used = self._used
        for name, amount in asked.items():
            used[name] = used.get(name, 0) + amount

    def take(self, pod: core.Pod) -> str:
        """Count one more pod and return nothing; or return why it does not fit, with numbers."""
        node, room = self._node, self._allocatable
        if room is None:
            return f'there is no node "{node}"'
        ports = list(pods.host_ports(pod))
        for placed in self._pods if ports else ():
            taken = _clash(ports, placed)
            if taken is not None:
                return f"host port {taken[2]}/{taken[1]} of node {node} is taken"
        count = len(self._pods)
        if "pods" in room and count + 1 > room["pods"]:
            return f"{count} pods of {room['pods']} are there already"
        asked = pods.effective_requests(pod)
        for name, amount in asked.items():
            free = room.get(name, 0) - self._used.get(name, 0)
            if amount > free:
                need, left, total = (_text(name, value) for value in (amount, max(free, 0), room.get(name, 0)))
                return f"it needs {need} {name}, {left} is free of {total} on node {node}"
        self.add(pod, asked)
        return ""


class Capacity:
    """Answers from the watch cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: OrderedDict[str, tuple[int, dict[str, int]]] = OrderedDict()

    def refusal(self, pod: core.Pod, node: str) -> str:
        """Return why the pod does not fit on the node now, with numbers; empty when it does."""
        return self.room(node).take(pod)

    def room(self, node: str) -> Room:
        """Return what is free on a node now; pods can be counted there one after the other."""
        entry = self._cache.get(_NODES + node)
        if entry is None:
            return Room(node, None)
        room = Room(node, pods.amounts(entry.decoded.status.allocatable))
        for placed in self._cache.list(_PODS, index=("spec.nodeName", node)).entries:
            asked = self._asked(placed)
            if asked is not None:
                room.add(placed.decoded, asked)
        return room

    def _asked(self, entry: Entry) -> dict[str, int] | None:
        """Return what a placed pod asks for; None when it has ended."""
        known = self._known.get(entry.key)
        if known is not None and known[0] == entry.mod_revision:
            return known[1] or None
        asked = {} if pods.is_terminal(entry.decoded) else {"": 1, **pods.effective_requests(entry.decoded)}
        self._known[entry.key] = (entry.mod_revision, asked)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return asked or None


def _clash(ports: list[tuple[str, str, int]], placed: core.Pod) -> tuple[str, str, int] | None:
    """Return the first of some host ports that a placed pod has; an address clashes with itself and with 0.0.0.0."""
    for theirs in pods.host_ports(placed):
        for ours in ports:
            if ours[1:] == theirs[1:] and (ours[0] == theirs[0] or "0.0.0.0" in (ours[0], theirs[0])):
                return ours
    return None


def _text(resource: str, amount: int) -> str:
    """Return an amount as a manifest would have it; cpu is counted in thousandths, all others in whole units."""
    if resource == "cpu":
        return str(Quantity.of_milli(amount))
    return str(Quantity.of(amount, "BinarySI" if "memory" in resource or "storage" in resource else "DecimalSI"))
