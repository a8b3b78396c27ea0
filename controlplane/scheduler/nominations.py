"""Pods for which a node is being cleared: until they are placed, they count there for pods of no higher priority."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.scheduler.nodetable import Resident


class Nominations:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Resident]] = {}
        self._nodes: dict[str, str] = {}
        self.stamp = 0
        """Changes with each nomination that comes or goes."""

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def set(self, key: str, resident: Resident) -> None:
        """Count a pod as nominated to the node that `resident` names."""
        before = self._by_node.get(self._nodes.get(key, ""), {}).get(key)
        if before is not None and (before.node, before.priority) == (resident.node, resident.priority):
            self._by_node[resident.node][key] = resident
            return
        self.remove(key)
        self._nodes[key] = resident.node
        self._by_node.setdefault(resident.node, {})[key] = resident
        self.stamp += 1

    def remove(self, key: str) -> None:
        """Forget a nomination, if there is one."""
        node = self._nodes.pop(key, None)
        if node is None:
            return
        others = self._by_node[node]
        del others[key]
        if not others:
            del self._by_node[node]
        self.stamp += 1

    def nodes(self) -> Iterator[str]:
        """Return the nodes that somebody is nominated to."""
        return iter(list(self._by_node))

    def on(self, node: str) -> dict[str, Resident]:
        """Return the pods nominated to a node."""
        return self._by_node.get(node, {})

    def against(self, node: str, *, key: str, priority: int) -> list[tuple[str, Resident]]:
        """Return the nominated pods that count on a node for a pod of a key and priority."""
        return [
            (other, resident)
            for other, resident in self._by_node.get(node, {}).items()
            if resident.priority >= priority and other != key
        ]
