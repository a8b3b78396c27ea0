from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, pod
from wharfinger.api.defaults import app_armor
from wharfinger.api.types import batch, core, meta
from wharfinger.api.validation import warnings

CONTAINER = {"name": "c", "image": "nginx"}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}}


def _paths(found: list[str]) -> list[str]:
    return [warning.partition(": ")[0] for warning in found]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({}, []),
        ({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}, ["spec.nodeSelector[beta.kubernetes.io/os]"]),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, ["spec.imagePullSecrets[1].name"]),
        ({"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}, ["spec.hostAliases[1].ip"]),
        (
            {"containers": [{**CONTAINER, "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]},
            ["spec.containers[0].env[1]"],
        ),
        ({"containers": [{**CONTAINER, "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}]}, []),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 80}, {"containerPort": 80}]}]},
            ["spec.containers[0].ports[1]"],
        ),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]},
            [],
        ),
        (
            {"containers": [{**CONTAINER, "resources": {"requests": {"memory": "100m"}}}]},
            ["spec.containers[0].resources.requests[memory]"],
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            ["spec.topologySpreadConstraints[0].labelSelector"],
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [
                                {"configMap": {"name": "a", "items": [{"key": "k", "path": "x/y"}]}},
                                {"secret": {"name": "b", "items": [{"key": "k", "path": "x"}]}},
                            ]
                        },
                    }
                ]
            },
            ["spec.volumes[0].projected.sources[1].secret.items[0].path"],
        ),
        ({"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]}, ["spec.volumes[0].gitRepo"]),
    ],
)
def test_pods(spec: dict[str, Any], paths: list[str]) -> None:
    for _ in range(2):  # once judged, once remembered
        assert _paths(warnings.creating(pod(**spec))) == paths


def test_changed_pods_are_not_read_again() -> None:
    odd = pod(nodeSelector={"beta.kubernetes.io/os": "linux"})
    assert warnings.updating(odd, odd) == []


def test_workloads_are_judged_when_their_specification_changes() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}  # type: ignore[dict-item]
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    old = build("apps/v1 Deployment", {"metadata": {"name": "has.dots"}, "spec": spec})
    path = "spec.template.spec.nodeSelector[beta.kubernetes.io/os]"
    assert _paths(warnings.creating(old)) == ["metadata.name", path]
    new = type(old)()
    new.CopyFrom(old)
    assert warnings.updating(new, old) == []
    new.metadata.generation += 1
    assert _paths(warnings.updating(new, old)) == [path]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 0),
        ({"externalName": "a.example"}, 1),
        ({"clusterIP": "None", "loadBalancerIP": "1.2.3.4", "externalIPs": ["1.2.3.4"]}, 2),
        ({"externalIPs": ["fd00:0::1"]}, 1),
        ({"externalIPs": ["010.0.0.1"]}, 1),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1/8", "10.0.0.0/8", "fd00:0::/64"]}, 2),
    ],
)
def test_services(spec: dict[str, Any], count: int) -> None:
    service = build("v1 Service", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}})
    assert len(warnings.creating(service)) == count


def test_certificates_that_cannot_be_read() -> None:
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "", "tls.key": ""}}
    assert len(warnings.creating(build("v1 Secret", body))) == 1
    assert warnings.creating(build("v1 Secret", {"metadata": {"name": "s"}})) == []


def test_deletions_and_deprecations() -> None:
    assert warnings.deleting(batch.Job, meta.DeleteOptions())
    assert not warnings.deleting(batch.Job, meta.DeleteOptions(propagationPolicy="Orphan"))
    assert not warnings.deleting(core.Pod, meta.DeleteOptions())
    assert warnings.deprecation(core.Endpoints)
    assert not warnings.deprecation(core.Pod)


def test_profiles_from_annotations() -> None:
    def annotated(text: str) -> Any:
        made = pod()
        made.metadata.annotations[app_armor.PREFIX + "c"] = text
        return made

    made = annotated("localhost/mine")
    assert len(app_armor.adopt(made)) == 1
    profile = made.spec.containers[0].securityContext.appArmorProfile
    assert (profile.type, profile.localhostProfile) == ("Localhost", "mine")
    assert app_armor.adopt(made) == []
    assert app_armor.adopt(annotated("no such profile")) == []
    assert app_armor.adopt(pod()) == []
