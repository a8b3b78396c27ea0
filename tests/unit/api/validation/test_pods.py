from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.rules import build, creating, pod, updating
from wharfinger.api.types import core

CONTAINER = {"name": "c", "image": "nginx"}


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, []),
        ({"containers": []}, ["spec.containers Required"]),
        ({"containers": [{"name": "c"}]}, ["spec.containers[0].image Required"]),
        ({"containers": [{"name": "C", "image": "i"}]}, ["spec.containers[0].name Invalid"]),
        ({"containers": [CONTAINER, CONTAINER]}, ["spec.containers[1].name Duplicate"]),
        ({"initContainers": [CONTAINER]}, ["spec.initContainers[0].name Duplicate"]),
        ({"restartPolicy": "Sometimes"}, ["spec.restartPolicy NotSupported"]),
        ({"nodeName": "A"}, ["spec.nodeName Invalid"]),
        ({"nodeSelector": {"a": "x y"}}, ["spec.nodeSelector Invalid"]),
        ({"activeDeadlineSeconds": 0}, ["spec.activeDeadlineSeconds Invalid"]),
        ({"hostname": "a.b"}, ["spec.hostname Invalid"]),
        ({"volumes": [{"name": "v", "emptyDir": {}}] * 2}, ["spec.volumes[1].name Duplicate"]),
        (
            {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            ["spec.containers[0].volumeMounts[0].name NotFound"],
        ),
        (
            {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
            ["spec.containers[0].resources.requests Invalid"],
        ),
        (
            {"containers": [{**CONTAINER, "resources": {"requests": {"example.com/gpu": "500m"}}}]},
            [
                "spec.containers[0].resources.limits Required",
                "spec.containers[0].resources.requests[example.com/gpu] Invalid",
            ],
        ),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 0}]}]},
            ["spec.containers[0].ports[0].containerPort Required"],
        ),
        ({"containers": [{**CONTAINER, "env": [{"name": ""}]}]}, ["spec.containers[0].env[0].name Required"]),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            ["spec.tolerations[0].operator Invalid"],
        ),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, ["spec.nodeName Forbidden"]),
        ({"schedulingGates": [{"name": "g"}, {"name": "g"}]}, ["spec.schedulingGates[1] Duplicate"]),
    ],
)
def test_new_pods(spec: dict[str, Any], causes: list[str]) -> None:
    found = creating(pod(**spec))
    assert sorted(found) == sorted(causes)


def test_remembering_valid_specs_hides_no_mistake() -> None:
    good, bad = pod(), pod(containers=[{**CONTAINER, "imagePullPolicy": "Perhaps"}])
    for _ in range(2):
        assert creating(good) == []
        assert creating(bad) == ["spec.containers[0].imagePullPolicy NotSupported"]
    # The same specification under another name is judged for what it is there.
    named = pod()
    named.metadata.name = "B"
    assert creating(named) == ["metadata.name Invalid"]


def _image(new: Any) -> None:
    new.spec.containers[0].image = "nginx:2"


def _toleration(new: Any) -> None:
    new.spec.tolerations.add(key="a", operator="Exists")


def _nothing(new: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        (_nothing, []),
        (_image, []),
        (_toleration, []),
        (lambda new: setattr(new.spec.containers[0], "image", ""), ["spec.containers[0].image Required"]),
        (lambda new: setattr(new.spec.containers[0], "image", " x"), ["spec.containers[0].image Invalid"]),
        (lambda new: setattr(new.spec, "activeDeadlineSeconds", 5), []),
        (lambda new: setattr(new.spec, "nodeName", "n"), ["spec Forbidden"]),
        (lambda new: setattr(new.spec, "terminationGracePeriodSeconds", 1), ["spec Forbidden"]),
        (lambda new: setattr(new.spec, "hostNetwork", True), ["spec Forbidden"]),
        (
            lambda new: new.spec.containers.add().CopyFrom(new.spec.containers[0]),
            ["spec.containers[1].name Duplicate", "spec.containers Forbidden"],
        ),
        (lambda new: new.spec.schedulingGates.add(name="g"), ["spec.schedulingGates[0].name Forbidden"]),
    ],
)
def test_changed_pods(change: Callable[[Any], Any], causes: list[str]) -> None:
    found = updating(pod(), change)
    assert found == causes


def test_a_placed_pod_stays_where_it_is() -> None:
    placed = pod(nodeName="n")
    assert updating(placed, lambda new: setattr(new.spec, "nodeName", "m")) == ["spec Forbidden"]
    assert updating(placed, lambda new: new.spec.ClearField("nodeName")) == ["spec Forbidden"]


def test_tolerations_only_grow() -> None:
    tolerant = pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])
    assert "spec.tolerations Forbidden" in updating(tolerant, lambda new: new.spec.ClearField("tolerations"))
    # How long one lasts may change.
    assert updating(tolerant, lambda new: setattr(new.spec.tolerations[0], "tolerationSeconds", 9)) == []


def test_a_deadline_only_shrinks() -> None:
    timed = pod(activeDeadlineSeconds=10)
    assert updating(timed, lambda new: setattr(new.spec, "activeDeadlineSeconds", 5)) == []
    assert updating(timed, lambda new: setattr(new.spec, "activeDeadlineSeconds", 20)) == [
        "spec.activeDeadlineSeconds Invalid"
    ]
    assert updating(timed, lambda new: new.spec.ClearField("activeDeadlineSeconds")) == [
        "spec.activeDeadlineSeconds Invalid"
    ]


def test_a_negative_grace_period_may_become_one() -> None:
    old = pod()
    old.spec.terminationGracePeriodSeconds = -1
    assert updating(old, lambda new: setattr(new.spec, "terminationGracePeriodSeconds", 1)) == []


def test_gates_only_fall_and_gated_pods_take_narrower_rules() -> None:
    gated = pod(schedulingGates=[{"name": "a"}, {"name": "b"}])
    assert updating(gated, lambda new: new.spec.schedulingGates.pop(0)) == []
    assert updating(gated, lambda new: new.spec.nodeSelector.update({"zone": "a"})) == []
    assert updating(pod(), lambda new: new.spec.nodeSelector.update({"zone": "a"})) == ["spec Forbidden"]
    chosen = pod(schedulingGates=[{"name": "a"}], nodeSelector={"zone": "a"})
    assert updating(chosen, lambda new: new.spec.nodeSelector.update({"zone": "b"}))
    assert updating(chosen, lambda new: new.spec.nodeSelector.clear())


def test_another_notation_of_an_amount_is_no_change() -> None:
    old = pod(containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}])

    def rewrite(new: Any) -> None:
        new.spec.containers[0].resources.requests["cpu"].string = "1000m"

    assert updating(old, rewrite) == []


def _finished(exit_code: int, **spec: Any) -> Any:
    old = pod(**spec)
    status = old.status.containerStatuses.add(name="c")
    status.state.terminated.exitCode = exit_code
    return old


def _run_again(new: Any) -> None:
    new.status.containerStatuses[0].state.ClearField("terminated")
    new.status.containerStatuses[0].state.running.SetInParent()


@pytest.mark.parametrize(
    ("policy", "exit_code", "allowed"),
    [("Always", 0, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 1, False), ("Never", 0, False)],
)
def test_finished_containers_run_again_only_under_a_policy_that_restarts(
    policy: str, exit_code: int, allowed: bool
) -> None:
    causes = updating(_finished(exit_code, restartPolicy=policy), _run_again, "status")
    assert causes == ([] if allowed else ["status.containerStatuses[0].state Forbidden"])


def test_addresses_of_a_status() -> None:
    def addresses(*texts: str) -> list[str]:
        return updating(pod(), lambda new: [new.status.podIPs.add(ip=text) for text in texts], "status")

    assert addresses("10.0.0.1") == []
    assert addresses("10.0.0.1", "fd00::1") == []
    assert addresses("10.0.0.1", "10.0.0.2") == ["status.podIPs Invalid"]
    assert addresses("ten") == ["status.podIPs[0] Invalid"]


def test_a_status_places_no_pod() -> None:
    assert updating(pod(), lambda new: setattr(new.spec, "nodeName", "n"), "status") == ["status.nodeName Forbidden"]


def test_ephemeral_containers_only_come() -> None:
    def add(new: Any, name: str = "debug") -> None:
        common = new.spec.ephemeralContainers.add().ephemeralContainerCommon
        common.name, common.image, common.imagePullPolicy = name, "busybox", "Always"
        common.terminationMessagePath, common.terminationMessagePolicy = "/dev/termination-log", "File"

    old = pod()
    assert updating(old, add, "ephemeralcontainers") == []
    add(old)
    assert updating(old, lambda new: new.spec.ClearField("ephemeralContainers"), "ephemeralcontainers") == [
        "spec.ephemeralContainers Forbidden"
    ]
    assert creating(old) == ["spec.ephemeralContainers Forbidden"]


def test_resizing_changes_cpu_and_memory_within_a_class() -> None:
    old = pod(containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}])

    def resize(field: str, name: str, text: str) -> Callable[[Any], Any]:
        return lambda new: setattr(getattr(new.spec.containers[0].resources, field)[name], "string", text)

    assert updating(old, resize("requests", "cpu", "500m"), "resize") == []
    assert updating(old, resize("requests", "memory", "1Gi"), "resize") == []
    assert updating(old, resize("requests", "ephemeral-storage", "1Gi"), "resize") == ["spec Forbidden"]
    assert updating(old, _image, "resize") == ["spec Forbidden"]
    assert updating(pod(), resize("requests", "cpu", "1"), "resize") == ["spec Invalid"]


def test_bindings_name_a_node() -> None:
    def binding(**target: str) -> Any:
        return build("v1 Binding", {"metadata": {"name": "p"}, "target": target})

    assert creating(binding(kind="Node", name="n")) == []
    assert creating(binding(kind="Node")) == ["target.name Required"]
    assert creating(binding(kind="Pod", name="n")) == ["target.kind NotSupported"]


def test_deeply_odd_pods_cost_no_exception() -> None:
    odd = core.Pod()
    assert creating(odd)
