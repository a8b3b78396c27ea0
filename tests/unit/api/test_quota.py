"""What objects count for in quotas."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api import codec, quota
from wharfinger.api.types import core


def _of(message: Any, **content: Any) -> Any:
    return codec.from_json(content, message).message


def _shown(usage: quota.Usage) -> dict[str, str]:
    return {name: str(size) for name, size in usage.items()}


def test_pods() -> None:
    pod = _of(
        core.Pod,
        spec={"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "250m", "acme.io/gpu": "2"}, "limits": {"memory": "1Gi"},
        }}]},
    )  # fmt: skip
    assert _shown(quota.usage("pods", pod)) == {
        "count/pods": "1", "pods": "1", "cpu": "250m", "requests.cpu": "250m", "requests.acme.io/gpu": "2",
        "limits.memory": "1Gi",
    }  # fmt: skip
    pod.status.phase = "Succeeded"
    assert _shown(quota.usage("pods", pod)) == {"count/pods": "1"}


def test_services_and_claims() -> None:
    service = _of(core.Service, spec={"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]})
    assert _shown(quota.usage("services", service)) == {
        "count/services": "1", "services": "1", "services.nodeports": "2", "services.loadbalancers": "1",
    }  # fmt: skip
    claim = _of(
        core.PersistentVolumeClaim,
        spec={"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}},
    )
    assert _shown(quota.usage("persistentvolumeclaims", claim)) == {
        "count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    }  # fmt: skip
    assert _shown(quota.usage("deployments.apps", object())) == {"count/deployments.apps": "1"}


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("pods", ("", "pods")),
        ("limits.memory", ("", "pods")),
        ("requests.acme.io/gpu", ("", "pods")),
        ("requests.storage", ("", "persistentvolumeclaims")),
        ("fast.storageclass.storage.k8s.io/requests.storage", ("", "persistentvolumeclaims")),
        ("services.nodeports", ("", "services")),
        ("count/leases.coordination.k8s.io", ("coordination.k8s.io", "leases")),
        ("count/secrets", ("", "secrets")),
        ("nonsense", None),
    ],
)
def test_what_a_name_counts(name: str, about: tuple[str, str] | None) -> None:
    assert quota.counted_kind(name) == about


@pytest.mark.parametrize(
    ("spec", "scope", "fits"),
    [
        ({}, {"scopes": ["BestEffort"]}, True),
        ({}, {"scopes": ["NotBestEffort"]}, False),
        ({"activeDeadlineSeconds": 5}, {"scopes": ["Terminating"]}, True),
        ({}, {"scopes": ["NotTerminating", "BestEffort"]}, True),
        ({"priorityClassName": "high"}, {"scopes": ["PriorityClass"]}, True),
        (
            {"priorityClassName": "high"},
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["low"]},
            ]}},
            False,
        ),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "k", "namespaces": ["other"]},
            ]}}},
            {"scopes": ["CrossNamespacePodAffinity"]},
            True,
        ),
    ],
)  # fmt: skip
def test_scopes(spec: dict[str, Any], scope: dict[str, Any], fits: bool) -> None:
    pod = _of(core.Pod, spec={"containers": [{"name": "c"}], **spec})
    bound = _of(core.ResourceQuota, spec=scope)
    assert quota.in_scope(bound, "pods", pod) is fits
    assert not quota.in_scope(bound, "secrets", core.Secret())


def test_what_is_bounded_must_be_stated() -> None:
    pod = _of(core.Pod, spec={"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}]})
    assert quota.unstated(pod, ["requests.cpu", "pods"]) == "requests.cpu for: a"
    assert quota.unstated(pod, ["limits.memory"]) == "limits.memory for: a,b"
    assert quota.unstated(pod, ["pods", "secrets"]) == ""
