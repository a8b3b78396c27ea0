"""States of zones and the rate at which their nodes are given up."""

import pytest

from controlplane.controllers.zones import EvictionRates, ZoneQueue, all_disrupted, judge_zone, rate_for, zone_of
from tests.unit.controllers.builders import node

RATES = EvictionRates()


@pytest.mark.parametrize(
    ("ready", "not_ready", "state"),
    [
        (1, 0, "Normal"),
        (0, 1, "FullDisruption"),
        (0, 3, "FullDisruption"),
        (1, 1, "Normal"),
        (1, 2, "Normal"),  # two nodes are never a disruption of a zone that has others
        (2, 3, "PartialDisruption"),
        (3, 3, "Normal"),
        (45, 55, "PartialDisruption"),
        (46, 54, "Normal"),
    ],
)
def test_state(ready: int, not_ready: int, state: str) -> None:
    assert judge_zone(ready=ready, not_ready=not_ready, rates=RATES).state == state


def test_rates_follow_the_state_and_the_size() -> None:
    assert rate_for(judge_zone(ready=9, not_ready=1, rates=RATES), RATES) == 0.1
    assert rate_for(judge_zone(ready=20, not_ready=30, rates=RATES), RATES) == 0.0
    assert rate_for(judge_zone(ready=20, not_ready=31, rates=RATES), RATES) == 0.01
    # A whole zone is gone while others live: that is what replacing is for.
    assert rate_for(judge_zone(ready=0, not_ready=9, rates=RATES), RATES) == 0.1


def test_only_all_zones_together_are_a_full_disruption() -> None:
    gone, fine = judge_zone(ready=0, not_ready=2, rates=RATES), judge_zone(ready=1, not_ready=0, rates=RATES)
    assert all_disrupted({"a": gone, "b": gone})
    assert not all_disrupted({"a": gone, "b": fine})
    assert not all_disrupted({})


def test_the_queue_gives_leave_one_by_one_at_its_rate() -> None:
    queue = ZoneQueue(0.1, 0.0)
    queue.waiting.update(dict.fromkeys(["a", "b", "c"]))
    assert queue.take(0.0) == ["a"]
    assert queue.take(5.0) == []
    assert queue.take(10.0) == ["b"]
    queue.set_rate(0.0, 12.0)
    assert queue.take(1000.0) == []
    queue.set_rate(0.1, 1000.0)
    assert queue.take(1010.0) == ["c"]


def test_zone_is_read_from_new_and_old_labels() -> None:
    obj = node(zone="z1")
    assert zone_of(obj) == "/z1"
    obj.metadata.labels["failure-domain.beta.kubernetes.io/region"] = "r1"
    assert zone_of(obj) == "r1/z1"
    assert zone_of(node()) == ""
