"""Pods as the scheduler sees them, decoded once.

Most pods of a cluster come from a few templates. Two tables make use of that:

* :class:`Usage` is what a placed pod takes from its node (amounts, host ports). Equal usages are one object, so that
  a confirmation of what was assumed is recognised by identity.
* :class:`PodClass` stands for all pending pods that are alike for scheduling. Filters and scores are prepared and
  computed for the class, not for the pod.

Both are interned by the bytes of exactly those fields that count, so a pod costs one look-up after the first of its
kind. An interner keeps the most recent few thousand kinds and forgets the rest; two equal objects that are not the same
cost time, never correctness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from sys import intern
from typing import Generic, NamedTuple, TypeVar

from controlplane.scheduler import pinned, requests
from controlplane.scheduler.framework import Plugin
from controlplane.scheduler.gangs import Gang, Gangs
from controlplane.scheduler.peers import INSTANCE_LABELS, Peer, terms_of
from wharfinger.api.types import core

T = TypeVar("T")

TERMINAL = ("Succeeded", "Failed")

_INTERNED = 4096


class HostPort(NamedTuple):
    """A port of the host that a pod claims; the empty address means all."""

    protocol: str
    port: int
    address: str

    def clashes(self, other: HostPort) -> bool:
        """Whether both cannot be on one host; ``::`` is no wildcard in Kubernetes, ``0.0.0.0`` is."""
        if self.protocol != other.protocol or self.port != other.port:
            return False
        return "" in (self.address, other.address) or self.address == other.address


class Usage:
    """What a placed pod takes from its node."""

    __slots__ = ("amounts", "key", "nonzero_cpu", "nonzero_memory", "ports")

    def __init__(self, key: Hashable, pod: core.Pod) -> None:
        self.key = key
        self.amounts = {name: amount for name, amount in requests.needed(pod).items() if amount}
        nonzero = requests.occupied(pod)
        self.nonzero_cpu = nonzero.get("cpu", 0)
        """In thousandths, with the defaults for scores."""
        self.nonzero_memory = nonzero.get("memory", 0)
        """In bytes, with the defaults for scores."""
        self.ports = host_ports(pod)


class PodClass:
    """All pending pods that are alike for scheduling."""

    __slots__ = ("__weakref__", "exemplar", "images", "key", "peer", "pinned", "scheduler", "scored", "usage")

    def __init__(self, key: Hashable, pod: core.Pod, usage: Usage, peer: Peer) -> None:
        self.key = key
        self.peer = peer
        """What the pods will be to others."""
        self.pinned = pinned.node_of(pod)
        """The only node that they may go to, or empty."""
        self.scheduler: str = intern(pod.spec.schedulerName)
        self.exemplar = pod
        """One of them; plugins read from it only what is part of the key."""
        self.usage = usage
        self.scored = requests.scored(pod)
        """What the pod counts as in NodeResourcesFit's score, where kube-scheduler leaves out pod-level requests."""
        spec = pod.spec
        images = [container.image for group in (spec.initContainers, spec.containers) for container in group]
        images += [
            volume.volumeSource.image.reference for volume in spec.volumes if volume.volumeSource.HasField("image")
        ]
        self.images = tuple(images)
        """Of all containers, init containers and image volumes, as written."""


class Condition(NamedTuple):
    """What a pod says about its being scheduled."""

    status: str
    reason: str
    message: str
    since: int
    """Unix seconds."""


class PodInfo:
    """A pending pod."""

    __slots__ = (
        "cls", "condition", "created", "gang", "gates", "key", "may_preempt", "name", "namespace", "nominated",
        "priority", "stored_nomination", "uid",
    )  # fmt: skip

    def __init__(self, pod: core.Pod, cls: PodClass, gang: Gang | None = None) -> None:
        metadata = pod.metadata
        self.namespace: str = intern(metadata.namespace)
        self.name: str = metadata.name
        self.key = f"{metadata.namespace}/{metadata.name}"
        self.uid: str = metadata.uid
        self.priority: int = pod.spec.priority
        self.created: int = metadata.creationTimestamp.seconds
        """Unix seconds."""
        self.gates = tuple(gate.name for gate in pod.spec.schedulingGates)
        self.condition = _condition(pod)
        self.nominated: str = intern(pod.status.nominatedNodeName)
        """The node that is being cleared for it, or empty."""
        self.stored_nomination: str = self.nominated
        """The same as its status has it; ours may be newer."""
        self.may_preempt = pod.spec.preemptionPolicy != "Never"
        self.cls = cls
        self.gang = gang
        """The gang with which it is placed, if any."""

    @property
    def kind(self) -> Hashable:
        """Return what it shares with the pods that wait for the same: those with a node of their own wait alone.

        Members of a gang that lacks some wait together.
        """
        if self.gang is not None and self.gang.needed:
            return self.gang
        return (self.cls, self.key) if self.nominated else self.cls

    def __repr__(self) -> str:
        return f"<PodInfo {self.key}>"


def _condition(pod: core.Pod) -> Condition | None:
    for item in pod.status.conditions:
        if item.type == "PodScheduled":
            return Condition(item.status, item.reason, item.message, item.lastTransitionTime.seconds)
    return None


def host_ports(pod: core.Pod) -> tuple[HostPort, ...]:
    """Return the ports of the host that the pod claims; those of plain init containers do not count."""
    return tuple(
        HostPort(port.protocol or "TCP", port.hostPort, "" if port.hostIP == "0.0.0.0" else port.hostIP)
        for container in (
            *pod.spec.containers,
            *(sidecar for sidecar in pod.spec.initContainers if sidecar.restartPolicy == "Always"),
        )
        for port in container.ports
        if port.hostPort
    )


class _Interner(Generic[T]):
    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = make()
            if len(self._items) > _INTERNED:
                self._items.popitem(last=False)
        else:
            self._items.move_to_end(key)
        return item


class PodTable:
    """Decodes pods into interned classes and usages."""

    def __init__(self, plugins: Iterable[Plugin] = (), *, with_gangs: Iterable[str] = ()) -> None:
        self._usages: _Interner[Usage] = _Interner()
        self._classes: _Interner[PodClass] = _Interner()
        self._peers: _Interner[Peer] = _Interner()
        self.selecting: set[str] = set()
        """Labels of single pods (see INSTANCE_LABELS) that some selector names.

        When it grows, what was read before lacks these labels: see Leadership.run.
        """
        self.gangs = Gangs()
        self._with_gangs = frozenset(with_gangs)
        """Names of the schedulers that know of gangs."""
        self._plugins = [plugin for plugin in plugins if type(plugin).class_key is not Plugin.class_key]

    def usage(self, pod: core.Pod) -> Usage:
        """Return what the pod takes or would take from a node; raises ValueError for a quantity that is none."""
        key = _usage_key(pod)
        return self._usages.get(key, lambda: Usage(key, pod))

    def info(self, pod: core.Pod) -> PodInfo:
        """Return the pod as the queue holds it; raises ValueError for a quantity that is none."""
        for constraint in pod.spec.topologySpreadConstraints:
            selector = constraint.labelSelector
            self.note_selector((*selector.matchLabels, *(item.key for item in selector.matchExpressions)))
            self.note_selector(constraint.matchLabelKeys)
        peer = self.peer(pod)
        key = (_usage_key(pod), _class_key(pod), peer.key, *(plugin.class_key(pod) for plugin in self._plugins))
        gang = None
        if pod.spec.HasField("schedulingGroup") and pod.spec.schedulerName in self._with_gangs:
            gang = self.gangs.get(f"{pod.metadata.namespace}/{pod.spec.schedulingGroup.podGroupName}")
        return PodInfo(pod, self._classes.get(key, lambda: PodClass(key, pod, self.usage(pod), peer)), gang)

    def peer(self, pod: core.Pod) -> Peer:
        """Return what the pod is to others; raises ValueError for a malformed affinity term."""
        metadata = pod.metadata
        labels = metadata.labels
        ignored = INSTANCE_LABELS - self.selecting
        counted = tuple(sorted((key, value) for key, value in labels.items() if key not in ignored)) if labels else ()
        affinity = pod.spec.affinity
        affine = pod.spec.HasField("affinity") and (
            affinity.HasField("podAffinity") or affinity.HasField("podAntiAffinity")
        )
        key = (
            metadata.namespace,
            counted,
            affinity.SerializeToString(deterministic=True) if affine else b"",
            metadata.HasField("deletionTimestamp"),
        )
        return self._peers.get(key, lambda: self._make_peer(key, pod, dict(counted)))

    def _make_peer(self, key: Hashable, pod: core.Pod, labels: dict[str, str]) -> Peer:
        terms = terms_of(pod)
        for term in terms.all():
            self.note_selector(requirement.key for requirement in term.selector.requirements)
        return Peer(
            key,
            namespace=intern(pod.metadata.namespace),
            pod_labels={intern(name): intern(value) for name, value in labels.items()},
            terms=terms,
            terminating=pod.metadata.HasField("deletionTimestamp"),
        )

    def note_selector(self, keys: Iterable[str]) -> None:
        """Take note of the label keys that a selector names."""
        self.selecting |= INSTANCE_LABELS.intersection(keys)


def _usage_key(pod: core.Pod) -> Hashable:
    spec = pod.spec
    parts: list[Hashable] = []
    for container in spec.containers:
        parts.append(_bytes(container.resources) if container.HasField("resources") else b"")
        if container.ports:
            parts.append(_ports_key(container))
    for container in spec.initContainers:
        parts.append((container.restartPolicy, _bytes(container.resources), _ports_key(container)))
    if spec.HasField("resources"):
        parts.append(("pod", _bytes(spec.resources)))
    if spec.overhead:
        parts.append(("overhead", *sorted((name, amount.string) for name, amount in spec.overhead.items())))
    status = pod.status
    if status.containerStatuses or status.initContainerStatuses:
        parts.append(_resize_key(pod))
    return tuple(parts)


def _bytes(resources: core.ResourceRequirements) -> bytes:
    return resources.SerializeToString(deterministic=True)


def _ports_key(container: core.Container) -> Hashable:
    return tuple((port.protocol, port.hostPort, port.hostIP) for port in container.ports if port.hostPort)


def _resize_key(pod: core.Pod) -> Hashable:
    status = pod.status
    entries = tuple(
        (entry.name, _bytes(entry.resources), *sorted((n, a.string) for n, a in entry.allocatedResources.items()))
        for statuses in (status.containerStatuses, status.initContainerStatuses)
        for entry in statuses
        if entry.HasField("resources")
    )
    if not entries:
        return None
    pending = tuple((c.status, c.reason) for c in status.conditions if c.type == "PodResizePending")
    names = tuple(container.name for group in (pod.spec.initContainers, pod.spec.containers) for container in group)
    return entries, pending, names


def _class_key(pod: core.Pod) -> Hashable:
    spec = pod.spec
    parts: list[Hashable] = [spec.schedulerName, spec.nodeName]
    parts.extend(container.image for container in spec.containers)
    parts.extend(toleration.SerializeToString(deterministic=True) for toleration in spec.tolerations)
    if spec.initContainers:
        parts.append(("init", *(container.image for container in spec.initContainers)))
    if spec.nodeSelector:
        parts.append(("selector", *sorted(spec.nodeSelector.items())))
    if spec.HasField("affinity"):
        parts.append(spec.affinity.SerializeToString(deterministic=True))
    if spec.volumes:
        parts.append(
            (
                "images",
                *(
                    volume.volumeSource.image.reference
                    for volume in spec.volumes
                    if volume.volumeSource.HasField("image")
                ),
            )
        )
    return tuple(parts)
