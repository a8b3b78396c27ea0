from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, pod
from wharfinger.api import codec, defaults
from wharfinger.api.defaults.amounts import round_up
from wharfinger.api.defaults.images import pull_policy
from wharfinger.api.types import core


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.29", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
    ],
)
def test_pull_policies(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("text", "rounded"), [("1", "1"), ("100m", "100m"), ("1u", "1m"), ("1.5", "1.5"), ("100.0001m", "101m"), ("?", "?")]
)
def test_amounts_are_rounded_up_to_thousandths(text: str, rounded: str) -> None:
    resources = core.ResourceRequirements()
    resources.limits["cpu"].string = text
    round_up(resources.limits)
    assert resources.limits["cpu"].string == rounded


def test_a_small_pod() -> None:
    spec = codec.to_json(pod())["spec"]
    container = spec["containers"][0]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["imagePullPolicy"] == "Always"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]},
        {"containers": [{"name": "c", "image": "i", "livenessProbe": {"httpGet": {"port": 80}}}]},
        {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}], "hostNetwork": True},
        {"volumes": [{"name": "a"}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "d", "downwardAPI": {}}]},
    ],
)
def test_what_is_filled_in_stays_filled_in(spec: dict[str, Any]) -> None:
    once = pod(**spec)
    twice = core.Pod()
    twice.CopyFrom(once)
    defaults.apply(twice)
    assert once == twice


def test_remembered_specs_give_the_same_answer() -> None:
    spec = {"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}
    first, second = pod(**spec), pod(**spec)
    assert first.spec == second.spec
    second.spec.containers[0].image = "other"
    assert pod(**spec).spec == first.spec


def test_requests_follow_limits() -> None:
    made = pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}, "requests": {}}}])
    assert made.spec.containers[0].resources.requests["cpu"].string == "2"


def test_limits_of_templates_are_left_to_their_pods() -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    made = build(
        "apps/v1 ReplicaSet",
        {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
    )
    assert not made.spec.template.spec.containers[0].resources.requests
    assert not made.spec.template.spec.HasField("enableServiceLinks")


def test_ports_on_the_host_network_are_the_hosts() -> None:
    made = pod(hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}])
    port = made.spec.containers[0].ports[0]
    assert (port.hostPort, port.protocol) == (80, "TCP")


def test_both_names_of_the_account() -> None:
    made = pod(serviceAccountName="robot")
    assert made.spec.serviceAccount == "robot"


def test_a_volume_without_source_is_an_empty_directory() -> None:
    made = pod(volumes=[{"name": "v"}])
    assert made.spec.volumes[0].volumeSource.HasField("emptyDir")


def test_probes() -> None:
    made = pod(containers=[{"name": "c", "image": "i", "readinessProbe": {"httpGet": {"port": 80}}}])
    probe = made.spec.containers[0].readinessProbe
    assert (probe.timeoutSeconds, probe.periodSeconds, probe.successThreshold, probe.failureThreshold) == (1, 10, 1, 3)
    assert (probe.handler.httpGet.path, probe.handler.httpGet.scheme) == ("/", "HTTP")
