"""Patches of single parts of an object: only these go through JSON, and nobody can tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wharfinger.api import defaults, errors, patch
from wharfinger.api.types import core


def pod() -> core.Pod:
    made = core.Pod()
    made.metadata.name, made.metadata.namespace, made.metadata.uid = "web", "default", "u-1"
    made.metadata.labels["app"] = "web"
    made.spec.containers.add(name="main", image="busybox:1").resources.requests["cpu"].string = "100m"
    defaults.apply(made)
    made.status.phase = "Pending"
    made.status.conditions.add(type="PodScheduled", status="False", reason="Unschedulable")
    made.status.conditions.add(type="Ready", status="False")
    return made


PATCHES: list[tuple[str, dict[str, Any]]] = [
    ("strategic", {"status": {"conditions": [{"type": "Ready", "status": "True"}], "nominatedNodeName": "n1"}}),
    ("strategic", {"metadata": {"labels": {"app": None, "tier": "db"}}, "status": {"phase": "Running"}}),
    ("strategic", {"status": {"$patch": "replace", "phase": "Failed"}}),
    ("strategic", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
    ("merge", {"status": {"conditions": [{"type": "Only", "status": "True"}], "colour": "red"}}),
    ("merge", {"status": None, "metadata": {"annotations": {"a": "b"}}}),
    ("merge", {"status": {}}),
]


@pytest.mark.parametrize(("patch_type", "body"), PATCHES)
def test_a_part_becomes_what_the_whole_would(patch_type: str, body: dict[str, Any]) -> None:
    before = pod()
    parts = patch.apply(before, json.dumps(body).encode(), patch_type)
    # A field that no pod has takes the way of the whole object, and changes nothing.
    whole = patch.apply(before, json.dumps(body | {"no-such-part": 1}).encode(), patch_type)
    assert parts.message == whole.message
    assert [str(issue) for issue in whole.issues if "no-such-part" not in str(issue)] == list(map(str, parts.issues))
    assert before == pod()


@pytest.mark.parametrize("patch_type", ["merge", "strategic"])
@pytest.mark.parametrize("body", [{"status": 5}, {"status": {"conditions": "none"}}, {"metadata": {"labels": [1]}}])
def test_parts_of_the_wrong_shape_are_refused(patch_type: str, body: dict[str, Any]) -> None:
    with pytest.raises((errors.InvalidError, errors.BadRequestError)):
        patch.apply(pod(), json.dumps(body).encode(), patch_type)
