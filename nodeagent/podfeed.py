"""Brings the API's pods to the managers of their nodes: one watch a process, however many nodes it holds."""

from __future__ import annotations

from nodeagent.podmanager import PodManager
from wharfinger.api.types import core
from wharfinger.client import Client, Informer


class PodFeed:
    """Follows the pods of one node, or (hollow nodes) of all nodes and hands each to its own."""

    def __init__(self, client: Client, *, node_name: str = "") -> None:
        """`node_name` empty: all pods."""
        selector = f"spec.nodeName={node_name}" if node_name else ""
        self.informer = Informer(client.resource(core.Pod), field_selector=selector)
        self.informer.add_index("node", lambda pod: [pod.spec.nodeName] if pod.spec.nodeName else [])
        self._managers: dict[str, PodManager] = {}

    def pods_of(self, node: str) -> list[core.Pod]:
        """Return the pods of a node."""
        return self.informer.by_index("node", node)

    def attach(self, node: str, manager: PodManager) -> None:
        """Tell a manager of its node's pods from now on."""
        self._managers[node] = manager

    def detach(self, node: str) -> None:
        """Tell it no more."""
        self._managers.pop(node, None)

    async def start(self) -> None:
        """Begin to follow, and wait for the first complete list."""
        self.informer.add_handler(
            on_add=self._changed, on_update=lambda _old, new: self._changed(new), on_delete=self._removed
        )
        await self.informer.start()
        await self.informer.wait_synced()

    async def close(self) -> None:
        """Stop following."""
        await self.informer.stop()

    def _changed(self, pod: core.Pod) -> None:
        manager = self._managers.get(pod.spec.nodeName)
        if manager is not None:
            manager.changed(pod)

    def _removed(self, pod: core.Pod) -> None:
        manager = self._managers.get(pod.spec.nodeName)
        if manager is not None:
            manager.removed(pod)
