"""Services and workload controllers, as far as default spreading needs them: which pods belong together.

A pod without spread constraints of its own is spread among the pods of its services and of the controller that owns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

from wharfinger.api import labels
from wharfinger.api.types import core

OWNER_KINDS = ("ReplicationController", "ReplicaSet", "StatefulSet")


class Workloads:
    """Selectors by namespace."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, dict[str, str]]] = {}
        self._owners: dict[tuple[str, str, str], labels.Selector] = {}

    def set_service(self, namespace: str, name: str, selector: Mapping[str, str] | None) -> bool:
        """Take in a service's selector, None or empty when it has none or is gone; returns whether that is news."""
        services = self._services.setdefault(intern(namespace), {})
        before = services.get(name)
        if not selector:
            services.pop(name, None)
            return before is not None
        services[name] = dict(selector)
        return before != services[name]

    def set_owner(self, kind: str, namespace: str, name: str, selector: labels.Selector | None) -> bool:
        """Take in a controller's selector, None when it is gone; returns whether that is news."""
        key = (intern(kind), intern(namespace), name)
        before = self._owners.get(key)
        if selector is None:
            self._owners.pop(key, None)
        else:
            self._owners[key] = selector
        return before != selector

    def selector_for(self, pod: core.Pod) -> labels.Selector | None:
        """Return what the pods that belong with this one have in common; None when it belongs with none."""
        namespace, own = pod.metadata.namespace, pod.metadata.labels
        merged: dict[str, str] = {}
        for selector in self._services.get(namespace, {}).values():
            if all(own.get(key) == value for key, value in selector.items()):
                merged.update(selector)
        requirements = list(labels.from_map(merged).requirements)
        owner = owner_of(pod)
        found = self._owners.get((owner[0], namespace, owner[1])) if owner else None
        if found is not None:
            requirements += found.requirements
        return labels.Selector(tuple(requirements)) if requirements else None


def owner_of(pod: core.Pod) -> tuple[str, str] | None:
    """Return kind and name of the controller of a pod, if it is one whose pods are spread."""
    for reference in pod.metadata.ownerReferences:
        if reference.controller:
            return (reference.kind, reference.name) if reference.kind in OWNER_KINDS else None
    return None
