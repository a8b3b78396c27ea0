from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api import codec, patch
from wharfinger.api.errors import BadRequestError, InvalidError, StatusError, UnsupportedMediaTypeError
from wharfinger.api.patch import strategic_merge
from wharfinger.api.types import apps, core


def _containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": f"{name}:1"} for name in names]}}


def _names(pod: dict[str, Any]) -> list[str]:
    return [container["name"] for container in pod["spec"]["containers"]]


def merge(doc: dict[str, Any], change: dict[str, Any], message_class: Any = core.Pod) -> Any:
    before = repr((doc, change))
    merged = strategic_merge(doc, change, message_class)
    assert repr((doc, change)) == before
    return merged


def test_elements_pair_by_their_merge_key() -> None:
    merged = merge(_containers("a", "b"), {"spec": {"containers": [{"name": "b", "image": "b:2"}, {"name": "c"}]}})
    assert merged["spec"]["containers"] == [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c"}]


def test_new_elements_come_first_unless_an_order_says_otherwise() -> None:
    assert _names(merge(_containers("a", "b"), {"spec": {"containers": [{"name": "n"}]}})) == ["n", "a", "b"]
    order = [{"name": name} for name in ("b", "n", "a")]
    change = {"spec": {"$setElementOrder/containers": order, "containers": [{"name": "n"}]}}
    assert _names(merge(_containers("a", "b"), change)) == ["b", "n", "a"]
    assert _names(merge(_containers("a", "b"), {"spec": {"$setElementOrder/containers": order}})) == ["b", "a"]


def test_order_directives_must_fit_their_list() -> None:
    change = {"spec": {"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "n"}]}}
    with pytest.raises(StatusError, match="same order"):
        merge(_containers("a"), change)
    with pytest.raises(StatusError, match="must be a list"):
        merge(_containers("a"), {"spec": {"$setElementOrder/containers": "x"}})
    with pytest.raises(BadRequestError, match="form"):
        merge(_containers("a"), {"spec": {"$setElementOrder": []}})


def test_elements_can_be_deleted_and_lists_replaced() -> None:
    assert _names(merge(_containers("a", "b"), {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}})) == ["b"]
    change = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    assert _names(merge(_containers("a", "b"), change)) == ["z"]


def test_objects_can_be_replaced_emptied_and_thinned() -> None:
    doc = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    change: dict[str, Any] = {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}
    assert merge(doc, change, apps.Deployment) == {"spec": {"strategy": {"type": "Recreate"}}}
    change = {"spec": {"strategy": {"$patch": "delete"}}}
    assert merge(doc, change, apps.Deployment) == {"spec": {"strategy": {}}}
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert merge(doc, change, apps.Deployment) == {"spec": {"strategy": {"type": "Recreate"}}}
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": None, "type": "Recreate"}}}
    assert merge(doc, change, apps.Deployment) == {"spec": {"strategy": {"type": "Recreate"}}}
    with pytest.raises(BadRequestError, match="retainKeys"):
        merge(doc, {"spec": {"strategy": {"$retainKeys": "type"}}}, apps.Deployment)


def test_lists_of_plain_values() -> None:
    doc = {"metadata": {"finalizers": ["a", "b"]}}
    assert merge(doc, {"metadata": {"finalizers": ["c", "a"]}})["metadata"]["finalizers"] == ["c", "a", "b"]
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}
    assert merge(doc, change)["metadata"]["finalizers"] == ["b"]
    # lists without a strategy are replaced
    assert merge({"spec": {"containers": [{"name": "a", "args": ["1", "2"]}]}}, {
        "spec": {"containers": [{"name": "a", "args": ["3"]}]}
    })["spec"]["containers"] == [{"name": "a", "args": ["3"]}]  # fmt: skip


def test_null_removes_and_never_stays_behind() -> None:
    doc = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    change = {"metadata": {"labels": {"a": None, "none": None}, "annotations": {"x": None, "y": "1"}}}
    assert merge(doc, change) == {"metadata": {"labels": {"b": "2"}, "annotations": {"y": "1"}}}


def test_directives_never_reach_the_object() -> None:
    change = {
        "spec": {
            "volumes": [
                {"name": "v", "emptyDir": {"$patch": "replace", "medium": "Memory", "$retainKeys": ["medium"]}},
                {"name": "gone", "$patch": "delete"},
            ],
            "affinity": {"$patch": "delete"},
        }
    }
    merged = merge({"spec": {}}, change)
    assert merged == {"spec": {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}], "affinity": {}}}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, "lacks 'name'"),
        ({"spec": {"containers": [{"name": "a", "$patch": "explode"}]}}, "replace or delete in a list"),
        ({"spec": {"$patch": "explode"}}, "replace or delete in an object"),
        ({"spec": {"containers": [1]}}, "mixes objects"),
        ({"spec": {"containers": [[1]]}}, "lists of lists"),
    ],
)
def test_malformed_patches_are_refused(change: dict[str, Any], error: str) -> None:
    with pytest.raises(StatusError, match=error) as raised:
        merge(_containers("a"), change)
    assert raised.value.status_code == (422 if isinstance(raised.value, InvalidError) else 500)


def test_applying_reports_what_is_not_understood() -> None:
    pod = codec.from_json(_containers("a"), core.Pod).message
    body = b'{"spec":{"nodeName":"a","nodeName":"b","nodeNames":"c"}}'
    decoded = patch.apply(pod, body, "strategic")
    assert [str(issue) for issue in decoded.issues] == [
        'duplicate field "spec.nodeName"', 'unknown field "spec.nodeNames"',
    ]  # fmt: skip
    assert decoded.message.spec.nodeName == "b"
    assert pod.spec.nodeName == ""
    assert patch.apply(pod, body, "merge", validation="Ignore").issues == []
    with pytest.raises(InvalidError) as raised:
        patch.apply(pod, body, "merge", validation="Strict")
    assert [cause.field for cause in raised.value.causes] == ["patch"]
    odd = b'[{"op":"add","path":"/spec/nodeName","value":"x","odd":1}]'
    assert [str(issue) for issue in patch.apply(pod, odd, "json").issues] == ['unknown field "[0].odd"']


@pytest.mark.parametrize("patch_type", ["json", "merge", "strategic"])
@pytest.mark.parametrize("body", [b"", b"{", b"5", b"\xff", b'{"a":' * 9000, b'"x"'])
def test_bodies_that_are_no_patch_are_refused(patch_type: str, body: bytes) -> None:
    with pytest.raises(BadRequestError):
        patch.apply(core.Pod(), body, patch_type)


def test_other_types_are_refused() -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        patch.apply(core.Pod(), b"{}", "application/apply-patch+yaml")
