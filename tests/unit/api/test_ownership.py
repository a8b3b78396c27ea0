"""Owners of fields: sets, applies, conflicts, and what updates do to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import ownership
from wharfinger.api.errors import StatusError
from wharfinger.api.ownership import fields
from wharfinger.api.ownership.fields import Type
from wharfinger.api.ownership.managers import FieldConflictError
from wharfinger.api.types import apps, core

POD = Type("object", core.Pod.DESCRIPTOR)  # type: ignore[arg-type]


def _config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def _apply(manager: str, old: Any, config: dict[str, Any], *, force: bool = False, kind: Any = core.ConfigMap) -> Any:
    return ownership.apply(ownership.Applied(config, manager, force), old, kind)


def _owners(obj: Any) -> dict[str, Any]:
    return {entry.manager: json.loads(entry.fieldsV1.raw) for entry in obj.metadata.managedFields}


_names = st.text("abc", min_size=1, max_size=3)
_paths = st.lists(st.builds("f:{}".format, _names), min_size=1, max_size=4).map(tuple)


@given(st.frozensets(_paths, max_size=12))
def test_sets_survive_their_notation(found: fields.Fields) -> None:
    assert fields.from_json(fields.to_json(found)) == found


def test_a_set_names_leaves_and_elements_of_lists_with_keys() -> None:
    value = {
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}], "nodeSelector": {}}
    }
    assert fields.to_json(frozenset(fields.of_value(value, POD))) == {
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                }
            },
            "f:nodeSelector": {},
        }
    }


def test_what_nobody_applies_any_more_goes() -> None:
    first = _apply("one", None, _config(x="1", y="1"))
    both = _apply("two", first, _config(y="1"))
    left = _apply("one", both, _config())
    assert dict(left.data) == {"y": "1"}
    assert set(_owners(left)) == {"one", "two"}
    assert dict(_apply("two", left, _config()).data) == {}


def test_others_fields_are_taken_by_force_alone() -> None:
    first = _apply("one", None, _config(x="1"))
    with pytest.raises(FieldConflictError) as caught:
        _apply("two", first, _config(x="2"))
    cause = caught.value.to_status().details.causes[0]
    assert (cause.field, cause.reason) == (".data.x", "FieldManagerConflict")
    taken = _apply("two", first, _config(x="2"), force=True)
    assert _owners(taken) == {"two": {"f:data": {"f:x": {}}}}


def test_updates_take_what_they_change() -> None:
    applied = _apply("one", None, _config(x="1", y="1"))
    updated = type(applied)()
    updated.CopyFrom(applied)
    updated.data["x"] = "2"
    ownership.updated(updated, applied, "editor", "v1", "")
    assert _owners(updated) == {"one": {"f:data": {"f:y": {}}}, "editor": {"f:data": {"f:x": {}}}}


def test_an_object_from_before_belongs_to_whoever_made_it() -> None:
    old = core.ConfigMap(data={"x": "1"})
    old.metadata.name = "a"
    with pytest.raises(FieldConflictError) as caught:
        _apply("one", old, _config(x="2"))
    assert "before-first-apply" in caught.value.message
    assert "before-first-apply" in _owners(_apply("one", old, _config(x="1")))


def test_lists_with_keys_are_joined_and_thinned() -> None:
    def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
        template = {"spec": {"containers": list(containers)}}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"template": template},
        }

    web, side = {"name": "web", "image": "w:1"}, {"name": "side", "image": "s:1"}
    first = _apply("one", None, deployment(web), kind=apps.Deployment)
    both = _apply("two", first, deployment(side), kind=apps.Deployment)
    assert [container.name for container in both.spec.template.spec.containers] == ["web", "side"]
    left = _apply("one", both, deployment(), kind=apps.Deployment)
    assert [container.name for container in left.spec.template.spec.containers] == ["side"]
    with pytest.raises(StatusError, match="duplicate"):
        _apply("one", left, deployment(web, web), kind=apps.Deployment)
    with pytest.raises(StatusError, match="not declared"):
        _apply("one", left, deployment({"name": "web", "imagee": "x"}), kind=apps.Deployment)
