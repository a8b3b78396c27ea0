"""The three-way patch: what is set, what is deleted, what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api.types import apps, core
from wharfinger.cli.applied import LAST_APPLIED, annotated, go_json, last_applied
from wharfinger.cli.strategic import three_way

POD = core.Pod


def _pod(*containers: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"containers": list(containers)}}


@pytest.mark.parametrize(
    ("original", "modified", "current", "expected"),
    [
        pytest.param({}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "b"}}}, {}, id="nothing"),
        pytest.param(
            {}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"x": "y"}}},
            {"metadata": {"labels": {"a": "b"}}}, id="others' labels stay",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b", "c": "d"}}}, {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b", "c": "d", "x": "y"}}}, {"metadata": {"labels": {"c": None}}},
            id="what was applied and is no more is deleted",
        ),
        pytest.param(
            {"metadata": {"labels": {"c": "d"}}}, {"metadata": {}}, {"metadata": {"labels": {"c": "d", "x": "y"}}},
            {"metadata": {"labels": None}}, id="a map that is no more goes as a whole",
        ),
        pytest.param(
            {"metadata": {"labels": {"gone": "x"}}}, {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b"}}}, {}, id="what is gone already needs no deletion",
        ),
        pytest.param(
            {}, {"metadata": {"labels": None}}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": None}},
            id="an explicit null deletes",
        ),
        pytest.param(
            {}, {"metadata": {"labels": None}}, {"metadata": {}}, {}, id="a null for what is not there is nothing",
        ),
    ],
)  # fmt: skip
def test_maps(original: Any, modified: Any, current: Any, expected: Any) -> None:
    assert three_way(original, modified, current, POD) == expected


def test_a_container_is_changed_by_its_name() -> None:
    current = _pod({"name": "a", "image": "1", "imagePullPolicy": "Always"}, {"name": "b", "image": "1"})
    patch = three_way({}, _pod({"name": "a", "image": "2"}, {"name": "b", "image": "1"}), current, POD)
    assert patch == {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
            "containers": [{"name": "a", "image": "2"}],
        }
    }  # fmt: skip


def test_containers_are_added_and_deleted() -> None:
    one, two, three = ({"name": name, "image": "1"} for name in "abc")
    patch = three_way(_pod(one, two), _pod(one, three), _pod(one, two), POD)
    assert patch == {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
            "containers": [three, {"$patch": "delete", "name": "b"}],
        }
    }


def test_containers_of_others_stay() -> None:
    mine, injected = {"name": "a", "image": "1"}, {"name": "proxy", "image": "p"}
    assert three_way(_pod(mine), _pod(mine), _pod(mine, injected), POD) == {}


def test_order_alone_is_a_change() -> None:
    one, two = ({"name": name, "image": "1"} for name in "ab")
    patch = three_way({}, _pod(two, one), _pod(one, two), POD)
    assert patch == {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}


def test_lists_of_values() -> None:
    before, now = {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b", "c"]}}
    patch = three_way(before, now, {"metadata": {"finalizers": ["a", "b", "x"]}}, POD)
    assert patch == {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "finalizers": ["c"],
            "$setElementOrder/finalizers": ["b", "c"],
        }
    }


def test_lists_without_a_key_are_replaced() -> None:
    current = _pod({"name": "a", "args": ["x"]})
    patch = three_way({}, _pod({"name": "a", "args": ["y"]}), current, POD)
    assert patch["spec"]["containers"] == [{"name": "a", "args": ["y"]}]


def test_a_volume_changes_its_source_as_a_whole() -> None:
    current = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = three_way({}, {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}, current, POD)
    assert patch["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["hostPath", "name"]}]


def test_a_strategy_keeps_only_its_keys() -> None:
    current = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = three_way({}, {"spec": {"strategy": {"type": "Recreate"}}}, current, apps.Deployment)
    assert patch == {"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}}


def test_fields_that_the_schema_does_not_know() -> None:
    assert three_way({}, {"spec": {"new": {"a": 1}}}, {"spec": {"new": {"b": 2}}}, POD) == {"spec": {"new": {"a": 1}}}
    assert three_way({}, {"spec": {"new": [1]}}, {"spec": {"new": [2]}}, POD) == {"spec": {"new": [1]}}


def test_a_number_is_not_a_truth_value() -> None:
    assert three_way({}, {"spec": {"priority": 1}}, {"spec": {"priority": True}}, POD) == {"spec": {"priority": 1}}


# --- the annotation --------------------------------------------------------------------------------------------------


def test_the_annotation_is_byte_for_byte_kubectls() -> None:
    document = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": {"x": "a<b&c"}}
    made = annotated(document, "default")
    assert made["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"web","namespace":"default"},'
        '"spec":{"x":"a\\u003cb\\u0026c"}}\n'
    )
    assert last_applied(made) == {
        **document, "metadata": {"name": "web", "namespace": "default", "annotations": {}},
    }  # fmt: skip
    assert "annotations" not in document["metadata"]


def test_an_older_annotation_is_not_nested() -> None:
    once = annotated({"kind": "Pod", "metadata": {"name": "web", "annotations": {"a": "b"}}}, "")
    assert annotated(once, "") == once


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_an_unreadable_annotation_counts_as_none(text: str) -> None:
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: text}}}) is None


def test_go_json_keeps_other_characters() -> None:
    assert go_json({"b": "ü", "a": 1}) == '{"a":1,"b":"ü"}'
