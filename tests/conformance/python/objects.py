"""Objects of the package `kubernetes` that the tests make, and waiting for what comes of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra `test` (pip install -e .[test])")

from kubernetes import client as k8s  # noqa: E402

SECONDS = 20.0
"""How long anything may take before a test gives up."""


def config_map(name: str, **data: str) -> Any:
    return k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name=name, labels={"app": "x"}), data=data or {"k": "v"})


def pod(name: str, image: str = "registry.example/web:1") -> Any:
    spec = k8s.V1PodSpec(containers=[k8s.V1Container(name="main", image=image)], termination_grace_period_seconds=0)
    return k8s.V1Pod(metadata=k8s.V1ObjectMeta(name=name, labels={"app": "web"}), spec=spec)


def deployment(name: str, replicas: int = 2) -> Any:
    template = k8s.V1PodTemplateSpec(
        metadata=k8s.V1ObjectMeta(labels={"app": name}),
        spec=k8s.V1PodSpec(containers=[k8s.V1Container(name="main", image="registry.example/web:1")]),
    )
    spec = k8s.V1DeploymentSpec(
        replicas=replicas, selector=k8s.V1LabelSelector(match_labels={"app": name}), template=template
    )
    return k8s.V1Deployment(metadata=k8s.V1ObjectMeta(name=name), spec=spec)


def wait(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return found
