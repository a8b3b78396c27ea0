"""What the scheduler keeps of nodes and pods: the facts that count, not the messages.

A parsed message takes some five kilobytes however little is in it; ten thousand pods and five thousand nodes would fill
most of the scheduler's memory with fields that it never looks at. So informers turn each object into one of these as it
arrives. Strings that repeat are interned.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import Literal

from controlplane.scheduler.peers import Peer
from controlplane.scheduler.podinfo import TERMINAL, PodInfo, PodTable, Usage
from wharfinger.api import disruption, pods
from wharfinger.api.types import core


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint, without the time at which it was added."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(slots=True)
class ObservedNode:
    """The facts of a node."""

    name: str
    uid: str
    resourceVersion: str  # noqa: N815 - read by the informer, which expects Kubernetes' name
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: dict[str, int]
    """In the units of the node table."""
    images: tuple[tuple[str, int], ...]
    """Name and bytes; an image with several names stands here several times."""
    namespace: str = ""

    @property
    def metadata(self) -> ObservedNode:
        """Stand in for the message in the informer."""
        return self

    @classmethod
    def of(cls, node: core.Node) -> ObservedNode:
        """Read a node. Raises ValueError for a quantity that is none."""
        metadata, spec, status = node.metadata, node.spec, node.status
        return cls(
            name=metadata.name,
            uid=metadata.uid,
            resourceVersion=metadata.resourceVersion,
            labels={intern(key): intern(value) for key, value in metadata.labels.items()},
            taints=tuple(Taint(intern(taint.key), intern(taint.value), intern(taint.effect)) for taint in spec.taints),
            unschedulable=spec.unschedulable,
            allocatable={intern(name): amount for name, amount in pods.amounts(status.allocatable).items()},
            images=tuple((intern(name), entry.sizeBytes) for entry in status.images for name in entry.names),
        )


PodState = Literal["pending", "placed", "over", "foreign"]


@dataclass(slots=True)
class ObservedPod:
    """The facts of a pod."""

    namespace: str
    name: str
    uid: str
    resourceVersion: str  # noqa: N815 - as above
    key: str
    state: PodState
    """foreign: pending, but not for this scheduler, or about to be deleted; over: it takes no room any more."""
    scheduler: str
    node: str = ""
    usage: Usage | None = None
    """Of placed pods."""
    peer: Peer | None = None
    """Of placed pods."""
    priority: int = 0
    started: float = 0.0
    """Unix seconds."""
    leaving: bool = False
    """Whether it makes room for a more important pod."""
    info: PodInfo | None = None
    """Of pending pods."""
    group: str = ""
    """``namespace/name`` of the PodGroup; empty for pods that failed or are being deleted."""
    succeeded: bool = False

    @property
    def metadata(self) -> ObservedPod:
        """Stand in for the message in the informer."""
        return self


def started(pod: core.Pod) -> float:
    """Return when the node took the pod up, in Unix seconds; 0 when it has not yet."""
    time = pod.status.startTime
    return float(time.seconds + time.nanos / 1e9)


def is_leaving(pod: core.Pod) -> bool:
    """Whether a pod is being deleted to make room for a more important one."""
    return pod.metadata.HasField("deletionTimestamp") and any(
        condition.type == disruption.CONDITION
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
        for condition in pod.status.conditions
    )


def observe_pod(pod: core.Pod, table: PodTable, *, schedulers: frozenset[str]) -> ObservedPod:
    """Read a pod. Raises ValueError for a quantity that is none."""
    metadata, spec = pod.metadata, pod.spec
    observed = ObservedPod(
        namespace=intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        resourceVersion=metadata.resourceVersion,
        key=f"{metadata.namespace}/{metadata.name}",
        state="foreign",
        scheduler=intern(spec.schedulerName),
    )
    if pod.status.phase in TERMINAL:
        observed.state = "over"
        observed.succeeded = pod.status.phase == "Succeeded"
    elif spec.nodeName:
        observed.state, observed.node, observed.usage = "placed", intern(spec.nodeName), table.usage(pod)
        observed.peer, observed.priority, observed.leaving = table.peer(pod), spec.priority, is_leaving(pod)
        observed.started = started(pod)
    elif spec.schedulerName in schedulers and not metadata.HasField("deletionTimestamp"):
        observed.state, observed.info = "pending", table.info(pod)
    if spec.HasField("schedulingGroup") and not metadata.HasField("deletionTimestamp") and pod.status.phase != "Failed":
        observed.group = intern(f"{metadata.namespace}/{spec.schedulingGroup.podGroupName}")
    return observed
