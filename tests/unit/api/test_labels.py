from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import labels
from wharfinger.api.errors import BadRequestError
from wharfinger.api.labels import Requirement, Selector
from wharfinger.api.types import core, meta

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared"))
CASES = SHARED / "golden" / "api" / "cases" / "selectors"


def _golden() -> list[Any]:
    found = []
    for name in ("labels-equality", "labels-sets", "labels-malformed"):
        steps = yaml.load((CASES / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader)["steps"]
        made = {
            step["request"]["body"]["metadata"]["name"]: step["request"]["body"]["metadata"].get("labels", {})
            for step in steps
            if step["request"]["method"] == "POST"
        }
        for step in steps:
            selector = (step["request"].get("query") or {}).get("labelSelector")
            if selector is None:
                continue
            body = step["expect"]["body"]
            rows = body.get("items") or [row["object"] for row in body.get("rows") or ()]
            expected = {item["metadata"]["name"] for item in rows} if step["expect"]["status"] == 200 else None
            found.append(pytest.param(made, selector, expected, id=f"{name}-{step['id']}"))
    return found


@pytest.mark.skipif(not CASES.is_dir(), reason="the golden conversations are not beside this checkout")
@pytest.mark.parametrize(("objects", "text", "expected"), _golden() if CASES.is_dir() else [])
def test_recorded_selections(objects: dict[str, dict[str, str]], text: str, expected: set[str] | None) -> None:
    if expected is None:
        with pytest.raises(BadRequestError, match="cannot read the label selector"):
            labels.parse(text)
        return
    selector = labels.parse(text)
    assert {name for name, its in objects.items() if selector.matches(its)} == expected


def test_endless_selectors_are_refused() -> None:
    with pytest.raises(BadRequestError, match="at most"):
        labels.parse("a," * 100_000)
    with pytest.raises(BadRequestError, match="cannot read"):
        labels.parse("a in (" + "," * 60_000)


NAMES = st.from_regex(r"[a-z]([a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, NAMES, st.sampled_from(["In", "NotIn"]), st.frozensets(NAMES, min_size=1, max_size=3)),
    st.builds(Requirement, NAMES, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        Requirement, NAMES, st.sampled_from(["Gt", "Lt"]), st.integers().map(lambda n: frozenset({str(n % 999)}))
    ),
)


@given(st.lists(REQUIREMENTS, max_size=4))
def test_what_is_written_is_read_back(requirements: list[Requirement]) -> None:
    requirements = [item for item in requirements if item.key not in ("in", "notin")]
    selector = Selector(tuple(sorted(requirements, key=lambda item: item.key)))
    assert labels.parse(str(selector)) == selector


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        labels.parse(text)
    except BadRequestError:
        return


def test_label_selector_messages() -> None:
    selector = meta.LabelSelector(matchLabels={"app": "web"})
    selector.matchExpressions.add(key="tier", operator="In", values=["a", "b"])
    selector.matchExpressions.add(key="old", operator="DoesNotExist")
    made = labels.from_label_selector(selector)
    assert made.matches({"app": "web", "tier": "a"})
    assert not made.matches({"app": "web", "tier": "a", "old": ""})
    assert not made.matches({"app": "web"})
    assert labels.from_label_selector(None) is labels.NOTHING
    assert not labels.NOTHING.matches({})
    assert labels.from_label_selector(meta.LabelSelector()).everything


def test_wrong_messages_name_the_field() -> None:
    selector = meta.LabelSelector(matchLabels={"-x": "y z"})
    selector.matchExpressions.add(key="k", operator="In")
    selector.matchExpressions.add(key="k", operator="Exists", values=["v"])
    selector.matchExpressions.add(key="", operator="Near", values=["bad value"])
    found = [(error.field, error.reason) for error in labels.selector_errors(selector, "spec.selector")]
    assert found == [
        ("spec.selector.matchLabels", "FieldValueInvalid"),
        ("spec.selector.matchLabels", "FieldValueInvalid"),
        ("spec.selector.matchExpressions[0].values", "FieldValueRequired"),
        ("spec.selector.matchExpressions[1].values", "FieldValueForbidden"),
        ("spec.selector.matchExpressions[2].operator", "FieldValueInvalid"),
        ("spec.selector.matchExpressions[2].key", "FieldValueInvalid"),
        ("spec.selector.matchExpressions[2].values[0]", "FieldValueInvalid"),
    ]
    with pytest.raises(ValueError, match="matchLabels"):
        labels.from_label_selector(selector)


def test_node_selectors() -> None:
    selector = core.NodeSelector()
    selector.nodeSelectorTerms.add()  # an empty term selects nothing
    assert not labels.node_selector_matches(selector, {"cores": "8"}, "n1")
    selector.nodeSelectorTerms.add().matchExpressions.add(key="cores", operator="Gt", values=["4"])
    assert labels.node_selector_matches(selector, {"cores": "8"}, "n1")
    assert not labels.node_selector_matches(selector, {"cores": "4"}, "n1")
    assert not labels.node_selector_matches(selector, {"cores": "many"}, "n1")
    selector.nodeSelectorTerms.add().matchFields.add(key="metadata.name", operator="In", values=["n1"])
    assert labels.node_selector_matches(selector, {}, "n1")
    assert not labels.node_selector_matches(selector, {}, "n2")
    selector.nodeSelectorTerms[1].matchExpressions[0].values.append("5")
    with pytest.raises(ValueError, match="exactly one whole number"):
        labels.node_selector_matches(selector, {"cores": "8"}, "n1")
