"""What manifests and flags of ``wharf simulate`` stand for."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.cli.failures import CommandError
from wharfinger.cli.simulate import added_nodes, pods_of


def test_added_nodes() -> None:
    first, second = added_nodes("big*2,cpu=32,example.com/gpu=4,label:zone=a")
    assert (first.metadata.name, second.metadata.name) == ("big-0", "big-1")
    assert {name: amount.string for name, amount in first.status.allocatable.items()} == {
        "cpu": "32", "memory": "8Gi", "pods": "110", "example.com/gpu": "4"
    }  # fmt: skip
    assert dict(first.metadata.labels) == {"kubernetes.io/hostname": "big-0", "zone": "a"}
    assert [node.metadata.name for node in added_nodes("one")] == ["one"]


@pytest.mark.parametrize("text", ["", "cpu=4", "a*0", "a*x", "a,cpu", "a,cpu=many"])
def test_mistakes_in_added_nodes(text: str) -> None:
    with pytest.raises(CommandError, match="--add-node"):
        added_nodes(text)


@pytest.mark.parametrize(
    ("kind", "spec", "count"),
    [
        ("Deployment", {"replicas": 3}, 3),
        ("StatefulSet", {}, 1),
        ("Job", {"parallelism": 4, "completions": 2}, 2),
        ("Deployment", {"replicas": 0}, 0),
        ("Service", {}, 0),
    ],
)
def test_workloads_stand_for_their_pods(kind: str, spec: dict[str, Any], count: int) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    found = pods_of({"kind": kind, "metadata": {"name": "w", "namespace": "n"}, "spec": {**spec, "template": template}})
    assert (found.count if found else 0) == count
    if found is not None:
        assert found.document["metadata"] == {"labels": {"app": "x"}, "name": "w", "namespace": "n"}
