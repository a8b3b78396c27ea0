"""The clock that silence is measured on."""

import pytest

from controlplane.controllers.liveness import MAX_CREDIT_SECONDS, STALL_SECONDS, LiveClock


def test_time_counts_only_up_to_the_last_proof() -> None:
    clock = LiveClock(100.0)
    assert clock.tick(105.0, idle=1.0, period=5.0) == ""
    assert clock.value == 4.0
    assert clock.live
    assert clock.tick(110.0, idle=6.0, period=5.0) == ""
    assert clock.value == 4.0  # no new proof: no time


def test_a_gap_shorter_than_a_stall_counts_little() -> None:
    clock = LiveClock(0.0)
    clock.tick(5.0, idle=5.0, period=5.0)
    clock.tick(10.0, idle=10.0, period=5.0)
    assert clock.tick(14.0, idle=0.0, period=4.0) == ""
    assert clock.value == MAX_CREDIT_SECONDS


def test_a_stalled_watch_is_not_believed_and_restarts_everything_when_it_is_back() -> None:
    clock = LiveClock(0.0)
    now = 0.0
    while now < 3 * STALL_SECONDS:
        now += 5.0
        assert clock.tick(now, idle=now, period=5.0) == ""
    assert not clock.live
    assert clock.epoch == 0
    assert "watch" in clock.tick(now + 5.0, idle=0.0, period=5.0)
    assert clock.live
    assert clock.epoch == 1


def test_a_loop_that_stood_still_restarts_everything_even_if_the_watch_looks_fresh() -> None:
    clock = LiveClock(0.0)
    clock.tick(5.0, idle=0.0, period=5.0)
    assert "stood still" in clock.tick(17.0, idle=0.0, period=5.0)
    assert clock.epoch == 1
    assert clock.tick(22.5, idle=0.0, period=5.0) == ""


def test_waiting_for_an_answer_is_not_standing_still() -> None:
    clock = LiveClock(0.0)
    clock.tick(1.0, idle=0.0, period=1.0)
    clock.skip(9.0)
    assert clock.tick(10.0, idle=0.0, period=1.0) == ""


@pytest.mark.parametrize("seen", [5.0, 7.5])
def test_what_is_seen_between_proofs_is_never_counted_as_older_than_it_is(seen: float) -> None:
    clock = LiveClock(0.0)
    clock.tick(5.0, idle=0.0, period=5.0)
    at = clock.at(seen)
    clock.tick(10.0, idle=0.0, period=5.0)
    assert clock.value - at == pytest.approx(10.0 - seen)
