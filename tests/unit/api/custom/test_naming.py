"""Who gets which names, and in which order versions come."""

from __future__ import annotations

from tests.support.definitions import definition
from wharfinger.api.custom import naming, versions


def test_the_first_is_accepted() -> None:
    one = definition("x.example.com")
    naming.settle(one, naming.Taken())
    assert naming.is_true(one, naming.ESTABLISHED)
    assert one.status.acceptedNames.kind == "Lamp"
    before = one.status.SerializeToString(deterministic=True)
    naming.settle(one, naming.Taken())
    assert one.status.SerializeToString(deterministic=True) == before


def test_names_that_are_taken() -> None:
    one, two = definition("x.example.com"), definition("x.example.com")
    naming.settle(one, naming.Taken())
    two.metadata.name, two.spec.names.plural, two.spec.names.singular = "bulbs.x.example.com", "bulbs", "bulb"
    two.spec.names.listKind = "BulbList"
    verdict = naming.judge(two, naming.Taken([one]))
    assert (verdict.accepted, verdict.reason) == (False, "KindConflict")
    naming.settle(two, naming.Taken([one]))
    assert not naming.is_true(two, naming.ESTABLISHED)
    two.spec.names.kind = "Bulb"
    two.spec.names.shortNames.append("lamp")
    assert naming.judge(two, naming.Taken([one])).reason == "ShortNamesConflict"
    two.spec.names.shortNames[:] = ["bl"]
    naming.settle(two, naming.Taken([one]))
    assert naming.is_true(two, naming.ESTABLISHED)


def test_an_established_definition_stays_so() -> None:
    one, two = definition("x.example.com"), definition("x.example.com")
    naming.settle(one, naming.Taken())
    two.metadata.name, two.spec.names.plural, two.spec.names.singular = "bulbs.x.example.com", "bulbs", "bulb"
    two.spec.names.kind, two.spec.names.listKind = "Bulb", "BulbList"
    naming.settle(two, naming.Taken([one]))
    two.spec.names.kind = "Lamp"
    naming.settle(two, naming.Taken([one]))
    assert naming.is_true(two, naming.ESTABLISHED)
    assert not naming.is_true(two, naming.ACCEPTED)
    assert two.status.acceptedNames.kind == "Bulb"


def test_order_of_versions() -> None:
    found = ["v1alpha1", "foo", "v2beta1", "v1", "v10", "v1beta2", "v2", "bar", "v1beta10"]
    assert sorted(found, key=versions.priority) == [
        "v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "bar", "foo",
    ]  # fmt: skip


def test_a_group() -> None:
    many = []
    for number in range(4):
        one = definition("x.example.com")
        one.metadata.name, one.spec.names.plural = f"p{number}.x.example.com", f"p{number}"
        one.spec.names.singular, one.spec.names.kind, one.spec.names.listKind = (
            f"s{number}",
            f"K{number % 3}",
            f"L{number}",
        )
        many.append(one)
    settled = naming.settle_group(many)
    assert [naming.is_true(one, naming.ESTABLISHED) for one in settled] == [True, True, True, False]
    assert not many[0].status.conditions
