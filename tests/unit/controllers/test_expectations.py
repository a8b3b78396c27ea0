"""Orders that the watch has not shown yet."""

from controlplane.controllers.expectations import TIMEOUT_SECONDS, Expectations


def test_creates_are_awaited_in_either_order_of_answer_and_event() -> None:
    expected = Expectations()
    expected.expect_creates("rs", 2, 0.0)
    assert not expected.satisfied("rs", 1.0)
    expected.create_answered("rs", "a")
    expected.pod_seen("rs", "b")  # the event came before the answer
    expected.create_answered("rs", "b")
    assert not expected.satisfied("rs", 1.0)
    expected.pod_seen("rs", "a")
    assert expected.satisfied("rs", 1.0)


def test_events_of_other_pods_count_nothing() -> None:
    expected = Expectations()
    expected.expect_creates("rs", 1, 0.0)
    expected.pod_seen("rs", "somebody")
    expected.create_answered("rs", "a")
    expected.pod_seen("rs", "somebody")
    assert not expected.satisfied("rs", 1.0)
    expected.pod_seen("rs", "a")
    assert expected.satisfied("rs", 1.0)


def test_a_failed_create_is_not_awaited() -> None:
    expected = Expectations()
    expected.expect_creates("rs", 1, 0.0)
    expected.create_answered("rs", "")
    assert expected.satisfied("rs", 1.0)


def test_a_pod_that_is_deleted_before_it_was_shown_is_not_awaited() -> None:
    expected = Expectations()
    expected.expect_creates("rs", 1, 0.0)
    expected.create_answered("rs", "a")
    expected.pod_going("rs", "a")
    assert expected.satisfied("rs", 1.0)


def test_deletes_are_awaited_one_by_one() -> None:
    expected = Expectations()
    expected.expect_deletes("rs", ["a", "b"], 0.0)
    expected.pod_going("rs", "a")
    expected.pod_going("rs", "a")
    assert not expected.satisfied("rs", 1.0)
    expected.pod_going("rs", "b")
    assert expected.satisfied("rs", 1.0)


def test_orders_are_given_up_in_the_end() -> None:
    expected = Expectations()
    expected.expect_deletes("rs", ["a"], 0.0)
    assert not expected.satisfied("rs", TIMEOUT_SECONDS)
    assert expected.satisfied("rs", TIMEOUT_SECONDS + 1)
    assert expected.satisfied("other", 0.0)
