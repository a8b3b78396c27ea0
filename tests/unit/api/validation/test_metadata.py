from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, creating, updating
from wharfinger.api import times


def _config(**metadata: Any) -> Any:
    return build("v1 ConfigMap", {"metadata": {"name": "c", **metadata}})


@pytest.mark.parametrize(
    ("metadata", "causes"),
    [
        ({}, []),
        ({"name": "A"}, ["metadata.name Invalid"]),
        ({"labels": {"a b": "x"}}, ["metadata.labels Invalid"]),
        ({"labels": {"a": "x y"}}, ["metadata.labels Invalid"]),
        ({"annotations": {"a b": "anything at all"}}, ["metadata.annotations Invalid"]),
        ({"annotations": {"a": "x" * (1 << 18)}}, ["metadata.annotations TooLong"]),
        ({"finalizers": ["bad name"]}, ["metadata.finalizers Invalid", "metadata.finalizers[0] Invalid"]),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}]},
            [f"metadata.ownerReferences.{field} Invalid" for field in ("kind", "name", "uid")],
        ),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": str(number), "uid": str(number), "controller": True}
                    for number in range(2)
                ]
            },
            ["metadata.ownerReferences Invalid"],
        ),
    ],
)
def test_new_objects(metadata: dict[str, Any], causes: list[str]) -> None:
    assert creating(_config(**metadata)) == causes


def test_a_namespace_belongs_to_namespaced_kinds_only() -> None:
    role = build("rbac.authorization.k8s.io/v1 ClusterRole", {"metadata": {"name": "r"}})
    assert creating(role) == []
    role.metadata.namespace = "default"
    assert creating(role) == ["metadata.namespace Forbidden"]
    config = _config()
    config.metadata.namespace = ""
    assert creating(config) == ["metadata.namespace Required"]


@pytest.mark.parametrize(
    ("field", "value"), [("name", "other"), ("namespace", "other"), ("uid", "other"), ("generation", -1)]
)
def test_what_identifies_an_object_never_changes(field: str, value: Any) -> None:
    causes = updating(_config(), lambda new: setattr(new.metadata, field, value))
    assert f"metadata.{field} Invalid" in causes


def test_times_never_change() -> None:
    def later(new: Any) -> None:
        new.metadata.creationTimestamp.seconds += 60

    def deleted(new: Any) -> None:
        new.metadata.deletionTimestamp.CopyFrom(times.now())

    assert updating(_config(), later) == ["metadata.creationTimestamp Invalid"]
    assert updating(_config(), deleted) == ["metadata.deletionTimestamp Invalid"]


def test_labels_and_annotations_change_freely() -> None:
    def mark(new: Any) -> None:
        new.metadata.labels["a"] = "b"
        new.metadata.annotations["a"] = "b c"
        new.metadata.finalizers.append("example.com/wait")

    assert updating(_config(), mark) == []


def test_no_finalizers_after_deletion() -> None:
    config = _config(finalizers=["example.com/a"])
    config.metadata.deletionTimestamp.CopyFrom(times.now())
    assert updating(config, lambda new: new.metadata.finalizers.append("example.com/b")) == [
        "metadata.finalizers Forbidden"
    ]
    assert updating(config, lambda new: new.metadata.ClearField("finalizers")) == []
