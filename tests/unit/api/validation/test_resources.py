from __future__ import annotations

import pytest

from wharfinger.api.types import core
from wharfinger.api.validation import resources
from wharfinger.api.validation.errors import Errors


@pytest.mark.parametrize(
    ("requests", "limits", "causes"),
    [
        ({"cpu": "1"}, {"cpu": "1"}, []),
        ({"cpu": "1", "memory": "1Gi"}, {}, []),
        ({"cpu": "1001m"}, {"cpu": "1"}, ["r.requests Invalid"]),
        ({"cpu": "-1"}, {}, ["r.requests[cpu] Invalid"]),
        ({"pods": "1"}, {}, ["r.requests[pods] Invalid"]),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, []),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "2"}, ["r.requests Invalid"]),
        ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}, ["r Forbidden"]),
        ({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}, []),
        ({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "8Mi"}, ["r.requests Invalid"]),
        ({"a b": "1"}, {}, ["r.requests[a b] Invalid"]),
    ],
)
def test_requirements(requests: dict[str, str], limits: dict[str, str], causes: list[str]) -> None:
    wish = core.ResourceRequirements()
    for name, text in requests.items():
        wish.requests[name].string = text
    for name, text in limits.items():
        wish.limits[name].string = text
    errors = Errors()
    resources.validate_requirements(wish, errors, "r")
    found = {f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in errors}
    assert found == set(causes)


def test_names() -> None:
    assert resources.is_native("cpu")
    assert resources.is_native("kubernetes.io/x")
    assert resources.is_extended("example.com/gpu")
    assert not resources.is_extended("requests.example.com/gpu")
    assert resources.is_huge_page("hugepages-1Gi")
