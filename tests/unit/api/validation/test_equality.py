from __future__ import annotations

import pytest

from tests.support.rules import pod
from wharfinger.api.types import core
from wharfinger.api.validation.equality import semantic_equal


@pytest.mark.parametrize(
    ("one", "other", "equal"), [("1", "1000m", True), ("1Gi", "1024Mi", True), ("1", "2", False), ("1k", "1Ki", False)]
)
def test_amounts_compare_by_what_they_are(one: str, other: str, equal: bool) -> None:
    pods = [
        pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"example.com/a": text}}}])
        for text in (one, other)
    ]
    assert semantic_equal(pods[0].spec, pods[1].spec) is equal


def test_missing_and_empty_lists_are_the_same_but_not_missing_and_empty_messages() -> None:
    one, other = core.PodSpec(), core.PodSpec()
    assert semantic_equal(one, other)
    other.securityContext.SetInParent()
    assert not semantic_equal(one, other)


def test_every_difference_counts() -> None:
    one, other = pod(), pod()
    assert semantic_equal(one.spec, other.spec)
    other.spec.containers[0].env.add(name="A")
    assert not semantic_equal(one.spec, other.spec)
    one.spec.containers[0].env.add(name="A", value="b")
    assert not semantic_equal(one.spec, other.spec)
