from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api.errors import BadRequestError, InvalidError, RequestTooLargeError
from wharfinger.api.patch import json_patch


def op(name: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **{field.rstrip("_"): value for field, value in fields.items()}}


@pytest.mark.parametrize(
    ("doc", "operations", "expected"),
    [
        ({"a": 1}, [op("add", "/b", value=2)], {"a": 1, "b": 2}),
        ({"a": 1}, [op("add", "/a", value=2)], {"a": 2}),
        ({"a": [1, 3]}, [op("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [op("add", "/a/-", value=2)], {"a": [1, 2]}),
        ({"a": [1, 2]}, [op("add", "/a/-1", value=3)], {"a": [1, 2, 3]}),
        ({"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}),
        ({"a": [1, 2, 3]}, [op("remove", "/a/-1")], {"a": [1, 2]}),
        ({"a": {"b": 1}}, [op("replace", "/a/b", value={"c": None})], {"a": {"b": {"c": None}}}),
        ({"a": {}}, [op("replace", "/a/new", value=1)], {"a": {"new": 1}}),
        ({"a": [1, 2]}, [op("replace", "/a/0", value=5)], {"a": [5, 2]}),
        ({"a/b": {"m~n": 1}}, [op("replace", "/a~1b/m~0n", value=2)], {"a/b": {"m~n": 2}}),
        ({"a": {"b": 1}, "c": {}}, [op("move", "/c/d", from_="/a/b")], {"a": {}, "c": {"d": 1}}),
        (
            {"a": {"b": [1]}},
            [op("copy", "/c", from_="/a/b"), op("add", "/c/-", value=2)],
            {"a": {"b": [1]}, "c": [1, 2]},
        ),
        ({"a": {"b": 1, "c": 2}}, [op("test", "/a", value={"c": 2, "b": 1})], {"a": {"b": 1, "c": 2}}),
        ({"a": 1}, [op("test", "/none", value=None)], {"a": 1}),
        ({"x": 1}, [op("add", "no/x", value=2)], {"x": 2}),
        ({"a": 1}, [op("add", "/", value=2)], {"a": 1, "": 2}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_operations(doc: Any, operations: list[Any], expected: Any) -> None:
    before = repr(doc)
    assert json_patch(doc, operations) == expected
    assert repr(doc) == before


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/none"),
        op("remove", "/list/5"),
        op("remove", "/list/x"),
        op("remove", "/list/-"),
        op("add", "/list/4", value=1),
        op("add", "/list/-5", value=1),
        op("add", "/none/x", value=1),
        op("add", "/text/x", value=1),
        op("replace", "/list/3", value=1),
        op("replace", "/none/x", value=1),
        op("move", "/a", from_="/none"),
        op("copy", "/a", from_="/none"),
        op("move", "/a"),
        op("test", "/text", value="other"),
        op("test", "/one", value=True),
        op("test", "/one", value=1.0),
        op("test", "/none", value=1),
        op("frob", "/text"),
        {"path": "/text"},
        {"op": "remove"},
        {"op": 5, "path": "/a"},
        {"op": "remove", "path": 5},
        op("add", "", value={}),
        op("add", "text", value=1),
    ],
    ids=str,
)
def test_what_does_not_apply_is_refused(operation: dict[str, Any]) -> None:
    doc = {"list": [1, 2, 3], "text": "x", "one": 1}
    with pytest.raises(InvalidError, match="operation 1 of the JSON patch does not apply"):
        json_patch(doc, [op("add", "/fine", value=1), operation])
    assert doc == {"list": [1, 2, 3], "text": "x", "one": 1}


@pytest.mark.parametrize("patch", [{}, None, "x", [1], [[]]])
def test_what_is_no_patch_is_refused(patch: Any) -> None:
    with pytest.raises(BadRequestError):
        json_patch({}, patch)


def test_bombs_are_refused() -> None:
    with pytest.raises(RequestTooLargeError, match="operations"):
        json_patch({}, [op("add", "/a", value=1)] * 10_001)
    doubling = [op("copy", "/a/-", from_="/a")] * 60
    with pytest.raises(RequestTooLargeError, match="copies"):
        json_patch({"a": ["x" * 1000]}, doubling)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "", "0", "1", "-"]), min_size=1, max_size=3).map(
    lambda p: "/" + "/".join(p)
)
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
        "path": POINTERS,
        "from": POINTERS,
        "value": VALUES,
    }
)


@given(VALUES.filter(lambda value: isinstance(value, dict)), st.lists(OPERATIONS, max_size=4))
def test_any_patch_applies_or_is_refused(doc: Any, operations: list[Any]) -> None:
    before = repr(doc)
    with suppress(InvalidError):
        json_patch(doc, operations)
    assert repr(doc) == before
