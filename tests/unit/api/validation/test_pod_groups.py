"""Groups of pods: what is filled in, and what is refused."""

from __future__ import annotations

import pytest

from wharfinger.api import defaults, validation
from wharfinger.api.types import gangs


def group(**spec: int) -> gangs.PodGroup:
    made = gangs.PodGroup()
    made.metadata.name, made.metadata.namespace = "train", "default"
    for name, value in spec.items():
        setattr(made.spec, name, value)
    defaults.apply(made)
    return made


def test_one_member_and_a_minute_are_the_defaults() -> None:
    made = group()
    assert (made.spec.minMember, made.spec.scheduleTimeoutSeconds) == (1, 60)
    assert not validation.validate_create(made)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": 0}, "spec.minMember"),
        ({"minMember": -2}, "spec.minMember"),
        ({"minMember": 5001}, "spec.minMember"),
        ({"scheduleTimeoutSeconds": 0}, "spec.scheduleTimeoutSeconds"),
        ({"scheduleTimeoutSeconds": 86_401}, "spec.scheduleTimeoutSeconds"),
    ],
)
def test_numbers_out_of_range_are_named(spec: dict[str, int], field: str) -> None:
    (error,) = validation.validate_create(group(**spec))
    assert error.field == field
    assert "must be between 1 and" in error.message


def test_a_status_holds_no_nonsense() -> None:
    old, new = group(), group()
    for one in (old, new):
        one.metadata.resourceVersion = "5"
    new.status.members = -1
    new.status.phase = "Done"
    found = {error.field for error in validation.validate_update(new, old, subresource="status")}
    assert found == {"status.members", "status.phase"}
