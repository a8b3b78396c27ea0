"""Small nodes and pods for tests, and an engine that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.scheduler.classstate import ClassState
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.framework import Refusal
from controlplane.scheduler.observed import ObservedNode, started
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.profile import Profile
from wharfinger.api.types import core

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def node(
    name: str,
    *,
    allocatable: Mapping[str, str] = ROOM,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
) -> core.Node:
    """A node; taints as ``key=value:Effect``, images as name -> bytes."""
    made = core.Node()
    made.metadata.name = name
    made.metadata.labels.update({"kubernetes.io/hostname": name, **(labels or {})})
    for resource, amount in allocatable.items():
        made.status.allocatable[resource].string = amount
    for text in taints:
        head, _, effect = text.rpartition(":")
        key, _, value = head.partition("=")
        made.spec.taints.add(key=key, value=value, effect=effect)
    made.spec.unschedulable = unschedulable
    for image, size in (images or {}).items():
        made.status.images.add(names=[image], sizeBytes=size)
    return made


def observed(name: str, **rest: Any) -> ObservedNode:
    """A node as the table takes it."""
    return ObservedNode.of(node(name, **rest))


def pod(
    name: str = "pod",
    requests: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    image: str = "registry.example/app:1",
    priority: int = 0,
    selector: Mapping[str, str] | None = None,
    ports: Iterable[tuple[int, str, str]] = (),
    node_name: str = "",
    scheduler: str = "default-scheduler",
) -> core.Pod:
    """A pending pod with one container; ports as (host port, protocol, host IP)."""
    made = core.Pod()
    made.metadata.name, made.metadata.namespace, made.metadata.uid = name, namespace, f"uid-of-{name}"
    made.metadata.labels.update(labels or {})
    made.spec.schedulerName = scheduler
    made.spec.priority = priority
    made.spec.nodeName = node_name
    made.spec.nodeSelector.update(selector or {})
    container = made.spec.containers.add(name="c", image=image)
    for resource, amount in (requests or {}).items():
        container.resources.requests[resource].string = amount
    for number, protocol, address in ports:
        container.ports.add(hostPort=number, containerPort=number, protocol=protocol, hostIP=address)
    return made


def affinity(term: core.PodAffinityTerm, key: str, labels: Mapping[str, str]) -> None:
    """Fill in an affinity term."""
    term.topologyKey = key
    term.labelSelector.matchLabels.update(labels)


def spread(
    target: core.Pod, key: str, labels: Mapping[str, str], *, when: str = "DoNotSchedule", skew: int = 1, **more: Any
) -> core.Pod:
    """Add a spread constraint."""
    made = target.spec.topologySpreadConstraints.add(topologyKey=key, whenUnsatisfiable=when, maxSkew=skew, **more)
    made.labelSelector.matchLabels.update(labels)
    return target


def tolerate(
    target: core.Pod, key: str = "", value: str = "", *, effect: str = "", operator: str = "Equal"
) -> core.Pod:
    """Add a toleration."""
    target.spec.tolerations.add(key=key, value=value, effect=effect, operator=operator)
    return target


class Bench:
    """An engine with nodes and placed pods, asked about one pod at a time."""

    def __init__(self, *nodes: core.Node, profile: Profile | None = None) -> None:
        self.engine = Engine([profile] if profile else None, seed=1)
        self.table = self.engine.table
        self.set_node(*nodes)

    def set_node(self, *nodes: core.Node) -> None:
        """Add nodes or what is new of them."""
        for entry in nodes:
            self.table.set_node(ObservedNode.of(entry))

    def place(self, *pods: core.Pod) -> None:
        """Count pods on their nodes."""
        for entry in pods:
            key = f"{entry.metadata.namespace}/{entry.metadata.name}"
            table = self.engine.pods
            self.table.place(
                key, entry.spec.nodeName, table.usage(entry), table.peer(entry), priority=entry.spec.priority,
                started=started(entry),
            )  # fmt: skip

    def info(self, entry: core.Pod) -> PodInfo:
        return self.engine.pods.info(entry)

    def state(self, entry: core.Pod) -> ClassState:
        return self.engine.state(self.info(entry))

    def refusals(self, entry: core.Pod, plugin: str) -> dict[str, Refusal]:
        """Node -> refusal of one plugin."""
        state = self.state(entry)
        for column in state.filters:
            if column.filter.plugin == plugin:
                return {
                    name: column.filter.refusal(int(column.codes[row]))
                    for name, row in self.table.rows.items()
                    if column.codes[row]
                }
        return {}

    def details(self, entry: core.Pod, plugin: str) -> dict[str, str]:
        """Node -> what the refusal says with numbers."""
        state = self.state(entry)
        for column in state.filters:
            if column.filter.plugin == plugin:
                facts = column.filter.facts()
                return {
                    name: column.filter.detail(row, int(column.codes[row]), facts)
                    for name, row in self.table.rows.items()
                    if column.codes[row]
                }
        return {}

    def changes(self, entry: core.Pod, plugin: str, on: str) -> list[str] | None:
        """What would have to change on a node."""
        row = self.table.rows[on]
        for column in self.state(entry).filters:
            if column.filter.plugin == plugin:
                changes = column.filter.changes(row, int(column.codes[row]), column.filter.facts())
                return None if changes is None else [change.text for change in changes]
        return []

    def scores(self, entry: core.Pod, plugin: str) -> tuple[dict[str, int], dict[str, int]]:
        """Raw and normalised scores by node."""
        for scored in self.state(entry).scores:
            if scored.score.plugin == plugin:
                rows = self.table.rows.items()
                return {n: int(scored.raw[r]) for n, r in rows}, {n: int(scored.scaled[r]) for n, r in rows}
        return {}, {}

    def feasible(self, entry: core.Pod) -> set[str]:
        state = self.state(entry)
        return {name for name, row in self.table.rows.items() if state.feasible[row]}
