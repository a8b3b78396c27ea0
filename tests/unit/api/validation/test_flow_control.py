"""Rules of priority levels."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api import codec, defaults
from wharfinger.api.types import flowcontrol
from wharfinger.api.validation import validate_create

QUEUE = {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}}


def _fields(spec: dict[str, Any]) -> list[str]:
    document = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    level = codec.from_json(document, flowcontrol.PriorityLevelConfiguration).message
    defaults.apply(level)
    return [error.field for error in validate_create(level)]


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "Exempt"},
        {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 100}},
        {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
        {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": QUEUE}},
    ],
)
def test_levels_that_are_right(spec: dict[str, Any]) -> None:
    assert _fields(spec) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.type"),
        ({"type": "Other"}, "spec.type"),
        ({"type": "Limited"}, "spec.limited"),
        ({"type": "Exempt", "limited": {"limitResponse": {"type": "Reject"}}}, "spec.limited"),
        ({"type": "Exempt", "exempt": {"lendablePercent": 101}}, "spec.exempt.lendablePercent"),
        ({"type": "Limited", "limited": {"limitResponse": {"type": "Wait"}}}, "spec.limited.limitResponse.type"),
        (
            {"type": "Limited", "limited": {"nominalConcurrencyShares": -1, "limitResponse": {"type": "Reject"}}},
            "spec.limited.nominalConcurrencyShares",
        ),
        (
            {"type": "Limited", "limited": {"limitResponse": {**QUEUE, "type": "Reject"}}},
            "spec.limited.limitResponse.queuing",
        ),
        (
            {
                "type": "Limited",
                "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 5}}},
            },
            "spec.limited.limitResponse.queuing.handSize",
        ),
    ],
)
def test_levels_that_are_wrong(spec: dict[str, Any], field: str) -> None:
    assert field in _fields(spec)
