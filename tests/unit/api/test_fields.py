from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import codec, fields, kinds
from wharfinger.api.errors import BadRequestError
from wharfinger.api.fields import FieldRequirement, FieldSelector

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared"))
CASES = SHARED / "golden" / "api" / "cases" / "selectors"


def _golden() -> list[Any]:
    found = []
    for name in ("fields-pods", "fields-nodes-namespaces", "fields-of-workloads"):
        steps = yaml.load((CASES / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader)["steps"]
        namespace = {"metadata": {"name": "${ns}"}, "status": {"phase": "Active"}}
        made: dict[str, Any] = {"${ns}": (("", "v1", "namespaces"), namespace)}
        for step in steps:
            request, expect = step["request"], step["expect"]
            parts = request["path"].removesuffix("/status").split("/")
            group, version, rest = ("", parts[2], parts[3:]) if parts[1] == "api" else (parts[2], parts[3], parts[4:])
            rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
            selector = (request.get("query") or {}).get("fieldSelector")
            if selector is not None:
                items = expect["body"].get("items")
                expected = {item["metadata"]["name"] for item in items or ()} if expect["status"] == 200 else None
                address = (group, version, rest[0])
                candidates = [item for kind, item in made.values() if kind == address]
                found.append(pytest.param(address, candidates, selector, expected, id=f"{name}-{step['id']}"))
            elif expect["status"] in (200, 201) and isinstance(expect.get("body"), dict):
                made[expect["body"]["metadata"]["name"]] = ((group, version, rest[0]), expect["body"])
    return found


def _real(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _real(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_real(item) for item in value]
    return "2026-01-02T03:04:05Z" if value == "<time>" else value


@pytest.mark.skipif(not CASES.is_dir(), reason="the golden conversations are not beside this checkout")
@pytest.mark.parametrize(("address", "objects", "text", "expected"), _golden() if CASES.is_dir() else [])
def test_recorded_selections(
    address: tuple[str, str, str], objects: list[Any], text: str, expected: set[str] | None
) -> None:
    kind = kinds.by_resource(*address)
    if kind is None:
        pytest.skip(f"{address} is a second version of a stored kind")
    if expected is None:
        with pytest.raises(BadRequestError, match=r"cannot (be selected|read)"):
            fields.check(fields.parse(text), kind)
        return
    selector = fields.parse(text)
    fields.check(selector, kind)
    messages = [codec.from_json(_real(item), kind.message).message for item in objects]
    selected = {message.metadata.name for message in messages if selector.matches_object(message)}
    assert selected == expected


@pytest.mark.parametrize("text", ["a", "a=b=c", "a b", "a=\\x", "=,x"])
def test_malformed_selectors_say_where(text: str) -> None:
    with pytest.raises(BadRequestError, match="cannot read the field selector"):
        fields.parse(text)


def test_endless_selectors_are_refused() -> None:
    with pytest.raises(BadRequestError, match="at most"):
        fields.parse("a=b," * 50_000)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.sampled_from(["=", "!="]), st.text(max_size=8)), max_size=3)
)
def test_what_is_written_is_read_back(terms: list[Any]) -> None:
    selector = FieldSelector(tuple(FieldRequirement(*term) for term in terms))
    assert fields.parse(str(selector)) == selector


def test_an_index_can_use_what_must_be_equal() -> None:
    selector = fields.parse("spec.nodeName=n1,status.phase!=Failed")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None
    assert list(selector) == [("spec.nodeName", "=", "n1"), ("status.phase", "!=", "Failed")]
    assert selector.matches({"spec.nodeName": "n1"})
    assert not selector.matches({"spec.nodeName": "n1", "status.phase": "Failed"})
