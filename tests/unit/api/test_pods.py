from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from wharfinger.api import codec, pods, storage
from wharfinger.api.types import core, meta

CORPUS = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared")) / "golden/api/storage.jsonl"


def _pod(**spec: Any) -> core.Pod:
    status = spec.pop("status", {})
    return codec.from_json({"spec": spec, "status": status}, core.Pod, validation="Strict").message


def _container(name: str = "c", **fields: Any) -> dict[str, Any]:
    resources = {part: fields.pop(part) for part in ("requests", "limits") if part in fields}
    return {"name": name, "resources": resources, **fields}


def test_containers_add_up() -> None:
    pod = _pod(
        containers=[_container(requests={"cpu": "100m", "memory": "1Ki"}), _container("d", requests={"cpu": "1"})]
    )
    assert pods.effective_requests(pod) == {"cpu": 1100, "memory": 1024}


def test_sums_are_exact_before_they_are_rounded() -> None:
    pod = _pod(containers=[_container(requests={"cpu": "100u"}), _container("d", requests={"cpu": "100u"})])
    assert pods.effective_requests(pod) == {"cpu": 1}


def test_init_containers_count_by_the_largest_moment() -> None:
    pod = _pod(
        initContainers=[_container("i", requests={"cpu": "3"}), _container("j", requests={"cpu": "1", "memory": "9"})],
        containers=[_container(requests={"cpu": "2", "memory": "4"})],
    )
    assert pods.effective_requests(pod) == {"cpu": 3000, "memory": 9}


def test_sidecars_add_up_and_are_beside_later_init_containers() -> None:
    pod = _pod(
        initContainers=[
            _container("early", requests={"cpu": "3"}),
            _container("side", requests={"cpu": "1"}, restartPolicy="Always"),
            _container("late", requests={"cpu": "3500m"}),
        ],
        containers=[_container(requests={"cpu": "2"})],
    )
    assert pods.effective_requests(pod) == {"cpu": 4500}
    pod.spec.containers[0].resources.requests["cpu"].string = "4"
    assert pods.effective_requests(pod) == {"cpu": 5000}


def test_overhead_comes_on_top_and_widens_only_limits_that_exist() -> None:
    pod = _pod(
        containers=[_container(requests={"cpu": "1"}, limits={"cpu": "2"})], overhead={"cpu": "250m", "memory": "5"}
    )
    assert pods.effective_requests(pod) == {"cpu": 1250, "memory": 5}
    assert pods.effective_limits(pod) == {"cpu": 2250}


def test_pod_level_resources_replace_the_sum() -> None:
    pod = _pod(
        containers=[_container(requests={"cpu": "5", "example.com/gpu": "1"})],
        resources={"requests": {"cpu": "2", "hugepages-2Mi": "2Mi"}},
        overhead={"cpu": "1"},
    )
    assert pods.effective_requests(pod) == {"cpu": 3000, "example.com/gpu": 1, "hugepages-2Mi": 2 * 2**20}


def test_missing_requests_for_scoring() -> None:
    pod = _pod(containers=[_container(), _container("d", requests={"cpu": "0"})])
    assert pods.effective_requests(pod) == {"cpu": 0}
    assert pods.effective_requests(pod, missing=pods.NONZERO_REQUESTS) == {"cpu": 100, "memory": 400 * 2**20}


def test_a_resize_under_way_counts_with_the_larger() -> None:
    status = {
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
        ]
    }
    pod = _pod(containers=[_container(requests={"cpu": "1"})], status=status)
    assert pods.effective_requests(pod) == {"cpu": 3000}
    pod.spec.containers[0].resources.requests["cpu"].string = "9"
    assert pods.effective_requests(pod) == {"cpu": 9000}
    pod.status.conditions.add(type="PodResizePending", reason="Infeasible", status="True")
    assert pods.effective_requests(pod) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [_container()]}, "BestEffort"),
        ({"containers": [_container(requests={"cpu": "0", "example.com/gpu": "1"})]}, "BestEffort"),
        ({"containers": [_container(requests={"cpu": "1"})]}, "Burstable"),
        ({"containers": [_container(limits={"cpu": "1"}, requests={"cpu": "1"})]}, "Burstable"),
        (
            {"containers": [_container(limits={"cpu": "1", "memory": "1"}, requests={"cpu": "1", "memory": "1"})]},
            "Guaranteed",
        ),
        (
            {"containers": [_container(limits={"cpu": "1", "memory": "1"}, requests={"cpu": "500m", "memory": "1"})]},
            "Burstable",
        ),
        (
            {
                "containers": [
                    _container(limits={"cpu": "1", "memory": "1"}, requests={"cpu": "1", "memory": "1"}),
                    _container("d"),
                ]
            },
            "Burstable",
        ),
        ({"containers": [_container()], "initContainers": [_container("i", requests={"memory": "1"})]}, "Burstable"),
        (
            {
                "containers": [_container()],
                "resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}},
            },
            "Guaranteed",
        ),
        ({"containers": [_container()], "resources": {"requests": {"cpu": "1"}}}, "Burstable"),
    ],
)
def test_qos_class(spec: dict[str, Any], expected: str) -> None:
    assert pods.qos_class(_pod(**spec)) == expected


@pytest.mark.skipif(not CORPUS.is_file(), reason="the golden corpus is not beside this checkout")
def test_qos_class_of_recorded_pods() -> None:
    entries = [json.loads(line) for line in CORPUS.read_bytes().splitlines()]
    found = [storage.decode(base64.b64decode(entry["value"])) for entry in entries if entry["resource"] == "pods"]
    assert len(found) > 5
    for pod in found:
        assert isinstance(pod, core.Pod)
        assert pods.qos_class(pod) == pod.status.qosClass


def test_state() -> None:
    pod = core.Pod()
    assert (pods.is_terminal(pod), pods.is_ready(pod), pods.is_terminating(pod), pods.is_mirror(pod)) == (False,) * 4
    pod.status.phase = "Failed"
    pod.status.conditions.add(type="Ready", status="True")
    pod.metadata.deletionTimestamp.SetInParent()
    assert pods.is_terminal(pod)
    assert pods.is_ready(pod)
    assert pods.is_terminating(pod)


def test_the_controller_is_the_owner_that_says_so() -> None:
    metadata = meta.ObjectMeta()
    metadata.ownerReferences.add(name="a")
    assert pods.controller_of(metadata) is None
    metadata.ownerReferences.add(name="b", controller=True)
    owner = pods.controller_of(metadata)
    assert owner is not None
    assert owner.name == "b"


def test_host_ports() -> None:
    port = {"containerPort": 80, "hostPort": 8080}
    pod = _pod(
        containers=[_container(ports=[port, {"containerPort": 81}])],
        initContainers=[
            _container("i", ports=[{"containerPort": 1, "hostPort": 1}]),
            _container("s", restartPolicy="Always", ports=[{"containerPort": 2, "hostPort": 2, "protocol": "UDP"}]),
        ],
    )
    assert list(pods.host_ports(pod)) == [("0.0.0.0", "UDP", 2), ("0.0.0.0", "TCP", 8080)]
    pod.spec.hostNetwork = True
    assert ("0.0.0.0", "TCP", 81) in list(pods.host_ports(pod))


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({}, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Near", "value": "v"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], covered: bool) -> None:
    taint = core.Taint(key="k", value="v", effect="NoSchedule")
    made = [core.Toleration(**toleration)]
    assert pods.tolerates(made, taint) is covered
    found = pods.untolerated(made, [core.Taint(key="x", effect="PreferNoSchedule"), taint], effects=("NoSchedule",))
    assert (found is None) is covered
