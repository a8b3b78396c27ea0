"""Bounds of containers, pods and claims; golden conversations cover the usual cases."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.admission.limit_ranger import claim_violations, defaults_of, fill, pod_violations
from wharfinger.api import codec
from wharfinger.api.types import core


def _range(**item: Any) -> core.LimitRange:
    made: core.LimitRange = codec.from_json({"spec": {"limits": [item]}}, core.LimitRange).message
    return made


def _pod(*containers: dict[str, Any]) -> core.Pod:
    listed = [{"name": f"c{number}", "resources": one} for number, one in enumerate(containers)]
    made: core.Pod = codec.from_json({"spec": {"containers": listed}}, core.Pod).message
    return made


def test_what_is_set_is_said() -> None:
    limits, requests = defaults_of(_range(type="Container", default={"memory": "1Gi"}, defaultRequest={"cpu": "1"}))
    pod = _pod({"requests": {"cpu": "2"}}, {})
    said = [text for one in pod.spec.containers for text in fill(one, "container", limits=limits, requests=requests)]
    assert said == ["memory limit for container c0", "cpu request for container c1", "memory limit for container c1"]
    assert pod.spec.containers[0].resources.requests["cpu"].string == "2"
    assert pod.spec.containers[1].resources.limits["memory"].string == "1Gi"


def test_bounds_of_containers() -> None:
    bounds = _range(type="Container", min={"cpu": "100m"}, max={"cpu": "1"}, maxLimitRequestRatio={"cpu": "2"})
    fits = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    assert list(pod_violations(_pod(fits), bounds)) == []
    assert list(pod_violations(_pod({"requests": {"cpu": "50m"}, "limits": {"cpu": "2"}}), bounds)) == [
        "minimum cpu usage per Container is 100m, but request is 50m",
        "maximum cpu usage per Container is 1, but limit is 2",
        "cpu max limit to request ratio per Container is 2, but provided ratio is 40.000000",
    ]
    assert list(pod_violations(_pod({}), bounds)) == [
        "minimum cpu usage per Container is 100m.  No request is specified",
        "maximum cpu usage per Container is 1.  No limit is specified",
        "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
    ]


def test_bounds_of_pods_are_of_the_sum() -> None:
    bounds = _range(type="Pod", max={"memory": "1Gi"})
    half = {"limits": {"memory": "512Mi"}}
    assert list(pod_violations(_pod(half, half), bounds)) == []
    assert list(pod_violations(_pod(half, half, half), bounds)) == [
        "maximum memory usage per Pod is 1Gi, but limit is 1536Mi"
    ]


def test_bounds_of_claims() -> None:
    claim = core.PersistentVolumeClaim()
    claim.spec.resources.requests["storage"].string = "20Gi"
    bounds = _range(type="PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "10Gi"})
    assert list(claim_violations(claim, bounds)) == [
        "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 20Gi"
    ]
