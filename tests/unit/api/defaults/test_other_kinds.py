from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build
from wharfinger.api import codec, defaults

TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
ONCE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
SELECTOR = {"matchLabels": {"app": "a"}}
WORKLOAD = {"selector": SELECTOR, "template": TEMPLATE}

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "apps/v1 Deployment",
        {"spec": WORKLOAD},
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        },
    ),
    (
        "apps/v1 Deployment",
        {"spec": {**WORKLOAD, "strategy": {"type": "Recreate"}}},
        {"strategy": {"type": "Recreate"}},
    ),
    ("apps/v1 Deployment", {"spec": {**WORKLOAD, "replicas": 0}}, {"replicas": 0}),
    ("apps/v1 ReplicaSet", {"spec": WORKLOAD}, {"replicas": 1}),
    ("v1 ReplicationController", {"spec": {"template": TEMPLATE}}, {"replicas": 1, "selector": {"app": "a"}}),
    (
        "apps/v1 StatefulSet",
        {"spec": WORKLOAD},
        {
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
    ),
    (
        "apps/v1 DaemonSet",
        {"spec": WORKLOAD},
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
    ),
    (
        "batch/v1 Job",
        {"spec": {"template": ONCE}},
        {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
    ),
    ("batch/v1 Job", {"spec": {"template": ONCE, "parallelism": 3}}, {"parallelism": 3, "completions": None}),
    (
        "batch/v1 CronJob",
        {"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": ONCE}}}},
        {"concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1},
    ),
    (
        "v1 Service",
        {"spec": {"ports": [{"port": 80}]}},
        {
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        },
    ),
    (
        "v1 Service",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
        {"externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True},
    ),
    ("v1 PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteOnce"]}}, {"volumeMode": "Filesystem"}),
    (
        "networking.k8s.io/v1 NetworkPolicy",
        {"spec": {"podSelector": {}, "egress": [{}]}},
        {"policyTypes": ["Ingress", "Egress"]},
    ),
    (
        "autoscaling/v2 HorizontalPodAutoscaler",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}},
        {"minReplicas": 1},
    ),
]


@pytest.mark.parametrize(("kind", "body", "expected"), CASES)
def test_what_is_filled_in(kind: str, body: dict[str, Any], expected: dict[str, Any]) -> None:
    made = build(kind, {"metadata": {"name": "x"}, **body})
    spec = codec.to_json(made)["spec"]
    assert {key: spec.get(key) for key in expected} == expected
    again = type(made)()
    again.CopyFrom(made)
    defaults.apply(again)
    assert again == made


def test_kinds_without_spec() -> None:
    secret = build("v1 Secret", {"metadata": {"name": "s"}, "stringData": {"a": "text"}, "data": {"a": "eA=="}})
    assert secret.type == "Opaque"
    assert dict(secret.data) == {"a": b"text"}
    assert not secret.stringData
    namespace = build("v1 Namespace", {"metadata": {"name": "n"}})
    assert namespace.status.phase == "Active"
    assert namespace.metadata.labels["kubernetes.io/metadata.name"] == "n"
    cls = build("storage.k8s.io/v1 StorageClass", {"metadata": {"name": "c"}, "provisioner": "a/b"})
    assert (cls.reclaimPolicy, cls.volumeBindingMode) == ("Delete", "Immediate")
    priority = build("scheduling.k8s.io/v1 PriorityClass", {"metadata": {"name": "p"}, "value": 1})
    assert priority.preemptionPolicy == "PreemptLowerPriority"
    binding = build(
        "rbac.authorization.k8s.io/v1 RoleBinding",
        {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        },
    )
    assert binding.roleRef.apiGroup == "rbac.authorization.k8s.io"
    assert [subject.apiGroup for subject in binding.subjects] == ["rbac.authorization.k8s.io", ""]


def test_nodes_can_give_what_they_have() -> None:
    node = build("v1 Node", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}})
    assert node.status.allocatable["cpu"].string == "4"
    named = build(
        "v1 Node", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}}
    )
    assert named.status.allocatable["cpu"].string == "3"


def test_kinds_without_defaults_stay_as_they_are() -> None:
    config = build("v1 ConfigMap", {"metadata": {"name": "c"}, "data": {"a": "b"}}, defaulted=False)
    before = config.SerializeToString(deterministic=True)
    defaults.apply(config)
    assert config.SerializeToString(deterministic=True) == before
