from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api.errors import BadRequestError
from wharfinger.api.patch import merge_patch


@pytest.mark.parametrize(
    ("doc", "patch", "expected"),
    [  # the examples of RFC 7386 that start from objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "foo"}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
    ],
)
def test_merges(doc: Any, patch: Any, expected: Any) -> None:
    before = repr((doc, patch))
    assert merge_patch(doc, patch) == expected
    assert repr((doc, patch)) == before


@pytest.mark.parametrize("patch", [[], "x", None, 5])
def test_what_is_no_object_is_refused(patch: Any) -> None:
    with pytest.raises(BadRequestError):
        merge_patch({}, patch)
