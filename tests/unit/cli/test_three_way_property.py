"""A patch computed here, applied by the server's own merge, gives what was meant: for any three pods."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.api.patch import strategic_merge
from wharfinger.api.types import core
from wharfinger.cli.strategic import three_way

_NAMES = st.sampled_from(["a", "b", "c"])
_VALUES = st.sampled_from(["1", "2"])
_ENV = st.lists(
    st.fixed_dictionaries({"name": _NAMES, "value": _VALUES}), max_size=3, unique_by=lambda one: one["name"]
)
_CONTAINER = st.fixed_dictionaries(
    {"name": _NAMES, "image": _VALUES}, optional={"env": _ENV, "args": st.lists(_VALUES, max_size=2)}
)
_VOLUME = st.one_of(
    st.fixed_dictionaries({"name": _NAMES, "emptyDir": st.just({})}),
    st.fixed_dictionaries({"name": _NAMES, "hostPath": st.fixed_dictionaries({"path": _VALUES})}),
)


def _unique(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(elements, max_size=3, unique_by=lambda one: one["name"])


_POD = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("p")},
            optional={
                "labels": st.dictionaries(_NAMES, _VALUES, max_size=3),
                "finalizers": st.lists(_NAMES, max_size=3, unique=True),
            },
        ),
        "spec": st.fixed_dictionaries(
            {"containers": _unique(_CONTAINER)},
            optional={"volumes": _unique(_VOLUME), "nodeSelector": st.dictionaries(_NAMES, _VALUES, max_size=2)},
        ),
    }
)


def _holds(wanted: Any, found: Any) -> bool:
    """Whether everything that is wanted is there; lists of named elements may have more."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _holds(value, found[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        by_name = {one["name"]: one for one in found}
        return all(one["name"] in by_name and _holds(one, by_name[one["name"]]) for one in wanted)
    # An empty list adds nothing to what is there.
    return bool(wanted == found) or wanted == []


@settings(max_examples=300, deadline=None)
@given(_POD, _POD, _POD)
def test_the_patched_object_has_what_was_applied(original: Any, modified: Any, current: Any) -> None:
    patch = three_way(original, modified, current, core.Pod)
    result = strategic_merge(current, patch, core.Pod) if patch else current
    wanted = {**modified, "metadata": {k: v for k, v in modified["metadata"].items() if k != "finalizers"}}
    wanted["spec"] = {k: v for k, v in modified["spec"].items() if k != "volumes" or v}
    assert _holds(wanted, result)
    # What was applied before, and is not applied now, is gone.
    names = {one["name"] for one in modified["spec"]["containers"]}
    dropped = {one["name"] for one in original["spec"]["containers"]} - names
    assert not dropped & {one["name"] for one in result["spec"]["containers"]}
    for key in set(original["metadata"].get("labels", {})) - set(modified["metadata"].get("labels", {})):
        assert key not in (result["metadata"].get("labels") or {})
    # What only the server has, stays.
    others = {one["name"] for one in current["spec"]["containers"]} - names - dropped
    assert others <= {one["name"] for one in result["spec"]["containers"]}


@settings(max_examples=150, deadline=None)
@given(_POD, _POD)
def test_applying_again_changes_nothing(modified: Any, current: Any) -> None:
    patch = three_way(None, modified, current, core.Pod)
    result = strategic_merge(current, patch, core.Pod) if patch else current
    assert three_way(modified, modified, result, core.Pod) == {}
