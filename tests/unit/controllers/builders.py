"""Short ways to make the objects that controllers' tests are about."""

from __future__ import annotations

from wharfinger.api.types import apps, coordination, core


def node(
    name: str = "n1",
    *,
    ready: str = "True",
    heartbeat: int = 1,
    version: int = 1,
    zone: str = "",
    taints: tuple[tuple[str, str], ...] = (),
    uid: str = "",
) -> core.Node:
    """A node; `ready` empty means that it never reported."""
    obj = core.Node()
    obj.metadata.name, obj.metadata.uid = name, uid or f"uid-{name}"
    obj.metadata.resourceVersion = str(version)
    if zone:
        obj.metadata.labels["topology.kubernetes.io/zone"] = zone
    if ready:
        condition = obj.status.conditions.add(type="Ready", status=ready)
        condition.lastHeartbeatTime.seconds = heartbeat
    for key, effect in taints:
        obj.spec.taints.add(key=key, effect=effect)
    return obj


def lease(name: str = "n1", *, version: int = 1) -> coordination.Lease:
    """A node's heartbeat. Its renewTime is always the same: nobody may look at it."""
    obj = coordination.Lease()
    obj.metadata.name, obj.metadata.namespace = name, "kube-node-lease"
    obj.metadata.resourceVersion = str(version)
    obj.spec.renewTime.seconds = 1000
    return obj


def pod(
    name: str = "p",
    *,
    node: str = "",
    phase: str = "Running",
    ready: int | None = None,
    labels: dict[str, str] | None = None,
    owner: str = "",
    created: int = 0,
    restarts: int = 0,
    cost: str = "",
    deleting: bool = False,
    tolerations: tuple[tuple[str, int | None], ...] = (),
    reason: str = "",
) -> core.Pod:
    """A pod; `ready` is since when (wall-clock), `owner` the uid of its ReplicaSet `web`."""
    obj = core.Pod()
    metadata = obj.metadata
    metadata.name, metadata.namespace, metadata.uid = name, "default", f"uid-{name}"
    metadata.labels.update({"app": "web"} if labels is None else labels)
    if created:
        metadata.creationTimestamp.seconds = created
    if owner:
        metadata.ownerReferences.add(apiVersion="apps/v1", kind="ReplicaSet", name="web", uid=owner, controller=True)
    if cost:
        metadata.annotations["controller.kubernetes.io/pod-deletion-cost"] = cost
    if deleting:
        metadata.deletionTimestamp.seconds = 1
    if node:
        obj.spec.nodeName = node
    for key, seconds in tolerations:
        toleration = obj.spec.tolerations.add(key=key, operator="Exists", effect="NoExecute")
        if seconds is not None:
            toleration.tolerationSeconds = seconds
    obj.status.phase, obj.status.reason = phase, reason
    if ready is not None:
        condition = obj.status.conditions.add(type="Ready", status="True")
        condition.lastTransitionTime.seconds = ready
    if restarts:
        obj.status.containerStatuses.add(name="c", restartCount=restarts)
    return obj


def replicaset(*, replicas: int = 3, uid: str = "uid-web", minimum: int = 0) -> apps.ReplicaSet:
    """A ReplicaSet ``default/web`` that selects app=web."""
    obj = apps.ReplicaSet()
    metadata = obj.metadata
    metadata.name, metadata.namespace, metadata.uid, metadata.generation = "web", "default", uid, 4
    obj.spec.replicas, obj.spec.minReadySeconds = replicas, minimum
    obj.spec.selector.matchLabels["app"] = "web"
    obj.spec.template.metadata.labels["app"] = "web"
    return obj
