"""Objects that the tests need again and again."""

from __future__ import annotations

from wharfinger.api.types import apps, coordination, core


def pod(name: str, namespace: str, *, node: str = "", **labels: str) -> core.Pod:
    """A pod with one container."""
    made = core.Pod()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.metadata.labels.update(labels)
    made.spec.containers.add(name="c", image="registry.example/app:1")
    if node:
        made.spec.nodeName = node
    return made


def config_map(name: str, namespace: str, **data: str) -> core.ConfigMap:
    """A config map."""
    made = core.ConfigMap()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.data.update(data)
    return made


def node(name: str) -> core.Node:
    """A bare node."""
    made = core.Node()
    made.metadata.name = name
    return made


def lease(name: str, namespace: str, holder: str = "") -> coordination.Lease:
    """A lease."""
    made = coordination.Lease()
    made.metadata.name, made.metadata.namespace = name, namespace
    if holder:
        made.spec.holderIdentity = holder
        made.spec.leaseDurationSeconds = 15
    return made


def replica_set(name: str, namespace: str, replicas: int = 2) -> apps.ReplicaSet:
    """A replica set."""
    made = apps.ReplicaSet()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.spec.replicas = replicas
    made.spec.selector.matchLabels["app"] = name
    made.spec.template.metadata.labels["app"] = name
    made.spec.template.spec.containers.add(name="c", image="registry.example/app:1")
    return made
