from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.rules import build, creating, updating

TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
SELECTOR = {"matchLabels": {"app": "a"}}


def _workload(kind: str, *, template: dict[str, Any] | None = None, **spec: Any) -> Any:
    body = {"selector": SELECTOR, "template": copy.deepcopy(template or TEMPLATE), **spec}
    return build(kind, {"metadata": {"name": "w"}, "spec": {key: value for key, value in body.items() if value != {}}})


DEPLOYMENT, REPLICA_SET = "apps/v1 Deployment", "apps/v1 ReplicaSet"
STATEFUL_SET, DAEMON_SET = "apps/v1 StatefulSet", "apps/v1 DaemonSet"
ALL = [DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET]


@pytest.mark.parametrize("kind", ALL)
def test_every_workload(kind: str) -> None:
    assert creating(_workload(kind)) == []
    other = {"matchLabels": {"app": "b"}}
    assert "spec.template.metadata.labels Invalid" in creating(_workload(kind, selector=other))
    missing = {cause.partition(" ")[0] for cause in creating(_workload(kind, selector={}))}
    # A daemon set without a selector selects nothing, so that it does not select its own pods.
    assert missing >= {"spec.template.metadata.labels" if kind == DAEMON_SET else "spec.selector"}
    once = copy.deepcopy(TEMPLATE)
    once["spec"]["restartPolicy"] = "Never"  # type: ignore[index]
    assert "spec.template.spec.restartPolicy NotSupported" in creating(_workload(kind, template=once))
    empty = {"metadata": TEMPLATE["metadata"], "spec": {}}
    assert "spec.template.spec.containers Required" in creating(_workload(kind, template=empty))


@pytest.mark.parametrize("kind", ALL)
def test_selectors_never_change(kind: str) -> None:
    def widen(new: Any) -> None:
        new.spec.selector.matchLabels["more"] = "x"
        new.spec.template.metadata.labels["more"] = "x"

    causes = updating(_workload(kind), widen)
    expected = "spec Forbidden" if kind == STATEFUL_SET else "spec.selector Invalid"
    assert expected in causes


@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET, STATEFUL_SET])
def test_templates_and_counts_change(kind: str) -> None:
    def change(new: Any) -> None:
        new.spec.replicas = 7
        new.spec.template.spec.containers[0].image = "nginx:2"

    assert updating(_workload(kind), change) == []
    assert updating(_workload(kind), lambda new: setattr(new.spec, "replicas", -1)) == ["spec.replicas Invalid"]


@pytest.mark.parametrize(
    ("strategy", "causes"),
    [
        ({"type": "Recreate"}, []),
        ({"type": "Gradual"}, ["spec.strategy.type NotSupported"]),
        ({"type": "Recreate", "rollingUpdate": {}}, ["spec.strategy.rollingUpdate Forbidden"]),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            ["spec.strategy.rollingUpdate.maxUnavailable Invalid"],
        ),
        ({"rollingUpdate": {"maxUnavailable": "120%"}}, ["spec.strategy.rollingUpdate.maxUnavailable Invalid"]),
        ({"rollingUpdate": {"maxSurge": "many"}}, ["spec.strategy.rollingUpdate.maxSurge Invalid"]),
    ],
)
def test_strategies(strategy: dict[str, Any], causes: list[str]) -> None:
    assert sorted(set(creating(_workload(DEPLOYMENT, strategy=strategy)))) == causes


def test_deadlines_outlast_readiness() -> None:
    wrong = _workload(DEPLOYMENT, minReadySeconds=600, progressDeadlineSeconds=600)
    assert creating(wrong) == ["spec.progressDeadlineSeconds Invalid"]


def test_statuses_count_what_is_there() -> None:
    def status(**counts: int) -> Callable[[Any], Any]:
        return lambda new: [setattr(new.status, field, count) for field, count in counts.items()]

    kind = REPLICA_SET
    assert updating(_workload(kind), status(replicas=2, readyReplicas=2, availableReplicas=1), "status") == []
    assert updating(_workload(kind), status(replicas=1, readyReplicas=2), "status") == ["status.readyReplicas Invalid"]
    assert updating(_workload(kind), status(replicas=-1), "status")


def test_much_of_a_stateful_set_is_fixed() -> None:
    assert updating(_workload(STATEFUL_SET), lambda new: setattr(new.spec, "serviceName", "s")) == ["spec Forbidden"]
    assert updating(_workload(STATEFUL_SET), lambda new: setattr(new.spec, "minReadySeconds", 3)) == []


def test_claim_templates_of_a_stateful_set_are_volumes_of_its_pods() -> None:
    template = copy.deepcopy(TEMPLATE)
    mounts = [{"name": "data", "mountPath": "/data"}]
    template["spec"]["containers"][0]["volumeMounts"] = mounts  # type: ignore[index]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": claim}]
    assert creating(_workload(STATEFUL_SET, template=template, volumeClaimTemplates=claims)) == []
    assert creating(_workload(STATEFUL_SET, template=template)) == [
        "spec.template.spec.containers[0].volumeMounts[0].name NotFound"
    ]


def _job(**spec: Any) -> Any:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    job = build("batch/v1 Job", {"metadata": {"name": "j"}, "spec": {"template": template, **spec}})
    # What the server's strategy does before validation.
    labels = {"batch.kubernetes.io/controller-uid": job.metadata.uid, "batch.kubernetes.io/job-name": "j"}
    labels |= {key.partition("/")[2]: value for key, value in labels.items()}
    job.spec.template.metadata.labels.update(labels)
    if not job.spec.manualSelector and not job.spec.HasField("selector"):
        job.spec.selector.matchLabels["batch.kubernetes.io/controller-uid"] = job.metadata.uid
    return job


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, []),
        ({"parallelism": -1}, ["spec.parallelism Invalid"]),
        ({"completionMode": "Indexed", "parallelism": 2}, ["spec.completions Required"]),
        ({"completionMode": "Indexed", "completions": 3}, []),
        ({"completionMode": "Odd"}, ["spec.completionMode NotSupported"]),
        ({"backoffLimitPerIndex": 1}, ["spec.backoffLimitPerIndex Invalid"]),
        ({"activeDeadlineSeconds": -1}, ["spec.activeDeadlineSeconds Invalid"]),
        ({"ttlSecondsAfterFinished": -1}, ["spec.ttlSecondsAfterFinished Invalid"]),
    ],
)
def test_jobs(spec: dict[str, Any], causes: list[str]) -> None:
    assert creating(_job(**spec)) == causes


def test_what_a_job_runs_is_fixed() -> None:
    def image(new: Any) -> None:
        new.spec.template.spec.containers[0].image = "busybox:2"

    assert updating(_job(), image) == ["spec.template Invalid"]
    assert updating(_job(), lambda new: setattr(new.spec, "completions", 5)) == ["spec.completions Invalid"]
    assert updating(_job(), lambda new: setattr(new.spec, "parallelism", 5)) == []
    assert updating(_job(), lambda new: setattr(new.spec, "suspend", True)) == []


def test_jobs_restart_never_or_on_failure() -> None:
    job = _job()
    job.spec.template.spec.restartPolicy = "Always"
    assert creating(job) == ["spec.template.spec.restartPolicy Required"]


@pytest.mark.parametrize("kind", ALL)
def test_selectors_that_cannot_be_used(kind: str) -> None:
    selector = {"matchLabels": {"app": "b"}, "matchExpressions": [{"key": "a", "operator": "In"}]}
    found = creating(_workload(kind, selector=selector))
    rest = [] if kind == DAEMON_SET else ["spec.selector Invalid"]
    assert found == ["spec.selector.matchExpressions[0].values Required", *rest]
