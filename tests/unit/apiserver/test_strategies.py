"""What is special about kinds."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.registry.deletion import set_propagation
from controlplane.apiserver.request import Request, User
from controlplane.apiserver.strategies import STRATEGIES, strategy_for
from controlplane.apiserver.strategies.base import same
from wharfinger.api import kinds
from wharfinger.api.types import apps, batch, core, meta


def _request(kind: kinds.Kind) -> Request:
    return Request(User("admin"), "create", kind)


def _stored(obj: Any) -> Any:
    """The object as it is read back: every field that is not a pointer is there."""
    from wharfinger.api import codec

    return type(obj).FromString(codec.canonical_bytes(obj))


def test_every_line_of_the_table_is_a_kind() -> None:
    known = {(kind.group, kind.resource) for kind in kinds.KINDS}
    assert set(STRATEGIES) <= known


def test_unset_and_zero_are_the_same() -> None:
    one, other = core.PodSpec(), core.PodSpec(nodeName="", hostNetwork=False)
    assert one != other
    assert same(one, other)
    assert not same(one, core.PodSpec(nodeName="n1"))


def test_generation_counts_the_spec_only() -> None:
    kind = kinds.of(apps.ReplicaSet)
    strategy = strategy_for(kind)
    old = apps.ReplicaSet()
    old.spec.replicas = 2
    old.metadata.generation = 3
    old = _stored(old)
    new = apps.ReplicaSet()  # as a client sends it: without what is zero
    new.spec.replicas = 2
    new.metadata.labels["x"] = "1"
    new.status.replicas = 9
    strategy.prepare_for_update(new, old, _request(kind))
    assert (new.metadata.generation, new.status.replicas) == (3, 0)
    new.spec.replicas = 4
    strategy.prepare_for_update(new, old, _request(kind))
    assert new.metadata.generation == 4


def test_annotations_of_a_deployment_count() -> None:
    kind = kinds.of(apps.Deployment)
    old = apps.Deployment()
    old.metadata.generation = 1
    new = apps.Deployment()
    new.metadata.annotations["a"] = "b"
    strategy_for(kind).prepare_for_update(new, old, _request(kind))
    assert new.metadata.generation == 2


def test_status_updates_leave_the_rest_alone() -> None:
    kind = kinds.of(core.Pod)
    old = core.Pod()
    old.spec.nodeName = "n1"
    old.metadata.ownerReferences.add(uid="u1")
    old.status.qosClass = "BestEffort"
    new = core.Pod()
    new.spec.nodeName = "n2"
    new.metadata.labels["l"] = "1"
    new.status.phase = "Running"
    strategy_for(kind).prepare_for_status_update(new, old, _request(kind))
    assert (new.spec.nodeName, new.status.phase, new.status.qosClass) == ("n1", "Running", "BestEffort")
    assert [owner.uid for owner in new.metadata.ownerReferences] == ["u1"]
    assert dict(new.metadata.labels) == {"l": "1"}


@pytest.mark.parametrize(
    ("node", "phase", "in_spec", "asked", "settled"),
    [
        ("n1", "Running", None, None, 30),
        ("n1", "Running", 7, None, 7),
        ("n1", "Running", 7, 3, 3),
        ("n1", "Running", 7, -1, 1),
        ("", "Pending", 7, 5, 0),
        ("n1", "Succeeded", 7, None, 0),
        ("n1", "Failed", 7, 9, 0),
        ("n1", "Running", 0, None, 0),
    ],
)
def test_grace(node: str, phase: str, in_spec: int | None, asked: int | None, settled: int) -> None:
    pod = core.Pod()
    pod.spec.nodeName, pod.status.phase = node, phase
    if in_spec is not None:
        pod.spec.terminationGracePeriodSeconds = in_spec
    options = meta.DeleteOptions()
    if asked is not None:
        options.gracePeriodSeconds = asked
    assert strategy_for(kinds.of(core.Pod)).check_graceful_delete(pod, options)
    assert options.gracePeriodSeconds == settled


def test_jobs_select_their_own_pods() -> None:
    kind = kinds.of(batch.Job)
    job = batch.Job()
    job.metadata.name, job.metadata.uid = "once", "u-1"
    strategy_for(kind).prepare_for_create(job, _request(kind))
    assert dict(job.spec.selector.matchLabels) == {"batch.kubernetes.io/controller-uid": "u-1"}
    assert job.spec.template.metadata.labels["batch.kubernetes.io/job-name"] == "once"
    assert dict(job.metadata.labels) == dict(job.spec.template.metadata.labels)
    by_hand = batch.Job()
    by_hand.spec.manualSelector = True
    strategy_for(kind).prepare_for_create(by_hand, _request(kind))
    assert not by_hand.spec.HasField("selector")


@pytest.mark.parametrize(
    ("policy", "default", "before", "after"),
    [
        ("Foreground", "Background", ["x"], ["x", "foregroundDeletion"]),
        ("Orphan", "Background", ["foregroundDeletion"], ["orphan"]),
        ("Background", "Orphan", ["orphan", "x"], ["x"]),
        ("", "Background", ["orphan"], ["orphan"]),
        ("", "Background", ["foregroundDeletion"], ["foregroundDeletion"]),
        ("", "Orphan", [], ["orphan"]),
        ("", "Background", [], []),
        ("Foreground", "Unsupported", [], []),
    ],
)
def test_propagation(policy: str, default: str, before: list[str], after: list[str]) -> None:
    obj = core.ConfigMap()
    obj.metadata.finalizers.extend(before)
    options = meta.DeleteOptions()
    if policy:
        options.propagationPolicy = policy
    changed = set_propagation(obj, options, default)
    assert list(obj.metadata.finalizers) == after
    assert changed is (before != after)
